package cli

import (
	"errors"
	"fmt"
	"strconv"
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

// flagWants describes the values of flags by their type.
var flagWants = map[string]string{
	"bool":          "true or false",
	"int":           "a whole number",
	"int64":         "a whole number",
	"uint64":        "a whole number, 0 or more",
	"float64":       "a number",
	"duration":      "a time such as 90s or 10m",
	"durationSlice": "times such as 1s,2500ms",
}

// flagError turns the library's message about a flag into one of this program's.
func flagError(cmd *cobra.Command, err error) error {
	var value, name string
	if _, scanErr := fmt.Sscanf(err.Error(), "invalid argument %q for %q flag:", &value, &name); scanErr == nil {
		_, name, _ = strings.Cut(name, "--") // a short form may come first
		if instead, ok := gone[cmd.Name()+" --"+name]; ok {
			return usagef("--%s is gone: %s", name, instead)
		}
		switch want := flagWants[cmd.Flag(name).Value.Type()]; {
		case errors.Is(err, strconv.ErrRange):
			return usagef("--%s %s: the number is too large", name, value)
		case want != "":
			return usagef("--%s %q: want %s", name, value, want)
		}
	}
	return &usageError{err}
}

// taskID parses an argument that names a task. A key is returned as it is: the daemon knows its
// task.
func taskID(arg string) (task.ID, error) {
	id, err := task.ParseTaskID(arg)
	if err == nil {
		return id, nil
	}
	if key, ok := task.ParseKey(arg); ok {
		return task.ID(key), nil
	}
	return "", usagef("%q names no task: want its key such as T-3, its id, or its URL in Notion", arg)
}

// claimID parses an argument that names a claim, by its id or its task's.
func claimID(arg string) (string, error) {
	if id, ok := claim.ParseID(arg); ok {
		return string(id), nil
	}
	id, err := taskID(arg)
	if err != nil {
		return "", usagef("%q is neither the id of a claim nor of a task", arg)
	}
	return string(id), nil
}

// own returns the claim that the arguments name, or the agent's only one.
func (a *app) own(args []string) (string, error) {
	if len(args) > 0 {
		id, err := claimID(args[0])
		if err != nil {
			return "", err
		}
		return id, a.checkAgent()
	}
	if a.agent == "" {
		return "", usagef("which claim? name its task, or say whose only claim you mean with --agent or DIBS_AGENT")
	}
	return api.OnlyClaim, a.checkAgent()
}
