// Package report turns the record into statistics: what was done in the last days, and the numbers
// of each agent. It is pure.
package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Work is how an agent's claims ended, or those on some tasks.
type Work struct {
	Of                      string          // the agent, or what else it was summed up by
	Completed, Failed, Lost int             // completed, or handed in for review
	Took                    []time.Duration // how long agents had what they completed
	Used                    claim.Usage     // as agents reported
}

// Outcome says what the end of a claim counts as.
type Outcome string

// The outcomes.
const (
	Completed Outcome = "completed" // or handed in for review
	Failed    Outcome = "failed"
	Lost      Outcome = "lost" // ended by somebody else, or stale
)

// Counted returns what the end of a claim counts as; empty for nothing. A stale claim is lost,
// whoever reopened its task. An agent that had finished lost nothing that it relies on.
func Counted(h claim.Hold) Outcome {
	switch {
	case h.State != claim.Ended || h.Started.IsZero():
		return ""
	case h.Ending == claim.EndCompleted, h.Ending == claim.EndReview:
		return Completed
	case h.Ending == claim.EndFailed:
		return Failed
	case h.Taken() && h.Said() == nil:
		return Lost
	}
	return ""
}

// ByAgent is for Sum: by agent.
func ByAgent(agent string, _ task.ID) []string { return []string{agent} }

// Sum adds up how claims ended, and what was used meanwhile, by what by returns for an agent's work on
// a task, in that order. Work with several results counts in each.
func Sum(ended []claim.Hold, spent []Spent, by func(agent string, id task.ID) []string) (out []Work) {
	works := make(map[string]*Work)
	each := func(agent string, id task.ID, do func(*Work)) {
		for _, name := range by(agent, id) {
			if works[name] == nil {
				works[name] = &Work{Of: name}
			}
			do(works[name])
		}
	}
	for _, s := range spent {
		if !s.None() {
			each(s.Agent, s.Task, func(w *Work) { w.Used = w.Used.Add(s.Usage) })
		}
	}
	for _, h := range ended {
		if as := Counted(h); as != "" {
			each(h.Agent, h.Task.ID, func(w *Work) { w.count(h, as) })
		}
	}
	for _, w := range works {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Work) int { return cmp.Compare(a.Of, b.Of) })
	return out
}

func (w *Work) count(h claim.Hold, as Outcome) {
	switch as {
	case Completed:
		w.Completed++
		if h.Finish != nil {
			w.Took = append(w.Took, h.Finish.At.Sub(h.Started))
		}
	case Failed:
		w.Failed++
	case Lost:
		w.Lost++
	}
}

// Completes reports whether a fact says that an agent completed a task, or handed it in for review.
// A person's approval is no work.
func Completes(e claim.Fact) bool {
	return (e.Kind == claim.KindCompleted || e.Kind == claim.KindReview) && e.By == ""
}

// Period is what happened in a day or an hour, or in the part of it that was asked for.
type Period struct {
	From, To time.Time
	Ended    []claim.Hold
	Granted  int
	Held     float64 // how many claims were held at a time, on average
	Waiting  float64 // how many tasks were ready meanwhile, of those of which it is known since when
	Denied   map[claim.Code]int
	// Waited has how long granted tasks had been ready, where it is known since when.
	Waited []time.Duration
}

// Hour returns the end of the hour that at is in.
func Hour(at time.Time) time.Time { return at.Truncate(time.Hour).Add(time.Hour) }

// Periods divides a time into days or hours, oldest first; end returns when the day or hour of a
// moment ends. It takes the claims that ended in that time, in that order, those that are held,
// and the facts of that time in the order of storing.
func Periods(from, to time.Time, end func(time.Time) time.Time, holds []claim.Hold, facts []claim.Fact) (periods []Period) {
	for at := from; at.Before(to); at = end(at) {
		periods = append(periods, Period{From: at, To: end(at), Denied: make(map[claim.Code]int)})
	}
	if len(periods) > 0 {
		periods[len(periods)-1].To = to
	}
	of := func(at time.Time) *Period {
		i, _ := slices.BinarySearchFunc(periods, at, func(p Period, at time.Time) int { return cmp.Or(p.To.Compare(at), -1) })
		if i == len(periods) || at.Before(from) {
			return &Period{Denied: make(map[claim.Code]int)} // not asked for
		}
		return &periods[i]
	}
	spread := func(from, until time.Time, add func(p *Period, share float64)) {
		for i := range periods {
			p := &periods[i]
			if part := min(until.UnixNano(), p.To.UnixNano()) - max(from.UnixNano(), p.From.UnixNano()); part > 0 {
				add(p, float64(part)/float64(p.To.Sub(p.From)))
			}
		}
	}
	for _, h := range holds {
		if h.Started.IsZero() || h.Brief {
			continue
		}
		of(h.Started).Granted++
		until := to
		if h.State == claim.Ended {
			until = h.Ended
			p := of(until)
			p.Ended = append(p.Ended, h)
		}
		spread(h.Started, until, func(p *Period, share float64) { p.Held += share })
	}
	ready := make(map[task.ID]time.Time) // since when tasks are
	waited := func(id task.ID, until time.Time) {
		spread(ready[id], until, func(p *Period, share float64) { p.Waiting += share })
		delete(ready, id)
	}
	for _, f := range facts {
		switch {
		case f.Kind == claim.KindReady:
			if _, known := ready[f.Task]; known {
				waited(f.Task, f.At)
			}
			ready[f.Task] = f.At
		case f.Kind.Grants():
			if since, known := ready[f.Task]; known {
				p := of(f.At)
				p.Waited = append(p.Waited, max(0, f.At.Sub(since)))
				waited(f.Task, f.At)
			}
		case slices.Contains(takesFromReady, f.Kind):
			if _, known := ready[f.Task]; known {
				waited(f.Task, f.At)
			}
		case f.Kind == claim.KindDenied:
			of(f.At).Denied[f.Code] += max(1, f.Count)
		}
	}
	for id := range ready {
		waited(id, to)
	}
	return periods
}

// takesFromReady are what people do to a ready task that nobody can claim then.
var takesFromReady = []claim.Kind{claim.KindCompleted, claim.KindCancelled, claim.KindBlocked, claim.KindReview, claim.KindFailed, claim.KindReassigned, claim.KindTrashed}

// NineOfTen returns the length that nine of ten lengths do not exceed; nil if there are none. It
// sorts lengths.
func NineOfTen(lengths []time.Duration) *time.Duration {
	if len(lengths) == 0 {
		return nil
	}
	slices.Sort(lengths)
	return new(lengths[int(math.Ceil(0.9*float64(len(lengths))))-1])
}
