package report

import (
	"cmp"
	"slices"
	"time"

	"dibs/internal/claim"
)

// Work is how an agent's claims ended.
type Work struct {
	Agent                   string
	Completed, Failed, Lost int             // completed, or handed in for review
	Took                    []time.Duration // how long it had what it completed
	// Micros is what the agent spent, in millionths of a US dollar.
	Micros int64
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
				w.Took = append(w.Took, h.Finish.At.Sub(h.Started))
			}
		case Failed:
			w.Failed++
		case Lost:
			w.Lost++
		}
	}
	var out []Work
	for _, w := range works {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Work) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}
