package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution/docker"
)

const gcHelp = `Remove what sandboxes have left behind on the engine: those whose maker died before
they ran, that have ended and are still there, and that run but whose guest does not
answer. What answers, is too busy to be asked, is paused, is to be kept or was made just
now is left alone, and so is every container that pinfold did not make.

Each sandbox that was looked at is listed with what was done, and why.`

func (a *app) gcCommand() *cobra.Command {
	var (
		opts   docker.CollectOptions
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "gc [--dry-run] [--json]",
		Short: "Remove what sandboxes have left behind",
		Long:  gcHelp,
		Args:  positional(cobra.NoArgs, "gc takes no arguments; to remove one sandbox: pinfold rm ID"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEngine(cmd.Context(), func(ctx context.Context, engine engine) error {
				list, err := engine.Collect(ctx, opts)
				if err != nil {
					return err
				}
				return a.tellCollected(list, opts.DryRun, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be removed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// tellCollected lists what was found. Its error is for what could not be
// removed.
func (a *app) tellCollected(list []docker.Collected, dry, asJSON bool) error {
	var (
		rows [][]string
		errs []error
	)
	for _, c := range list {
		done := "left"
		switch {
		case c.Removed && dry:
			done = "to remove"
		case c.Removed:
			done = "removed"
		case c.Err != "":
			done = "failed"
			errs = append(errs, fmt.Errorf("removing %s: %s", c.ID, c.Err))
		}
		rows = append(rows, []string{c.ID, c.Name, c.Owner, done, c.Reason})
	}
	var err error
	if asJSON {
		err = writeJSON(a.stdout, append([]docker.Collected{}, list...)) // [] and not null
	} else {
		err = writeTable(a.stdout, []string{"ID", "NAME", "OWNER", "DONE", "WHY"}, rows)
	}
	return errors.Join(append(errs, err)...)
}
