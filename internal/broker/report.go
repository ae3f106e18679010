package broker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/report"
	"dibs/internal/task"
)

// maxLosses is how many losses a report lists.
const maxLosses = 100

// Report tells how agents did in the last days, and what waits for people now.
func (b *Broker) Report(ctx context.Context, _ Caller, in *api.ReportInput) (api.Report, error) {
	now := b.now()
	from := now.AddDate(0, 0, -in.Days)
	out := api.Report{From: b.time(from), To: b.time(now), Hours: []api.Period{}, Losses: []api.Loss{}}
	if in.By != "" {
		var err error
		if out.By, err = b.fieldNamed(in.By); err != nil {
			return api.Report{}, err
		}
	}
	earlier, used, err := b.worked(ctx, now.AddDate(0, 0, -2*in.Days), from, from)
	if err != nil {
		return api.Report{}, err
	}
	out.Before = totalOf(earlier, used)
	ended, spent, err := b.worked(ctx, from, now, time.Time{}) // to the end: sums are of quarters of an hour
	if err != nil {
		return api.Report{}, err
	}
	out.Total, out.Agents = totalOf(ended, spent), each(report.Sum(ended, spent, report.ByAgent), agentWork)
	b.tabulate(&out, in.Tasks, ended, spent)
	facts, err := b.journal.Facts(ctx, claim.FactFilter{Since: from, Seen: true})
	if err != nil {
		return api.Report{}, err
	}
	holds := append(slices.Clip(ended), b.claimer.Claims("")...)
	midnight := func(at time.Time) time.Time {
		_, until := b.past.Day(at)
		return until
	}
	if out.Days, err = b.periods(ctx, report.Periods(from, now, midnight, holds, facts)); err != nil {
		return api.Report{}, err
	}
	if in.Days == 1 {
		if out.Hours, err = b.periods(ctx, report.Periods(from, now, report.Hour, holds, facts)); err != nil {
			return api.Report{}, err
		}
	}
	for _, h := range slices.Backward(ended) {
		if report.Counted(h) == report.Lost && len(out.Losses) < maxLosses {
			out.Losses = append(out.Losses, api.Loss{
				At: b.time(h.Ended), Task: b.ref(h.Task), Agent: h.Agent, By: h.LostTo, How: string(h.Ending), Why: api.Collapse(claim.NotHeld(h).Detail),
			})
		}
	}
	if out.Blocked, err = b.blocked(ctx); err != nil {
		return api.Report{}, err
	}
	out.Questions, err = b.questions(ctx)
	return out, err
}

// worked returns the claims that ended in a time, and what agents used for each task until spent.
func (b *Broker) worked(ctx context.Context, from, to, spent time.Time) ([]claim.Hold, []report.Spent, error) {
	ended, err := b.past.Ended(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	used, err := b.past.Spent(ctx, report.Spending{From: from, To: spent, ByTask: true})
	return ended, used, err
}

// fieldNamed returns the name of a field of tasks. The error is an *InvalidError.
func (b *Broker) fieldNamed(name string) (string, error) {
	b.mu.Lock()
	fields := b.fields
	b.mu.Unlock()
	c, err := task.ParseCondition(name+"=", fields)
	if err != nil {
		return "", &InvalidError{Detail: fmt.Sprintf("by: %v", err)}
	}
	if c.Value != "" {
		return "", &InvalidError{Detail: fmt.Sprintf("by: %q has a value: give the field alone", name)}
	}
	return c.Field, nil
}

// tabulate adds work by the values of the field that out names, if it does, and by tasks, if asked.
func (b *Broker) tabulate(out *api.Report, tasks bool, ended []claim.Hold, spent []report.Spent) {
	known := make(map[task.ID]task.Task) // as they are now, or were last
	for _, h := range append(slices.Clip(ended), b.claimer.Claims("")...) {
		known[h.Task.ID] = h.Task
	}
	at := func(id task.ID) task.Task {
		t, there := b.mirror.Task(id)
		if !there {
			t, there = known[id]
		}
		if !there {
			t.ID = id
		}
		return t
	}
	if out.By != "" {
		byValue := func(_ string, id task.ID) []string { return b.words.Values(at(id), out.By) }
		out.Values = each(report.Sum(ended, spent, byValue), func(w report.Work) api.ValueWork { return api.ValueWork{Value: w.Of, Work: workOf(w)} })
		slices.SortStableFunc(out.Values, func(v, w api.ValueWork) int { return cmp.Compare(w.Completed, v.Completed) })
	}
	if !tasks {
		return
	}
	rows := make(map[task.ID]*api.TaskWork)
	row := func(id task.ID, agent string) *api.TaskWork {
		if rows[id] == nil {
			rows[id] = &api.TaskWork{Task: b.ref(at(id)), Agent: agent}
		}
		return rows[id]
	}
	for _, h := range ended {
		if h.Started.IsZero() || h.Brief {
			continue
		}
		r := row(h.Task.ID, h.Agent)
		r.Agent, r.Outcome, r.At = h.Agent, h.Ending, b.time(h.Ended)
		r.Claims, r.Seconds = r.Claims+1, r.Seconds+h.Ended.Sub(h.Started).Seconds()
	}
	for _, s := range spent {
		if s.Task != "" && !s.None() {
			used := row(s.Task, s.Agent)
			used.USD, used.Tokens = api.USD(api.Micros(used.USD)+s.Micros), used.Tokens+s.Tokens
		}
	}
	out.Tasks = []api.TaskWork{}
	for _, r := range rows {
		out.Tasks = append(out.Tasks, *r)
	}
	slices.SortFunc(out.Tasks, func(x, y api.TaskWork) int { return cmp.Or(y.At.Compare(x.At.Time), cmp.Compare(x.Task.ID, y.Task.ID)) })
}

func workOf(w report.Work) api.Work {
	return api.Work{
		Completed: w.Completed, Failed: w.Failed, Lost: w.Lost, USD: api.USD(w.Used.Micros), Tokens: w.Used.Tokens, MedianSeconds: secondsOf(report.Median(w.Took)),
	}
}

func agentWork(w report.Work) api.AgentWork { return api.AgentWork{Agent: w.Of, Work: workOf(w)} }

// totalOf returns the work of all agents together.
func totalOf(ended []claim.Hold, spent []report.Spent) (sum api.Work) {
	for _, w := range report.Sum(ended, spent, func(string, task.ID) []string { return []string{""} }) {
		sum = workOf(w)
	}
	return sum
}

// periods adds to each period what agents used in it.
func (b *Broker) periods(ctx context.Context, of []report.Period) ([]api.Period, error) {
	out := make([]api.Period, len(of))
	for i, s := range of {
		asked := report.Spending{From: s.From, To: s.To}
		if i == len(of)-1 {
			asked.To = time.Time{}
		}
		spent, err := b.past.Spent(ctx, asked)
		if err != nil {
			return nil, err
		}
		out[i] = b.period(s, spent)
	}
	return out, nil
}

func (b *Broker) period(s report.Period, spent []report.Spent) api.Period {
	used, works := report.Total(spent), report.Sum(s.Ended, spent, report.ByAgent)
	out := api.Period{
		Day: s.From.In(time.Local).Format(time.DateOnly), From: b.time(s.From), USD: api.USD(used.Micros), Tokens: used.Tokens, Agents: each(works, agentWork),
		Granted: s.Granted, Held: math.Round(s.Held*100) / 100, Waiting: math.Round(s.Waiting*100) / 100, Denied: make(map[string]int, len(s.Denied)),
		WaitP50: secondsOf(report.Median(s.Waited)), WaitP90: secondsOf(report.NineOfTen(s.Waited)),
	}
	for code, n := range s.Denied {
		out.Denied[string(code)] = n
	}
	var took []time.Duration
	for _, w := range works {
		out.Completed, out.Failed, out.Lost = out.Completed+w.Completed, out.Failed+w.Failed, out.Lost+w.Lost
		took = append(took, w.Took...)
	}
	out.WorkP50, out.WorkP90 = secondsOf(report.Median(took)), secondsOf(report.NineOfTen(took))
	return out
}

func secondsOf(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}

// blocked returns the tasks that are blocked, the longest first.
func (b *Broker) blocked(ctx context.Context) ([]api.Blocked, error) {
	out := []api.Blocked{}
	for t := range b.mirror.Tasks() {
		if t.Status != task.Blocked || t.Trashed {
			continue
		}
		one := api.Blocked{Task: b.ref(t), Since: b.time(t.Edited), Why: api.Collapse(t.Note)}
		facts, err := b.journal.Facts(ctx, claim.FactFilter{Task: t.ID, Seen: true})
		if err != nil {
			return nil, err
		}
		for _, f := range slices.Backward(facts) {
			blocks := f.Kind == claim.KindBlocked || f.Tried == claim.TriedOver && (f.Kind == claim.KindFailed || f.Kind == claim.KindSwept)
			if blocks {
				one.Since = b.time(f.At)
			}
			if blocks && !f.Seen {
				one.Why = api.Collapse(cmp.Or(f.Summary, f.Detail, t.Note))
			}
			if blocks && !f.Seen || f.Kind == claim.KindUnblocked || f.Kind == claim.KindReopened || f.Kind.Grants() {
				break
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y api.Blocked) int { return x.Since.Compare(y.Since.Time) })
	return out, nil
}

// questions returns the questions of agents that nobody has answered by opening the task again, the
// oldest first.
func (b *Broker) questions(ctx context.Context) ([]api.OpenQuestion, error) {
	open, err := b.inbox.Inbox.Questions(ctx)
	if err != nil {
		return nil, err
	}
	out := []api.OpenQuestion{}
	for _, q := range open {
		t, known := b.mirror.Task(q.Task)
		if _, _, over := q.See(t, known, b.now()); over || q.Last || t.Status != task.Blocked {
			continue
		}
		one := api.OpenQuestion{Task: b.ref(t), AskedAt: b.time(q.At), By: q.Agent, Text: t.Note}
		facts, err := b.journal.Facts(ctx, claim.FactFilter{Task: q.Task})
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			if f.ID == q.ID {
				one.To, one.Text = b.nameOf(ctx, f.Mention), f.Summary
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y api.OpenQuestion) int { return x.AskedAt.Compare(y.AskedAt.Time) })
	return out, nil
}

// nameOf returns the name of the Notion user with that id; the id if the name cannot be looked up.
func (b *Broker) nameOf(ctx context.Context, id string) string {
	if id == "" {
		return ""
	}
	people, _ := b.comments.People(ctx, false)
	if found := named(people, id); len(found) == 1 {
		return found[0].Name
	}
	return id
}
