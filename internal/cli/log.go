package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

// logTitle is the column with a task's title.
const logTitle = 3

// newest is how many entries the daemon returns by default.
const newest = 100

func (a *app) logCommand() *cobra.Command {
	var filter api.LogFilter
	var taskArg, claimArg, since string
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show what happened to claims, the newest last",
		Long:  "Show what happened to claims here, the newest last. --agent limits it to one agent.",
		Example: "  dibs log --since 2h\n" +
			"  dibs log --since 15:00 --task T-3",
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
			if claimArg != "" {
				var ok bool
				if filter.Claim, ok = claim.ParseID(claimArg); !ok {
					return usagef("--claim: %q is not the id of a claim", claimArg)
				}
			}
			if since != "" {
				if filter.Since, err = moment(since, time.Now()); err != nil {
					return usagef("--since: %w", err)
				}
			}
			if err := checkLimit(filter.Limit); err != nil {
				return err
			}
			list, err := daemon.Log(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if len(list.Entries) == 0 {
				a.say("Nothing is on record.")
			}
			err = a.list(list, func(t *table) {
				now := time.Now()
				t.whole = logTitle
				for _, e := range list.Entries {
					t.add(plain(clock(e.At.Time, now)), plain(clean(string(e.Kind))), plain(cmp.Or(clean(e.Agent), clean(e.By), "-")),
						plain(strings.TrimSpace(clean(e.Key)+" "+short(cmp.Or(e.Title, string(e.Task))))), plain(aboutEntry(e, now)))
				}
			})
			if filter.Limit == 0 && len(list.Entries) == newest {
				a.say("Older entries are not shown: --limit 1000 shows more.")
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&taskArg, "task", "", "only about this `task`")
	completeFlag(cmd, "task", a.someTasks(api.TaskFilter{}))
	cmd.Flags().StringVar(&claimArg, "claim", "", "only about this claim, an `id`")
	cmd.Flags().StringVar(&since, "since", "", "only what happened since then: a `time` such as 15:04, 2026-11-25 or 2026-11-25T15:04, or how long ago, such as 2h")
	cmd.Flags().IntVar(&filter.Limit, "limit", 0, "the newest that many (0: a hundred)")
	return cmd
}

// aboutEntry returns the entry's details, cut to fit a cell. The JSON document has all of it.
func aboutEntry(e api.LogEntry, now time.Time) string {
	var parts []string
	text := cmp.Or(e.Summary, e.Detail)
	if text == "" {
		text = strings.ReplaceAll(string(e.Code), "_", " ")
	}
	whose := "from "
	switch e.Kind {
	case claim.KindMessage, claim.KindOffered, claim.KindExpired:
		whose = "to "
	case claim.KindAdded:
		whose = "for "
	}
	if e.Kind == claim.KindPaused || e.Kind == claim.KindResumed {
		whose = "by "
	}
	if text = withHolder(text, e.Holder, whose); (e.Kind == claim.KindDenied || e.Kind == claim.KindPaused) && !e.Expires.IsZero() {
		text += " until " + clock(e.Expires.Time, now)
	}
	if text != "" {
		parts = append(parts, text)
	}
	if e.Count > 0 && len(e.Names) == 0 {
		parts = append(parts, fmt.Sprintf("%d times", e.Count))
	} else if e.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d refused: %s", e.Count, strings.Join(e.Names, ", ")))
	}
	return beginning(strings.Join(parts, "; "), maxText)
}
