package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

func (a *app) eventsCommand() *cobra.Command {
	var filter api.EventFilter
	var follow bool
	var taskArg string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happens to tasks and claims",
		Long: "Show what happens to tasks and claims, the newest last: all events that are kept, or those after\n" +
			"the one with the id that --after gives. With --follow, wait for new ones; without --after, show\n" +
			"only these. --agent limits it to what concerns one agent. With --json, one document a line.",
		Example: "  dibs events --follow --agent Sandman\n  dibs events --follow --after 1204 --json",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			var err error
			if filter.Agent, err = a.only(cmd); err != nil {
				return err
			}
			if taskArg != "" {
				if filter.Task, err = taskID(taskArg); err != nil {
					return usagef("--task: %w", err)
				}
			}
			switch given := cmd.Flags().Changed("after"); {
			case given && filter.After < 0:
				return usagef("--after %d: want the id of an event, or 0", filter.After)
			case !given && follow:
				filter.After = api.EventsFuture
			}
			next, err := daemon.Events(cmd.Context(), filter, follow, func(e api.Event) error {
				err := a.printEvent(e)
				if lost := e.Kind == api.ClaimLost || e.Kind == claim.KindOverridden || e.Kind == claim.KindSwept; err == nil && lost && e.Claim != "" && e.Agent == a.agent {
					_, _ = daemon.Lookup(cmd.Context(), string(e.Claim), a.agent) // marks the loss as delivered; on failure the agent hears of it again
				}
				return err
			})
			if follow && cmd.Context().Err() != nil {
				return nil // the user stopped it: the only way to end --follow
			}
			if gone, ok := errors.AsType[*client.UnreachableError](err); ok && gone.Sent {
				return api.NewProblem(api.CodeUnreachable, fmt.Sprintf("the connection to the daemon broke off (%v); once it runs, %s", gone.Err, goOn(next)))
			}
			if err == nil && follow {
				return api.NewProblem(api.CodeStopping, "the daemon has stopped; once it runs, "+goOn(next))
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with events as they come")
	cmd.Flags().Int64Var(&filter.After, "after", 0, "only events after the one with this `id`")
	cmd.Flags().StringVar(&taskArg, "task", "", "only about this `task`")
	completeFlag(cmd, "task", a.someTasks(api.TaskFilter{}))
	return cmd
}

// goOn says how to resume after the event with that id, with the same other flags.
func goOn(after int64) string {
	const same = "go on with the same command"
	if after == api.EventsFuture {
		return same
	}
	return fmt.Sprintf("%s and --after %d", same, after)
}

// printEvent prints one event in one line, without delay.
func (a *app) printEvent(e api.Event) error {
	if a.json {
		return writeJSON(a.stdout, e)
	}
	_, err := fmt.Fprintf(a.stdout, "%-12s  %6d  %-14s  %-16s  %s\n",
		clock(e.At.Time, time.Now()), e.ID, clean(string(e.Kind)), cmp.Or(clean(e.Agent), "-"), aboutEvent(e))
	return err
}

// aboutEvent returns the event's task and details.
func aboutEvent(e api.Event) string {
	var parts []string
	if e.Task != nil {
		parts = append(parts, short(cmp.Or(e.Task.Title, string(e.Task.ID))))
	}
	if len(e.Changed) > 0 {
		parts = append(parts, strings.Join(e.Changed, ", "))
	}
	if text := withHolder(cmp.Or(e.Summary, e.Detail), e.Holder, "now has it: "); text != "" {
		parts = append(parts, text)
	}
	if e.By != "" {
		parts = append(parts, "by "+e.By)
	}
	return clean(strings.Join(parts, "; "))
}

// withHolder adds the other party to a text that does not name it. alone introduces it if the text
// is empty.
func withHolder(text, holder, alone string) string {
	switch {
	case holder == "" || strings.Contains(text, holder):
		return text
	case text == "":
		return alone + holder
	}
	return text + " (" + holder + ")"
}
