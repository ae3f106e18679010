package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain TASK|CLAIM",
		Short: "Tell what happened to a task, or to one claim",
		Long: "Tell what happened to a task, oldest first: when, who did it, what it was, and why. A claim's id tells only\n" +
			"what happened to that claim. It is told for as long as journal.keep. What people edited in Notion is told\n" +
			"too, but not by whom. Exit code 3: there is no such task.",
		Example:           "  dibs explain T-3\n  dibs explain T-3 --json",
		Args:              arguments("TASK|CLAIM"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE: a.asking(func(cmd *cobra.Command, args []string, daemon *client.Client) error {
			id, err := claimID(args[0])
			if err != nil {
				return err
			}
			s, err := daemon.Story(cmd.Context(), id)
			if err != nil {
				return err
			}
			if len(s.Story) == 0 {
				a.say("Nothing is on record.")
			}
			return a.list(s, func(t *table) {
				now := time.Now()
				t.whole = 2
				for _, step := range s.Story {
					t.add(plain(clock(step.At.Time, now)), plain(clean(step.Who)), plain(clean(step.What)), plain(clean(step.Why)))
				}
			})
		}),
	}
}

func (a *app) reportCommand() *cobra.Command {
	days, asCSV, asMarkdown := 7, false, false
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report how agents did in the last days, and what waits for people",
		Long: "Report how agents did in the last days: how many tasks each completed (or handed in for review), failed at\n" +
			"and lost, how long it had what it completed (the median), and what it said to have spent. Below that, what is\n" +
			"blocked now, and what agents ask people. --csv writes the agents, --md all of it.",
		Example: "  dibs report --days 30 --csv > agents.csv\n  dibs report --md",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			if days < 1 || days > maxReport {
				return usagef("--days %d: want 1 to %d", days, maxReport)
			}
			if asCSV && asMarkdown || a.json && (asCSV || asMarkdown) {
				return usagef("--csv, --md and --json exclude each other: want one of them")
			}
			r, err := daemon.Report(cmd.Context(), days)
			if err != nil {
				return err
			}
			switch {
			case asCSV:
				return r.Work().CSV(a.stdout)
			case asMarkdown:
				return r.Markdown(a.stdout)
			}
			if len(r.Agents)+len(r.Blocked)+len(r.Questions) == 0 {
				a.say("Nothing was finished within %s, and nothing is blocked.", count(int64(days), "day"))
			}
			if a.json {
				return writeJSON(a.stdout, r)
			}
			return a.showReport(r, time.Now())
		}),
	}
	cmd.Flags().IntVar(&days, "days", days, "how many days to look back, at most 366 and as long as journal.keep")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write the agents as comma-separated values")
	cmd.Flags().BoolVar(&asMarkdown, "md", false, "write all of it as Markdown")
	return cmd
}

// maxReport is the largest value of the report's --days.
const maxReport = 366

// showReport prints the report's tables that are not empty.
func (a *app) showReport(r api.Report, now time.Time) error {
	agents, blocked, questions := &table{}, &table{}, &table{}
	agents.head("AGENT", "COMPLETED", "FAILED", "LOST", "MEDIAN", "USD")
	for _, w := range r.Agents {
		median := "-"
		if w.MedianSeconds != nil {
			median = took(*w.MedianSeconds)
		}
		agents.add(plain(clean(w.Agent)), plain(fmt.Sprint(w.Completed)), plain(fmt.Sprint(w.Failed)), plain(fmt.Sprint(w.Lost)), plain(median), plain(fmt.Sprintf("%.2f", w.USD)))
	}
	blocked.head("BLOCKED", "SINCE", "WHY")
	for _, b := range r.Blocked {
		blocked.add(plain(short(b.Task.Title)), plain(ago(b.Since.Time, now)), plain(beginning(clean(b.Why), maxText)))
	}
	questions.head("QUESTION", "ASKED", "BY", "TO", "TASK")
	for _, q := range r.Questions {
		questions.add(plain(beginning(clean(q.Text), maxText)), plain(ago(q.AskedAt.Time, now)), plain(clean(q.By)), plain(cmp.Or(clean(q.To), "-")), plain(short(q.Task.Title)))
	}
	between := ""
	for _, t := range []*table{agents, blocked, questions} {
		if len(t.rows) == t.heads {
			continue
		}
		if _, err := io.WriteString(a.stdout, between+t.layout(width(a.stdout), coloured(a.stdout))); err != nil {
			return err
		}
		between = "\n"
	}
	return nil
}
