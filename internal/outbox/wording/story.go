package wording

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Somebody is who did what was only seen on the board: Notion does not say who.
const Somebody = "a person"

// Step is one thing that happened to a task. Its texts are of one line each.
type Step struct {
	At             time.Time
	Who, What, Why string
}

// Story tells the facts about one task, oldest first; with a claim, only those of that claim. What
// the board shows because of a fact on record is not told again.
func Story(facts []claim.Fact, of claim.ID) []Step {
	known := newKnown(facts)
	facts = slices.Clone(facts)
	slices.SortStableFunc(facts, func(a, b claim.Fact) int { return a.At.Compare(b.At) })
	var steps []Step
	for _, f := range facts {
		if known.echo(f) || of != "" && !belongs(f, of) {
			continue
		}
		why := details(f)
		if !f.Finished.IsZero() && len(f.Changed) > 0 {
			why = append(why, "it changed "+strings.Join(f.Changed, ", "))
		}
		steps = append(steps, Step{f.At, line(known.who(f)), line(sentence(f, "the task")), line(strings.Join(why, "; "))})
	}
	return steps
}

func line(s string) string { return task.OneLine(s, unicode.ReplacementChar) }

// belongs reports whether a fact is that claim's. A take-over is one of the claim that was taken
// over; the other one's grant says it too.
func belongs(f claim.Fact, of claim.ID) bool {
	if f.Kind == claim.KindOverridden {
		return f.Former == of
	}
	return f.Claim == of
}

// known is what the record says of the claims on a task. Boards without a column for the token
// show only the agent's name, which then stands for its claims.
type known struct {
	granted, finished, ended map[string]bool
	added                    bool
	reopened                 int // how often; each shows on the board once
	// byPeople counts what people did through dibs, without a claim; each shows on the board once.
	byPeople map[claim.Kind]int
}

// keyOf returns the name of a fact's claim.
func keyOf(f claim.Fact) string { return cmp.Or(string(f.Claim), "agent "+f.Agent) }

func newKnown(facts []claim.Fact) *known {
	k := &known{granted: map[string]bool{}, finished: map[string]bool{}, ended: map[string]bool{}, byPeople: map[claim.Kind]int{}}
	for _, f := range facts {
		if f.Seen {
			continue
		}
		if f.Claim == "" && f.Agent == "" && f.Kind != claim.KindAdded && f.Kind != claim.KindReopened {
			k.byPeople[f.Kind]++
			continue
		}
		of := []map[string]bool{k.granted}
		switch f.Kind {
		case claim.KindCompleted, claim.KindReview, claim.KindFailed, claim.KindBlocked, claim.KindReleased, claim.KindOffered, claim.KindDeclined, claim.KindExpired:
			of = []map[string]bool{k.granted, k.finished, k.ended}
		case claim.KindLost, claim.KindSwept, claim.KindOverridden:
			of = []map[string]bool{k.granted, k.ended}
			if f.Kind != claim.KindLost { // the claim of the agent that had it
				f.Agent = f.Holder
			}
			if f.Kind == claim.KindOverridden {
				f.Claim = f.Former
			}
		case claim.KindAdded:
			k.added = true
			continue
		case claim.KindReopened:
			k.reopened++
			continue
		case claim.KindGranted, claim.KindAccepted, claim.KindRenewed:
		default:
			continue
		}
		for _, names := range of {
			names[keyOf(f)] = true
			if f.Agent != "" {
				names["agent "+f.Agent] = true
			}
		}
	}
	return k
}

// echo reports whether f is only the sight of something on record.
func (k *known) echo(f claim.Fact) bool {
	if !f.Seen {
		return false
	}
	if k.byPeople[f.Kind] > 0 && f.Agent == "" {
		k.byPeople[f.Kind]--
		return true
	}
	switch f.Kind {
	case claim.KindCreated:
		return k.added
	case claim.KindClaimed:
		return k.granted[keyOf(f)]
	case claim.KindReleased:
		return k.ended[keyOf(f)]
	case claim.KindCompleted, claim.KindReview, claim.KindFailed, claim.KindBlocked:
		return k.finished[keyOf(f)]
	case claim.KindReopened, claim.KindUnblocked:
		k.reopened--
		return k.reopened >= 0
	}
	return false
}

// who returns who did it. Of a claim that was made elsewhere, its agent did what is seen.
func (k *known) who(f claim.Fact) string {
	if tell(f).own {
		return claim.Sweeper
	}
	switch f.Kind {
	case claim.KindSwept:
		return cmp.Or(f.By, claim.Sweeper)
	case claim.KindLost:
		return cmp.Or(f.Holder, f.By, Somebody)
	}
	if f.Seen && (f.Claim == "" || k.granted[string(f.Claim)] || f.Kind == claim.KindEdited || f.Kind == claim.KindCancelled) {
		return cmp.Or(f.By, Somebody)
	}
	return cmp.Or(f.Agent, f.By, Somebody)
}
