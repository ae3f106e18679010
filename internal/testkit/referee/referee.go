// Package referee judges what many agents did at once: what each knew of its claims, whether two ever
// trusted to have one task, what inboxes told, and what is on record. It sees what agents and people see,
// and asks no daemon. Tests alone import it. A Book and an Inbox may be used by several goroutines.
package referee

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"

	"github.com/anishathalye/porcupine"
)

// onItsWay is how long a write that rests on what a page showed before a person changed it may be on
// its way.
const onItsWay = 30 * time.Second

// Book is what is known of a run.
type Book struct {
	mu       sync.Mutex
	holds    map[claim.ID]*Hold
	takings  map[string][]time.Time // when people changed what claims rest on, by task
	late     map[string][]time.Time // when claim writes were held up, by task
	aways    []absence
	accepted map[string]Span // messages, by text
	lost     []Span          // in which the journal admits that what it accepted may be lost
	unless   []doubtful
	wrong    []string
}

// Hold is a claim as its agent knows it.
type Hold struct {
	ID          claim.ID
	Task, Agent string
	Daemon      int   // that the agent asked
	Fence       int64 // 0 if its journal shares its numbers with no other
	Call, Told  time.Time
	Expires     time.Time  // by the last answer
	Over        time.Time  // when the agent itself stopped to trust it; zero before
	Why         string     // it did
	Finished    claim.Kind // as which its finish was accepted; empty if none was
	Finish      Span       // from the first request for it to its answer
}

// Span is a time.
type Span struct{ From, To time.Time }

// absence is a time in which a daemon, 0 for all, could do nothing.
type absence struct {
	daemon int
	Span
}

// doubtful is wrong unless what was accepted in a time may be lost.
type doubtful struct {
	accepted Span
	what     string
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{
		holds: make(map[claim.ID]*Hold), accepted: make(map[string]Span),
		takings: make(map[string][]time.Time), late: make(map[string][]time.Time),
	}
}

// Complain notes what must not have happened.
func (b *Book) Complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault(format, args...)
}

// fault is Complain for who has b.mu.
func (b *Book) fault(format string, args ...any) {
	b.wrong = append(b.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// ComplainUnlessLost complains in Doubles, unless what was accepted in a time may be lost.
func (b *Book) ComplainUnlessLost(accepted Span, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unless = append(b.unless, doubtful{accepted, fmt.Sprintf(format, args...)})
}

// Wrong returns the complaints.
func (b *Book) Wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.wrong)
}

// Granted notes that an agent was told of its claim.
func (b *Book) Granted(h Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.holds[h.ID]; known != nil {
		b.fault("claim %s was given to %s and to %s", h.ID, known.Agent, h.Agent)
		return
	}
	h.Told = time.Now()
	b.holds[h.ID] = &h
}

// of lets change change what is known of a claim that was granted.
func (b *Book) of(id claim.ID, change func(*Hold)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.holds[id]; h != nil {
		change(h)
	}
}

// Renewed notes until when an agent was told that its claim lasts.
func (b *Book) Renewed(id claim.ID, expires time.Time) {
	b.of(id, func(h *Hold) {
		if expires.After(h.Expires) {
			h.Expires = expires
		}
	})
}

// Ended notes that an agent trusts its claim no longer, from that moment on.
func (b *Book) Ended(id claim.ID, at time.Time, format string, args ...any) {
	b.of(id, func(h *Hold) {
		if h.Over.IsZero() || at.Before(h.Over) {
			h.Over, h.Why = at, fmt.Sprintf(format, args...)
		}
	})
}

// Finished notes that what an agent made of its task, first at call, was accepted; if as is empty, that
// it was not.
func (b *Book) Finished(id claim.ID, as claim.Kind, call time.Time) {
	b.of(id, func(h *Hold) { h.Finished, h.Finish = as, Span{call, time.Now()} })
}

// Trusted reports whether the agent has no reason yet to think that its claim is over.
func (b *Book) Trusted(id claim.ID) (trusted bool) {
	b.of(id, func(h *Hold) { trusted = h.Over.IsZero() && time.Now().Before(h.Expires) })
	return trusted
}

// Hold returns what is known of a claim, nothing if nobody was told of it.
func (b *Book) Hold(id claim.ID) (hold Hold) {
	b.of(id, func(h *Hold) { hold = *h })
	return hold
}

// Holds returns all holds, in the order in which agents were told of them.
func (b *Book) Holds() (all []Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.holds {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(x, y Hold) int { return cmp.Or(x.Told.Compare(y.Told), cmp.Compare(x.ID, y.ID)) })
	return all
}

// Taken notes that a person changes what the claim on a task rests on.
func (b *Book) Taken(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takings[task] = append(b.takings[task], time.Now())
}

// HeldUp notes that a claim write is held up on its way to the task.
func (b *Book) HeldUp(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late[task] = append(b.late[task], time.Now())
}

// WasAway notes that a daemon, 0 for all of them, could do nothing from then until now.
func (b *Book) WasAway(daemon int, from time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aways = append(b.aways, absence{daemon, Span{from, time.Now()}})
}

// AwayAt reports whether a daemon was away at that moment, or came back less than the grace before it.
func (b *Book) AwayAt(at time.Time, grace time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.aways, func(a absence) bool { return a.From.Before(at) && a.To.After(at.Add(-grace)) })
}

// Accepted notes that a message, which was first sent at call, was accepted. No two have one text.
func (b *Book) Accepted(text string, call time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted[text] = Span{call, time.Now()}
}

// Lose notes that the journal admits that what it accepted in a time may be lost.
func (b *Book) Lose(s Span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = append(b.lost, s)
}

// mayBeLost reports whether what was accepted in a time may be lost. b.mu is held.
func (b *Book) mayBeLost(accepted Span) bool {
	return slices.ContainsFunc(b.lost, func(s Span) bool { return !accepted.From.After(s.To) && !accepted.To.Before(s.From) })
}

// over is when the agent stopped to trust its claim, or had to expect its end: a person took the task.
// b.mu is held.
func (b *Book) over(h *Hold) (at time.Time, why string) {
	at, why = h.Expires, "its lease is over"
	if !h.Over.IsZero() && h.Over.Before(at) {
		at, why = h.Over, h.Why
	}
	for _, taken := range b.takings[h.Task] {
		if taken.After(h.Call.Add(-onItsWay)) && taken.Before(at) {
			at, why = taken, "a person took it"
		}
	}
	return at, why
}

// Reason reports whether a claim may have been lost by then: a person changed the task, or a late write
// fell upon it.
func (b *Book) Reason(h Hold, by time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	within := func(at time.Time) bool { return at.After(h.Call.Add(-onItsWay)) && !at.After(by.Add(time.Minute)) }
	return slices.ContainsFunc(b.takings[h.Task], within) || slices.ContainsFunc(b.late[h.Task], within)
}

// excused reports whether package claim leaves it possible that y was granted while x was trusted: a
// late claim covered x's, and its holder did not get through to repair that. b.mu is held.
func (b *Book) excused(x, y *Hold) bool {
	return slices.ContainsFunc(b.late[x.Task], func(late time.Time) bool {
		return late.After(x.Call) && late.Before(y.Told) && slices.ContainsFunc(b.aways, func(a absence) bool {
			return (a.daemon == 0 || a.daemon == x.Daemon) && a.From.Before(y.Told) && a.To.After(late)
		})
	})
}

// Doubles returns the tasks that two agents trusted to have at once, with what is known of their claims,
// and counts the pairs that package claim leaves possible, which are no doubles.
func (b *Book) Doubles() (stories map[string]string, excused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.unless {
		if !b.mayBeLost(d.accepted) {
			b.fault("%s", d.what)
		}
	}
	byTask := make(map[string][]*Hold)
	for _, h := range b.holds {
		byTask[h.Task] = append(byTask[h.Task], h)
	}
	stories = make(map[string]string)
	for _, task := range slices.Sorted(maps.Keys(byTask)) {
		holds := byTask[task]
		if porcupine.CheckOperations(lock, b.steps(holds)) {
			continue
		}
		doubles, fine := 0, 0
		for _, x := range holds {
			for _, y := range holds {
				overX, _ := b.over(x)
				overY, _ := b.over(y)
				if x.Told.Before(y.Told) && overX.After(y.Told) && overY.After(y.Told) {
					doubles++
					if b.excused(x, y) {
						fine++
					}
				}
			}
		}
		if excused += fine; doubles == 0 || fine < doubles {
			stories[task] = b.story(task, holds)
		}
	}
	return stories, excused
}

// lock is a task as its agents see it: it can be taken while nobody has it, and who has it has it until
// he stops to trust that, or somewhat longer. With fences, each has a greater one than the last.
var lock = porcupine.Model{
	Init: func() any { return locked{} },
	Step: func(state, input, _ any) (bool, any) {
		was, op := state.(locked), input.(lockStep)
		if op.ends {
			return was.claim == op.claim, locked{fence: was.fence}
		}
		return was.claim == "" && (op.fence == 0 || op.fence > was.fence), locked{op.claim, max(op.fence, was.fence)}
	},
}

// locked is who has the lock, and the greatest fence so far.
type locked struct {
	claim claim.ID
	fence int64
}

// lockStep takes the lock, or gives it up.
type lockStep struct {
	claim claim.ID
	fence int64
	ends  bool
}

// steps are the holds of one task in terms of the lock. b.mu is held.
func (b *Book) steps(holds []*Hold) (steps []porcupine.Operation) {
	for i, h := range holds {
		over, _ := b.over(h)
		if over.Before(h.Call) {
			over = h.Call
		}
		steps = append(steps,
			porcupine.Operation{ClientId: i, Input: lockStep{claim: h.ID, fence: h.Fence}, Call: h.Call.UnixNano(), Return: h.Told.UnixNano()},
			porcupine.Operation{ClientId: i, Input: lockStep{claim: h.ID, ends: true}, Call: over.UnixNano(), Return: math.MaxInt64})
	}
	return steps
}

// story is the history of a task. b.mu is held.
func (b *Book) story(task string, holds []*Hold) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, h := range holds {
		over, why := b.over(h)
		lines = append(lines,
			line{h.Call, fmt.Sprintf("%s asks, at daemon %d, for %s", h.Agent, h.Daemon, h.ID)},
			line{h.Told, fmt.Sprintf("%s is told of %s, fence %d, until %s", h.Agent, h.ID, h.Fence, h.Expires.UTC().Format("15:04:05.000"))},
			line{over, fmt.Sprintf("%s trusts %s no longer: %s", h.Agent, h.ID, why)})
	}
	for _, at := range b.takings[task] {
		lines = append(lines, line{at, "a person takes it"})
	}
	for _, at := range b.late[task] {
		lines = append(lines, line{at, "a claim write is held up"})
	}
	slices.SortFunc(lines, func(x, y line) int { return x.at.Compare(y.at) })
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%s  %s\n", l.at.UTC().Format("15:04:05.000"), l.text)
	}
	return out.String()
}
