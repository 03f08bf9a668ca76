package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution/docker"
)

func (a *app) psCommand() *cobra.Command {
	var asJSON, idsOnly bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the sandboxes on the engine",
		Args:  positional(cobra.NoArgs, "ps takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEngine(cmd.Context(), func(ctx context.Context, engine engine) error {
				list, err := engine.List(ctx)
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					return writeJSON(a.stdout, append([]docker.Sandbox{}, list...)) // [] and not null
				case idsOnly:
					for _, s := range list {
						if _, err := fmt.Fprintln(a.stdout, printable(s.ID)); err != nil {
							return err
						}
					}
					return nil
				}
				return a.printSandboxes(list, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVarP(&idsOnly, "quiet", "q", false, "print the IDs only")
	return cmd
}

func (a *app) printSandboxes(list []docker.Sandbox, now time.Time) error {
	var rows [][]string
	for _, s := range list {
		ends := ""
		if !s.Expires.IsZero() {
			ends = "in " + showAge(s.Expires.Sub(now))
		}
		rows = append(rows, []string{s.ID, s.Name, s.Image, s.State, showAge(now.Sub(s.Created)), ends, s.Owner, s.Process})
	}
	return writeTable(a.stdout, []string{"ID", "NAME", "IMAGE", "STATE", "AGE", "ENDS", "OWNER", "PROCESS"}, rows)
}

// showAge is a length of time in its largest unit.
func showAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (a *app) rmCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm [-f] ID...",
		Short: "Remove sandboxes",
		Long: `Remove sandboxes, named by their ID, the start of it, or their name. One that is
running is somebody's, and is removed only with --force. Containers that pinfold did
not make are never touched.`,
		Args: positional(cobra.MinimumNArgs(1), "no sandbox; want IDs or names as 'pinfold ps' shows them"),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeSandboxes(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEngine(cmd.Context(), func(ctx context.Context, engine engine) error {
				return a.removeSandboxes(ctx, engine, args, force)
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also remove what is running")
	return cmd
}

// removeSandboxes removes what it can, prints the names of those, and returns
// the reasons for the others.
func (a *app) removeSandboxes(ctx context.Context, engine engine, names []string, force bool) error {
	list, err := engine.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := removeSandbox(ctx, engine, list, name, force); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := fmt.Fprintln(a.stdout, printable(name)); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func removeSandbox(ctx context.Context, engine engine, list []docker.Sandbox, name string, force bool) error {
	at := findSandbox(list, name)
	if !force && at >= 0 && slices.Contains([]string{"running", "paused", "restarting"}, list[at].State) {
		return fmt.Errorf("sandbox %s is %s, made by %s; to remove it nevertheless: pinfold rm --force %s",
			name, list[at].State, list[at].Process, name)
	}
	return engine.Remove(ctx, name)
}

// completeSandboxes is for the shell: no engine means no suggestions.
func (a *app) completeSandboxes(ctx context.Context) []string {
	var names []string
	err := a.withEngine(ctx, func(ctx context.Context, engine engine) error {
		ctx, cancel := context.WithTimeout(ctx, completionDeadline)
		defer cancel()
		list, err := engine.List(ctx)
		for _, s := range list {
			names = append(names, printable(s.Name))
		}
		return err
	})
	if err != nil {
		return nil
	}
	return names
}

// completionDeadline bounds how long a person waits after pressing Tab.
const completionDeadline = 2 * time.Second
