package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

// newest is how many entries the daemon returns by default.
const newest = 100

func (a *app) logCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show what happened to claims, the newest last",
		Long:  "Show what happened to claims here, the newest last. --agent limits it to one agent.",
		Example: "  dibs log --since 2h\n" +
			"  dibs log --since 15:00 --task T-3",
		RunE: a.asking(with(&o, a.runLog)),
	}
	o.add(a, cmd)
	return cmd
}

type logOptions struct {
	task, claim, since string
	limit              limitFlag
}

func (o *logOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.task, "task", "", "only about this `task`")
	completeFlag(cmd, "task", a.someTasks(api.TaskFilter{}))
	cmd.Flags().StringVar(&o.claim, "claim", "", "only about this claim, an `id`")
	cmd.Flags().StringVar(&o.since, "since", "", "only what happened since then: a `time` such as 15:04, 2026-11-25 or 2026-11-25T15:04, or how long ago, such as 2h")
	cmd.Flags().IntVar(&o.limit.most, "limit", 0, "the newest that many (0: a hundred)")
}

// filter validates the flags, and returns what they select.
func (o *logOptions) filter() (f api.FactFilter, err error) {
	f.Limit = o.limit.most
	if o.task != "" {
		if f.Task, err = taskID(o.task); err != nil {
			return f, usagef("--task: %w", err)
		}
	}
	if o.claim != "" {
		var ok bool
		if f.Claim, ok = claim.ParseID(o.claim); !ok {
			return f, usagef("--claim: %q is not the id of a claim", o.claim)
		}
	}
	if o.since != "" {
		if f.Since, err = moment(o.since, time.Now()); err != nil {
			return f, usagef("--since: %w", err)
		}
	}
	return f, o.limit.check()
}

func (a *app) runLog(cmd *cobra.Command, daemon *client.Client, o logOptions, _ []string) error {
	agent, err := a.only(cmd)
	if err != nil {
		return err
	}
	filter, err := o.filter()
	if err != nil {
		return err
	}
	filter.Agent = agent
	record, err := client.Do(cmd.Context(), daemon, api.OpLog, api.LogOf(filter))
	if err != nil {
		return err
	}
	now := time.Now()
	err = list[api.LogEntry]{document: record, items: record.Entries, empty: "Nothing is on record.", columns: []column[api.LogEntry]{
		{cell: func(e api.LogEntry) cell { return plain(clock(e.At.Time, now)) }},
		{cell: func(e api.LogEntry) cell { return plain(clean(string(e.Kind))) }},
		{cell: func(e api.LogEntry) cell { return plain(cmp.Or(clean(e.Agent), clean(e.By), "-")) }},
		{whole: true, cell: func(e api.LogEntry) cell {
			return plain(strings.TrimSpace(clean(e.Key) + " " + short(cmp.Or(e.Title, string(e.Task)))))
		}},
		{cell: func(e api.LogEntry) cell { return plain(aboutEntry(e, now)) }},
	}}.print(a)
	if filter.Limit == 0 && len(record.Entries) == newest {
		a.say("Older entries are not shown: --limit 1000 shows more.")
	}
	return err
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
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happens to tasks and claims",
		Long: "Show what happens to tasks and claims, the newest last: all events that are kept, or those after\n" +
			"the one with the id that --after gives. With --follow, wait for new ones; without --after, show\n" +
			"only these. --agent limits it to what concerns one agent. With --json, one document a line.",
		Example: "  dibs events --follow --agent Sandman\n  dibs events --follow --after 1204 --json",
		RunE:    a.asking(with(&o, a.runEvents)),
	}
	o.add(a, cmd)
	return cmd
}

type eventsOptions struct {
	filter api.EventsInput
	follow bool
	task   string
}

func (o *eventsOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on with events as they come")
	cmd.Flags().Int64Var(&o.filter.After, "after", 0, "only events after the one with this `id`")
	cmd.Flags().StringVar(&o.task, "task", "", "only about this `task`")
	completeFlag(cmd, "task", a.someTasks(api.TaskFilter{}))
}

func (a *app) runEvents(cmd *cobra.Command, daemon *client.Client, o eventsOptions, _ []string) error {
	var err error
	if o.filter.Agent, err = a.only(cmd); err != nil {
		return err
	}
	if o.task != "" {
		id, err := taskID(o.task)
		if err != nil {
			return usagef("--task: %w", err)
		}
		o.filter.Task = string(id)
	}
	switch given := cmd.Flags().Changed("after"); {
	case given && o.filter.After < 0:
		return usagef("--after %d: want the id of an event, or 0", o.filter.After)
	case !given && o.follow:
		o.filter.After = api.EventsFuture
	}
	next, err := daemon.Events(cmd.Context(), o.filter, o.follow, func(e api.Event) error {
		err := a.printEvent(e)
		if lost := e.Kind == api.ClaimLost || e.Kind == claim.KindOverridden || e.Kind == claim.KindSwept; err == nil && lost && e.Claim != "" && e.Agent == a.agent {
			_, _ = client.Do(cmd.Context(), daemon, api.OpGetClaim, api.GetClaimInput{ID: string(e.Claim), Agent: a.agent, After: api.EventsFuture}) // marks the loss as delivered; on failure the agent hears of it again
		}
		return err
	})
	if o.follow && cmd.Context().Err() != nil {
		return nil // the user stopped it: the only way to end --follow
	}
	if gone, ok := errors.AsType[*client.UnreachableError](err); ok && gone.Sent {
		return api.NewProblem(api.CodeUnreachable, fmt.Sprintf("the connection to the daemon broke off (%v); once it runs, %s", gone.Err, goOn(next)))
	}
	if err == nil && o.follow {
		return api.NewProblem(api.CodeStopping, "the daemon has stopped; once it runs, "+goOn(next))
	}
	return err
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
		RunE:              a.asking(a.runExplain),
	}
}

func (a *app) runExplain(cmd *cobra.Command, daemon *client.Client, args []string) error {
	id, err := claimID(args[0])
	if err != nil {
		return err
	}
	s, err := client.Do(cmd.Context(), daemon, api.OpStory, api.StoryInput{ID: id})
	if err != nil {
		return err
	}
	now := time.Now()
	return list[api.Step]{document: s, items: s.Story, empty: "Nothing is on record.", columns: []column[api.Step]{
		{cell: func(s api.Step) cell { return plain(clock(s.At.Time, now)) }},
		{cell: func(s api.Step) cell { return plain(clean(s.Who)) }},
		{whole: true, cell: func(s api.Step) cell { return plain(clean(s.What)) }},
		{cell: func(s api.Step) cell { return plain(clean(s.Why)) }},
	}}.print(a)
}

func (a *app) reportCommand() *cobra.Command {
	o := reportOptions{days: 7}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report how agents did in the last days, and what waits for people",
		Long: "Report how agents did in the last days: how many tasks each completed (or handed in for review), failed at\n" +
			"and lost, how long it had what it completed (the median), and what it said to have used. Below that, what is\n" +
			"blocked now, and what agents ask people. --by has a row for each value of a field instead, --tasks one for each\n" +
			"task that was worked on, with what it took and cost. --csv writes that table, --md all of it.",
		Example: "  dibs report --days 30 --csv > agents.csv\n  dibs report --by Area\n  dibs report --tasks --csv > tasks.csv",
		RunE:    a.asking(with(&o, a.runReport)),
	}
	cmd.Flags().IntVar(&o.days, "days", o.days, "how many days to look back, at most 366 and as long as journal.keep")
	cmd.Flags().StringVar(&o.by, "by", "", "add up work by the values of a `field`, such as Area or priority")
	cmd.Flags().BoolVar(&o.tasks, "tasks", false, "list the tasks that were worked on, the latest first")
	cmd.Flags().BoolVar(&o.csv, "csv", false, "write the first table as comma-separated values")
	cmd.Flags().BoolVar(&o.markdown, "md", false, "write all of it as Markdown")
	return cmd
}

type reportOptions struct {
	days                 int
	by                   string
	tasks, csv, markdown bool
}

func (a *app) runReport(cmd *cobra.Command, daemon *client.Client, o reportOptions, _ []string) error {
	if o.days < 1 || o.days > maxReport {
		return usagef("--days %d: want 1 to %d", o.days, maxReport)
	}
	if o.csv && o.markdown || a.json && (o.csv || o.markdown) {
		return usagef("--csv, --md and --json exclude each other: want one of them")
	}
	if o.by != "" && o.tasks {
		return usagef("--by and --tasks exclude each other: want one of them")
	}
	r, err := client.Do(cmd.Context(), daemon, api.OpReport, api.ReportInput{Days: o.days, By: o.by, Tasks: o.tasks})
	if err != nil {
		return err
	}
	switch {
	case o.csv:
		return r.Table().CSV(a.stdout)
	case o.markdown:
		return r.Markdown(a.stdout)
	case a.json:
		return writeJSON(a.stdout, r)
	}
	if len(r.Agents)+len(r.Tasks)+len(r.Blocked)+len(r.Questions) == 0 {
		a.say("Nothing was finished within %s, and nothing is blocked.", count(int64(o.days), "day"))
	}
	return a.showReport(r, time.Now())
}

// maxReport is the largest value of the report's --days.
const maxReport = 366

// showReport prints the report's tables that are not empty.
func (a *app) showReport(r api.Report, now time.Time) error {
	name, rows := r.Rows()
	if r.By == "" {
		name = "AGENT"
	}
	if len(rows) > 1 {
		rows = append(rows, api.Row{Name: "total", Work: r.Total})
	}
	counted := func(name string, n func(api.Row) int) column[api.Row] {
		return column[api.Row]{name: name, right: true, cell: func(w api.Row) cell { return plain(fmt.Sprint(n(w))) }}
	}
	work := list[api.Row]{items: rows, columns: []column[api.Row]{
		{name: clean(name), cell: func(w api.Row) cell { return plain(beginning(cmp.Or(clean(w.Name), "-"), maxText)) }},
		counted("COMPLETED", func(w api.Row) int { return w.Completed }),
		counted("FAILED", func(w api.Row) int { return w.Failed }),
		counted("LOST", func(w api.Row) int { return w.Lost }),
		{name: "MEDIAN", right: true, cell: func(w api.Row) cell { return plain(median(w.MedianSeconds)) }},
		{name: "TOKENS", right: true, cell: func(w api.Row) cell { return plain(spentTokens(w.Tokens)) }},
		{name: "USD", right: true, cell: func(w api.Row) cell { return plain(spentUSD(w.USD)) }},
	}}
	tasks := list[api.TaskWork]{items: r.Tasks, columns: []column[api.TaskWork]{
		{name: "TASK", cell: func(w api.TaskWork) cell { return plain(short(w.Task.Title)) }},
		{name: "AGENT", cell: func(w api.TaskWork) cell { return plain(clean(w.Agent)) }},
		{name: "OUTCOME", cell: func(w api.TaskWork) cell { return plain(cmp.Or(clean(string(w.Outcome)), "-")) }},
		{name: "WHEN", cell: func(w api.TaskWork) cell {
			if w.Outcome == "" {
				return plain("-")
			}
			return plain(ago(w.At.Time, now))
		}},
		{name: "TIME", right: true, cell: func(w api.TaskWork) cell { return plain(took(w.Seconds)) }},
		{name: "TOKENS", right: true, cell: func(w api.TaskWork) cell { return plain(spentTokens(w.Tokens)) }},
		{name: "USD", right: true, cell: func(w api.TaskWork) cell { return plain(spentUSD(w.USD)) }},
	}}
	if r.Tasks != nil {
		work.items = nil
	}
	blocked := list[api.Blocked]{items: r.Blocked, columns: []column[api.Blocked]{
		{name: "BLOCKED", cell: func(b api.Blocked) cell { return plain(short(b.Task.Title)) }},
		{name: "SINCE", cell: func(b api.Blocked) cell { return plain(ago(b.Since.Time, now)) }},
		{name: "WHY", cell: func(b api.Blocked) cell { return plain(beginning(clean(b.Why), maxText)) }},
	}}
	questions := list[api.OpenQuestion]{items: r.Questions, columns: []column[api.OpenQuestion]{
		{name: "QUESTION", cell: func(q api.OpenQuestion) cell { return plain(beginning(clean(q.Text), maxText)) }},
		{name: "ASKED", cell: func(q api.OpenQuestion) cell { return plain(ago(q.AskedAt.Time, now)) }},
		{name: "BY", cell: func(q api.OpenQuestion) cell { return plain(clean(q.By)) }},
		{name: "TO", cell: func(q api.OpenQuestion) cell { return plain(cmp.Or(clean(q.To), "-")) }},
		{name: "TASK", cell: func(q api.OpenQuestion) cell { return plain(short(q.Task.Title)) }},
	}}
	tables := []string{work.text(a.stdout), tasks.text(a.stdout), blocked.text(a.stdout), questions.text(a.stdout)}
	tables = slices.DeleteFunc(tables, func(t string) bool { return t == "" })
	_, err := io.WriteString(a.stdout, strings.Join(tables, "\n"))
	return err
}

// spentTokens and spentUSD say what was used; "-" for nothing.
func spentTokens(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func spentUSD(usd float64) string {
	if usd == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", usd)
}
