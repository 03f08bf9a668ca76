package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution/docker"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether sandboxes can run here, and how well",
		Long: `Look at the engine, its version and known faults, the limits that it really
enforces, its runtimes, the images and the disk, and make one sandbox where an image
is there. Each finding says what to do about it.

The exit code is 1 when a sandbox could not run.`,
		Args: positional(cobra.NoArgs, "doctor takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report docker.Report
			err := a.interruptible(cmd.Context(), func(ctx context.Context) error {
				report = a.backends.examine(ctx)
				return ctx.Err()
			})
			if err == nil && asJSON {
				err = writeJSON(a.stdout, report)
			} else if err == nil {
				err = a.printFindings(report)
			}
			if err == nil && !report.Runnable {
				err = &codeError{code: exitUnfit}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// printFindings prints a line for each finding, with what to do below it, and
// the upshot. Findings hold what the engine says of itself, so nothing of them
// is printed as it stands.
func (a *app) printFindings(report docker.Report) error {
	width := 0
	for _, f := range report.Findings {
		width = max(width, len(f.Name))
	}
	var out strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintf(&out, "%-4s  %-*s  %s\n", printable(string(f.State)), width, printable(f.Name), indented(f.Detail, width+8))
		if f.Fix != "" {
			fmt.Fprintf(&out, "%*sto do: %s\n", width+8, "", indented(f.Fix, width+15))
		}
	}
	verdict := "sandboxes can run here"
	if !report.Runnable {
		verdict = "no sandbox can run here; see what is marked fail above"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n%s\n", out.String(), verdict)
	return err
}

// indented makes text printable and puts its later lines below its first.
func indented(text string, by int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", by))
}
