package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/cmd/pinfold/internal/transfer"
	"github.com/pinfold-dev/pinfold/execution"
)

const cpHelp = `Copy files and folders between a sandbox and this host. As with docker: a folder goes
into one that exists, or becomes one that does not; SRC/. is what is in SRC; "-" is a
tar stream on standard input or output. A path in the sandbox that is relative starts
at its own directory. A local name with a colon is written ./a:b.

Files in the sandbox belong to its user, those on this host to you, without set-id
bits. Nothing is written outside of the target, and no symbolic link is followed that
came from the sandbox. Devices, FIFOs, sockets and links that lead out of the tree are
passed over: they are named, and the exit code is then 125.`

type copyFlags struct {
	to     attachment
	follow bool
}

func (a *app) cpCommand() *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   "cp [flags] ID:PATH DEST|-\n  pinfold cp [flags] SRC|- ID:PATH",
		Short: "Copy files between a sandbox and this host",
		Long:  cpHelp,
		Example: `  pinfold cp mybox:report.html .
  pinfold cp ./src mybox:/workspace
  pinfold cp mybox:/workspace - | tar t`,
		DisableFlagsInUseLine: true,
		Args:                  positional(cobra.ExactArgs(2), "want two paths, one of which is ID:PATH"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, name := range a.completeSandboxes(cmd.Context()) {
				names = append(names, name+":")
			}
			return names, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			from, fromInside := insidePath(args[0])
			to, toInside := insidePath(args[1])
			switch {
			case args[0] == "" || args[1] == "":
				return &usageError{cmd.CommandPath(), errors.New("a path is empty; write . for the current folder")}
			case fromInside == toInside:
				return &usageError{cmd.CommandPath(), errors.New("want exactly one of the paths as ID:PATH; a local name with a colon is written ./a:b")}
			case fromInside:
				flags.to.id = from.id
				return a.copyOut(cmd.Context(), &flags, from.path, args[1])
			}
			flags.to.id = to.id
			return a.copyIn(cmd.Context(), &flags, args[0], to.path)
		},
	}
	flags.to.register(cmd.Flags())
	cmd.Flags().BoolVarP(&flags.follow, "follow-link", "L", false, "copy what the source points to where it is a symbolic link")
	return cmd
}

type sandboxPath struct{ id, path string }

// insidePath reads ID:PATH, as docker does: what starts as a path does is one.
func insidePath(arg string) (p sandboxPath, ok bool) {
	if arg == "" || arg == "-" || arg[0] == '.' || arg[0] == '/' || filepath.IsAbs(arg) {
		return p, false
	}
	if runtime.GOOS == "windows" && filepath.VolumeName(arg) != "" {
		return p, false
	}
	p.id, p.path, ok = strings.Cut(arg, ":")
	if ok && p.path == "" {
		p.path = "."
	}
	return p, ok && !strings.ContainsAny(p.id, `/\`)
}

// copyTree copies, and says what was passed over.
func (a *app) copyTree(ctx context.Context, entries iter.Seq2[transfer.Entry, error], sink transfer.Sink) error {
	const shown = 20
	skipped := 0
	err := transfer.Copy(ctx, entries, sink, func(s *transfer.SkippedError) {
		if skipped++; skipped <= shown {
			a.stderr.say("%v", s)
		}
	})
	if err == nil && skipped > 0 {
		err = fmt.Errorf("%s passed over; all others were copied", count(skipped, "entry was", "entries were"))
	}
	return err
}

// copyOut copies from the sandbox.
func (a *app) copyOut(ctx context.Context, flags *copyFlags, from, to string) error {
	if file, ok := a.stdout.(*os.File); to == "-" && ok && isTerminal(file) {
		return errors.New("a tar stream is not for a terminal; direct it to a file or a program")
	}
	return a.withSandbox(ctx, flags.to, func(ctx context.Context, h execution.Handle) error {
		name, contents := lastName(from)
		if to == "-" {
			if contents {
				name = "."
			}
			return a.copyTarOut(ctx, transfer.FromSandbox(ctx, h, from, name, flags.follow))
		}
		stat := h.Lstat
		if flags.follow || contents {
			stat = h.Stat
		}
		info, err := stat(ctx, from)
		if err != nil {
			return err
		}
		target, given, err := hostTarget(to, name, contents, info.IsDir())
		if err != nil {
			return err
		}
		top, folder := ".", target
		if !info.IsDir() {
			folder, top = filepath.Split(target)
		}
		root, err := openTarget(filepath.Clean(folder), info.IsDir() && !given)
		if err != nil {
			return err
		}
		err = a.copyTree(ctx, transfer.FromSandbox(ctx, h, from, top, flags.follow || contents), transfer.NewToHost(root))
		return errors.Join(err, root.Close())
	})
}

// copyTarOut writes a tar stream. Whoever reads it may have stopped doing so.
func (a *app) copyTarOut(ctx context.Context, entries iter.Seq2[transfer.Entry, error]) error {
	var out outlets
	defer out.close()
	stream := transfer.NewToTar(out.outputTo(a.stdout))
	stop := context.AfterFunc(ctx, out.giveUp)
	defer stop()
	return a.copyTree(ctx, entries, stream)
}

// openTarget opens the folder that a tree goes into. A new one is made, or was
// there as a folder: a link in its place may be the sandbox's, where that has
// write access here.
func openTarget(folder string, isNew bool) (*os.Root, error) {
	if !isNew {
		return os.OpenRoot(folder)
	}
	return openIn(folder, func(parent *os.Root, name string) error {
		if err := parent.Mkdir(name, 0o755); !errors.Is(err, os.ErrExist) {
			return err
		}
		if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
			return errors.Join(err, fmt.Errorf("%s is no folder; remove it, or name another target", folder))
		}
		return nil
	})
}

// openIn opens a folder by way of its parent, so that it cannot become a link
// to somewhere else meanwhile. before is done with the parent first.
func openIn(folder string, before func(parent *os.Root, name string) error) (*os.Root, error) {
	parent, err := os.OpenRoot(filepath.Dir(folder))
	if err != nil {
		return nil, err
	}
	name := filepath.Base(folder)
	var root *os.Root
	if err = before(parent, name); err == nil {
		root, err = parent.OpenRoot(name)
	}
	if err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	return root, parent.Close()
}

// lastName is the name that a path ends in. contents reports whether what is
// in it is meant, because the path has no name of its own or ends in "/.".
func lastName(file string) (name string, contents bool) {
	name = path.Base(path.Clean(file))
	contents = strings.HasSuffix(file, "/.") || name == "." || name == ".." || name == "/"
	return name, contents
}

// hostTarget is what the top of a tree becomes on this host. given reports
// whether it is the folder itself that was named, and was there.
func hostTarget(to, name string, contents, isDir bool) (target string, given bool, err error) {
	info, err := os.Stat(to)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", false, err
	case err != nil && !isDir && to != "" && os.IsPathSeparator(to[len(to)-1]):
		return "", false, fmt.Errorf("%s: no such folder", to)
	case err != nil:
		return filepath.Clean(to), false, nil
	case info.IsDir() && contents:
		return to, true, nil
	case info.IsDir():
		return filepath.Join(to, name), false, nil
	case isDir:
		return "", false, fmt.Errorf("%s is a file, and a folder is to be copied; remove it, or name another target", to)
	}
	return filepath.Clean(to), false, nil
}

// copyIn copies into the sandbox.
func (a *app) copyIn(ctx context.Context, flags *copyFlags, from, to string) error {
	if from == "-" {
		return a.copyTarIn(ctx, flags, to)
	}
	source := filepath.Clean(from)
	name, contents := lastName(filepath.ToSlash(from))
	if flags.follow || contents || os.IsPathSeparator(from[len(from)-1]) {
		var err error
		if source, err = filepath.EvalSymlinks(from); err != nil {
			return err
		}
	}
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	root, top, err := openSource(source, contents, info.IsDir())
	if err != nil {
		return err
	}
	err = a.withSandbox(ctx, flags.to, func(ctx context.Context, h execution.Handle) error {
		target, err := sandboxTarget(ctx, h, to, name, contents, info.IsDir())
		if err != nil {
			return err
		}
		return a.copyTree(ctx, transfer.FromHost(root, top, "."), transfer.NewToSandbox(h, target))
	})
	return errors.Join(err, root.Close())
}

// openSource opens the folder that a tree is read from, and tells where in it
// the tree is.
func openSource(source string, contents, isDir bool) (root *os.Root, top string, err error) {
	switch {
	case !isDir:
		root, err = os.OpenRoot(filepath.Dir(source))
		return root, filepath.Base(source), err
	case contents: // which may have no name in a parent
		root, err = os.OpenRoot(source)
	default:
		root, err = openIn(source, func(*os.Root, string) error { return nil })
	}
	return root, ".", err
}

// sandboxTarget is what the top of a tree becomes in the sandbox.
func sandboxTarget(ctx context.Context, h execution.Handle, to, name string, contents, isDir bool) (string, error) {
	info, err := h.Stat(ctx, to)
	missing := errors.Is(err, execution.ErrNotFound)
	switch {
	case err != nil && !missing:
		return "", err
	case missing && !isDir && strings.HasSuffix(to, "/"):
		return "", err
	case missing:
		return path.Clean(to), nil
	case info.IsDir() && !contents:
		return path.Join(to, name), nil
	case !info.IsDir() && isDir:
		return "", fmt.Errorf("%s is a file in the sandbox, and a folder is to be copied; remove it, or name another target", to)
	}
	return path.Clean(to), nil
}

func (a *app) copyTarIn(ctx context.Context, flags *copyFlags, to string) error {
	if isTerminal(a.stdin) {
		return errors.New("a tar stream is wanted on standard input, which is a terminal")
	}
	return a.withSandbox(ctx, flags.to, func(ctx context.Context, h execution.Handle) error {
		info, err := h.Stat(ctx, to)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s: %w: a tar stream goes into one that exists", to, execution.ErrNotDir)
		}
		in, pump := io.Pipe()
		go func() {
			// Nothing can interrupt a Read of standard input: it may stay behind.
			_, err := io.Copy(pump, a.stdin)
			_ = pump.CloseWithError(err) // never fails
		}()
		stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
		defer stop()
		defer func() { _ = in.Close() }() // never fails
		return a.copyTree(ctx, transfer.FromTar(in), transfer.NewToSandbox(h, path.Clean(to)))
	})
}
