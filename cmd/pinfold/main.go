// Command pinfold runs untrusted commands in a sandbox. See `pinfold --help`.
package main

import (
	"os"

	"github.com/pinfold-dev/pinfold/cmd/pinfold/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
