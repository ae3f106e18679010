package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// completionTime is how long completion may take.
const completionTime = 2 * time.Second

// suggestions returns the possible values of an argument or a flag, each optionally followed by a
// tab and a description. It returns nil if the daemon cannot be asked.
type suggestions func(ctx context.Context) []string

func completeFlag(cmd *cobra.Command, name string, s suggestions) {
	if err := cmd.RegisterFlagCompletionFunc(name, s.complete); err != nil {
		panic(err) // impossible: the flag exists
	}
}

func (s suggestions) complete(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), completionTime)
	defer cancel()
	fold := strings.ToLower
	all := slices.DeleteFunc(s(ctx), func(one string) bool { return !strings.HasPrefix(fold(one), fold(begun)) })
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// first completes the first argument.
func (s suggestions) first(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.complete(cmd, args, begun)
}

// statuses suggests the board's words for statuses.
func (a *app) statuses(ctx context.Context) []string {
	words, names := a.words(ctx), []string{}
	for _, s := range task.AllStatuses() {
		switch name := words.Statuses[s]; name {
		case "":
		case string(s):
			names = append(names, strings.ToLower(name))
		default:
			names = append(names, clean(name))
		}
	}
	return names
}

// priorities suggests the board's words for priorities.
func (a *app) priorities(ctx context.Context) []string {
	var names []string
	for _, name := range a.words(ctx).Priorities {
		names = append(names, clean(name))
	}
	return names
}

// suggested returns what the daemon answers; nothing if it cannot be asked.
func suggested[T any](a *app, ask func(daemon *client.Client) (T, error)) (answer T) {
	if daemon, err := a.direct(); err == nil {
		answer, _ = ask(daemon)
	}
	return answer
}

// words returns the board's words, or dibs's if the daemon cannot be asked.
func (a *app) words(ctx context.Context) api.Words {
	if status := suggested(a, func(daemon *client.Client) (api.Status, error) {
		return client.Do(ctx, daemon, api.OpStatus, struct{}{})
	}); status.Words != nil {
		return *status.Words
	}
	var own *task.Words
	return api.Words{Statuses: own.ByStatus(), Priorities: own.Priorities()}
}

// someTasks suggests the tasks that the filter selects.
func (a *app) someTasks(filter api.TaskFilter) suggestions {
	return func(ctx context.Context) (out []string) {
		for _, t := range a.listed(ctx, filter) {
			out = append(out, handle(t.TaskRef)+"\t"+short(t.Title))
		}
		return out
	}
}

func (a *app) listed(ctx context.Context, filter api.TaskFilter) []api.Task {
	return suggested(a, func(daemon *client.Client) (api.Tasks, error) {
		return client.Do(ctx, daemon, api.OpListTasks, filter.Input())
	}).Tasks
}

// ownTasks suggests the tasks that the agent holds. Without an agent, or with auto, it suggests all
// tasks that are held through the daemon.
func (a *app) ownTasks(ctx context.Context) (out []string) {
	for _, c := range a.someClaims(ctx, a.typing()) {
		out = append(out, handle(c.Task)+"\t"+short(c.Task.Title))
	}
	return out
}

// typing returns the agent; empty for auto, as completion mints no name.
func (a *app) typing() string {
	if a.agent == task.AutoAgent {
		return ""
	}
	return a.agent
}

// agents suggests auto and the names that are on tasks.
func (a *app) agents(ctx context.Context) []string {
	names := []string{task.AutoAgent + "\tone that is minted for this session"}
	for _, c := range a.someClaims(ctx, "") {
		names = append(names, clean(c.Agent))
	}
	for _, t := range a.listed(ctx, api.TaskFilter{}) {
		if t.Agent != "" {
			names = append(names, clean(t.Agent))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *app) someClaims(ctx context.Context, agent string) []api.Claim {
	return suggested(a, func(daemon *client.Client) (api.Claims, error) {
		return client.Do(ctx, daemon, api.OpListClaims, api.AgentFilter{Agent: agent})
	}).Claims
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

// ownReservations suggests the reservations of the agent, or of everybody.
func (a *app) ownReservations(ctx context.Context) (out []string) {
	list := suggested(a, func(daemon *client.Client) (api.Reservations, error) {
		return client.Do(ctx, daemon, api.OpReservations, api.ListReservationsInput{Agent: a.typing()})
	})
	for _, r := range list.Reservations {
		out = append(out, clean(r.ID)+"\t"+somePatterns(r))
	}
	return out
}
