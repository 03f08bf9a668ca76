package cli

import (
	"context"
	"os"
)

const guardArgument = "__terminal-guard"

// A guard does nothing on Windows, where the console is put back by the
// program that shares it.
type guard struct{}

func startGuard(context.Context, *os.File) *guard { return nil }

func (*guard) arm(*os.File) {}

func (*guard) dismiss() {}

func guardTerminal(*os.File) int { return exitOK }
