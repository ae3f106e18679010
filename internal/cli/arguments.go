package cli

import (
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// arguments accepts one argument for each name; a name in brackets is optional.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		required := 0
		for _, name := range names {
			if !strings.HasPrefix(name, "[") {
				required++
			}
		}
		switch {
		case len(args) < required:
			return usagef("%s wants %s", cmd.CommandPath(), strings.Join(names, " "))
		case len(args) > len(names) && len(names) == 0:
			return usagef("%s wants no arguments, got %q", cmd.CommandPath(), args[0])
		case len(args) > len(names):
			return usagef("%s wants %s and no more, got %q", cmd.CommandPath(), strings.Join(names, " "), args[len(names)])
		}
		return nil
	}
}

// taskID reads an argument that names a task.
func taskID(arg string) (task.ID, error) {
	id, err := task.ParseID(arg)
	if err != nil {
		return "", &usageError{err}
	}
	return id, nil
}

// claimID reads an argument that names a claim: by its id, or by its task's.
func claimID(arg string) (string, error) {
	if id, ok := claim.ParseID(arg); ok {
		return string(id), nil
	}
	id, err := task.ParseID(arg)
	if err != nil {
		return "", usagef("%q is neither the id of a claim nor of a task", arg)
	}
	return string(id), nil
}

// own returns which claim a command is about: the one that its argument names,
// or the agent's only one.
func (a *app) own(args []string) (string, error) {
	if len(args) > 0 {
		id, err := claimID(args[0])
		if err != nil {
			return "", err
		}
		return id, a.checkAgent()
	}
	if a.agent == "" {
		return "", usagef("which claim? name it, or its task; for the only claim of an agent, give --agent or set DIBS_AGENT")
	}
	return api.OnlyClaim, a.checkAgent()
}
