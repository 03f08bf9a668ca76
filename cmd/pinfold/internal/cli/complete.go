package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
)

// completeSandbox completes the first argument as a sandbox.
func (a *app) completeSandbox(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeSandboxes(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
}

// completeTask completes the first argument as a sandbox, and the second as a
// task of it.
func (a *app) completeTask(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeSandbox(cmd, args, typed)
	case 1:
		return a.completeTasks(cmd.Context(), args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeManyTasks is completeTask for commands that take any number.
func (a *app) completeManyTasks(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.completeTask(cmd, args[:min(len(args), 1)], typed)
}

// maxCompletions bounds what a shell is given to choose from.
const maxCompletions = 1000

// completeTasks is for the shell: what cannot be asked has no suggestions.
func (a *app) completeTasks(ctx context.Context, id string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionDeadline)
	defer cancel()
	var names []string
	err := a.withSandbox(ctx, attachment{id: id}, func(ctx context.Context, h execution.Handle) error {
		for info, err := range h.Tasks(ctx) {
			if err != nil {
				return err
			}
			names = append(names, printable(info.ID)+"\t"+printable(info.State()))
			if len(names) == maxCompletions {
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return names
}
