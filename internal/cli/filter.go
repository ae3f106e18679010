package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// filterFlags select tasks by their pages' properties.
type filterFlags struct {
	priority, text string
	where          []string
}

func (f *filterFlags) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.priority, "priority", "", "only tasks of this `priority`, as the board calls it, or critical, high, medium, low or none")
	cmd.Flags().StringArrayVar(&f.where, "where", nil, "only tasks with this field, as `NAME=VALUE`; may be given several times. A field is one of tasks.fields, or title, key, status, priority, claimed_by, note; no value: an empty one")
	cmd.Flags().StringVar(&f.text, "text", "", "only tasks with all these `words` in the title")
	completeFlag(cmd, "priority", a.priorities)
	completeFlag(cmd, "where", a.fieldNames)
}

// filter returns the flags' filter. The daemon knows the fields, and what the words mean.
func (f *filterFlags) filter() (api.Filter, error) {
	for _, where := range f.where {
		if !strings.Contains(where, "=") {
			return api.Filter{}, usagef("--where %q: want NAME=VALUE", where)
		}
	}
	return api.Filter{Priority: f.priority, Where: f.where, Text: f.text}, nil
}

// fieldNames suggests the fields for --where.
func (a *app) fieldNames(ctx context.Context) (out []string) {
	for _, t := range a.listed(ctx, api.TaskFilter{Limit: 1}) {
		for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
			out = append(out, clean(name)+"=")
		}
	}
	return out
}

// showReasons lists tasks and why each is not ready.
func showReasons(t *table, tasks []api.Task, now time.Time) {
	if len(tasks) == 0 {
		return
	}
	t.head("TASK", "PRIORITY", "TITLE", "WHY")
	for _, one := range tasks {
		why := plain(reason(one, now))
		if one.Ready {
			why = plain("ready").in(green)
		}
		t.add(plain(handle(one.TaskRef)), plain(clean(one.PriorityWord())), plain(short(one.Title)), why)
	}
}

// reason says why a task is not ready.
func reason(t api.Task, now time.Time) string {
	switch {
	case claim.Code(t.Code) == claim.CodeHeld && t.ExpiresAt.After(now):
		return clean(t.Agent) + " has it" + lasting(t.ExpiresAt, now)
	case t.Status == task.Blocked && t.Note != "":
		return clean(strings.TrimPrefix(t.Reason, "it ") + ": " + t.Note)
	}
	return clean(strings.TrimPrefix(t.Reason, "it "))
}
