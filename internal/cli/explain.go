package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

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
