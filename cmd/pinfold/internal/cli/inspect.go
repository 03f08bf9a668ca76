package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
)

// An inspected sandbox is one of the objects that `pinfold inspect` prints.
type inspected struct {
	execution.SandboxInfo

	Dir   string               `json:"dir,omitempty"` // as Handle.Dir; "" where nobody could ask
	Tasks []execution.TaskInfo `json:"tasks"`         // null where nobody could ask

	// Unasked is why the sandbox itself could not be asked, "" when it was.
	Unasked string `json:"unasked,omitempty"`
}

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect ID...",
		Short: "Print what is known of sandboxes, as JSON",
		Long: `Print a JSON array with what the engine tells of each sandbox, its directory and its
tasks. One that is stopped, paused or held by another host is not asked itself:
"unasked" then says why.`,
		Args: sandboxArgs(-1, ""),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeSandboxes(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				backend, err := a.backends.open(ctx, backendDocker, openOptions{})
				if err != nil {
					return err
				}
				list, err := inspect(ctx, backend, args)
				if closeErr := backend.Close(); err == nil {
					err = closeErr
				}
				if err != nil {
					return err
				}
				return writeJSON(a.stdout, list)
			})
		},
	}
	return cmd
}

func inspect(ctx context.Context, backend execution.Context, names []string) ([]inspected, error) {
	var all []execution.SandboxInfo
	if attacher, ok := backend.(execution.Attacher); ok {
		var err error
		if all, err = attacher.Sandboxes(ctx); err != nil {
			return nil, err
		}
	}
	list := make([]inspected, 0, len(names))
	for _, name := range names {
		to := attachment{id: name}
		h, err := to.attach(ctx, backend)
		at := findSandbox(all, name)
		if err != nil && (at < 0 || isAmbiguous(all, name)) {
			return nil, err // which says what is near, or that it may be several
		}
		one := inspected{}
		if at >= 0 {
			one.SandboxInfo = all[at]
		}
		if err == nil {
			one.Dir = h.Dir()
			one.Tasks, err = allTasks(ctx, h)
			if leaveErr := leave(ctx, h); err == nil {
				err = leaveErr
			}
		}
		if err != nil {
			one.Unasked = err.Error()
		}
		list = append(list, one)
	}
	return list, nil
}

// isAmbiguous reports whether several sandboxes have an ID that starts with name,
// and none has that name.
func isAmbiguous(list []execution.SandboxInfo, name string) bool {
	n := 0
	for _, s := range list {
		if s.Name == name {
			return false
		}
		if strings.HasPrefix(s.ID, name) {
			n++
		}
	}
	return n > 1
}

// findSandbox finds the one that name means, as the backend does: a name goes
// before the start of an ID. It is -1 for none.
func findSandbox(list []execution.SandboxInfo, name string) int {
	at := slices.IndexFunc(list, func(s execution.SandboxInfo) bool { return s.Name == name })
	if at < 0 {
		at = slices.IndexFunc(list, func(s execution.SandboxInfo) bool {
			return len(name) >= 4 && (strings.HasPrefix(s.ID, name) || strings.HasPrefix(name, s.ID))
		})
	}
	return at
}
