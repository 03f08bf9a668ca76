// Pinfold-guest is the first process of each sandbox. It carries out what its
// host asks for over its standard input and output, and ends when the host
// goes. Nobody runs it by hand.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

const usage = `pinfold-guest runs inside of a pinfold sandbox, where its host starts it and talks
to it over its standard input and output. There is nothing to use it for by hand:
run commands in a sandbox with "pinfold run".

  pinfold-guest serve       serve the host
  pinfold-guest dial NAME   connect a host that comes back to the guest that serves
  pinfold-guest version     tell the version
`

func main() {
	command := ""
	switch {
	case len(os.Args) == 2:
		command = os.Args[1]
	case len(os.Args) == 3 && os.Args[1] == "dial":
		os.Exit(dial(os.Args[2]))
	}
	switch command {
	case "serve":
		os.Exit(serve())
	case "version":
		fmt.Printf("pinfold-guest %s %s/%s\n", version(), runtime.GOOS, runtime.GOARCH)
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

// version is what the guest tells its host of itself.
func version() string { return fmt.Sprintf("protocol %d, %s", wire.Version, runtime.Version()) }
