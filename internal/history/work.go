package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dibs/internal/claim"
)

// Work is how an agent's claims ended.
type Work struct {
	Agent                   string
	Completed, Failed, Lost int            // completed, or handed in for review
	Median                  *time.Duration // how long it had what it completed; nil if there is nothing
	// Micros is what the agent spent, in millionths of a US dollar.
	Micros int64
}

// Counted returns the counter for the end of a claim; empty for none. A stale claim is lost,
// whoever reopened its task. An agent that had finished lost nothing that it relies on.
func Counted(h claim.Hold) Name {
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

// Sum adds up how claims ended, and what was spent meanwhile, by agent, in the order of their names.
func Sum(ended []claim.Hold, spent ...Spent) []Work {
	works := make(map[string]*Work)
	of := func(agent string) *Work {
		w := works[agent]
		if w == nil {
			w = &Work{Agent: agent}
			works[agent] = w
		}
		return w
	}
	for _, s := range spent {
		if s.Micros > 0 {
			of(s.Agent).Micros += s.Micros
		}
	}
	took := make(map[string][]time.Duration)
	for _, h := range ended {
		name := Counted(h)
		if name == "" {
			continue
		}
		w := of(h.Agent)
		switch name {
		case Completed:
			w.Completed++
			if h.Finish != nil {
				took[h.Agent] = append(took[h.Agent], h.Finish.At.Sub(h.Started))
			}
		case Failed:
			w.Failed++
		case Lost:
			w.Lost++
		}
	}
	var out []Work
	for agent, w := range works {
		w.Median = Median(took[agent])
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Work) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}

// Days divides ended claims by the day of here on which they ended, oldest first.
func Days(ended []claim.Hold, here *time.Location) (days []time.Time, of map[time.Time][]claim.Hold) {
	of = make(map[time.Time][]claim.Hold)
	for _, h := range ended {
		year, month, day := h.Ended.In(here).Date()
		at := time.Date(year, month, day, 0, 0, 0, 0, here)
		of[at] = append(of[at], h)
	}
	return slices.SortedFunc(maps.Keys(of), time.Time.Compare), of
}
