package chaos_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/anishathalye/porcupine"
	"github.com/oklog/ulid/v2"
)

// history is what agents and people know of a run's claims. Times are since the beginning of the
// run, by this process's clock, which is Notion's.
type history struct {
	began time.Time

	mu    sync.Mutex
	holds map[claim.ID]*hold
	keys  map[string]claim.ID
	// takings are the times, by task, at which people changed what a claim depends on.
	takings map[string][]time.Duration
	// late are the times, by task, at which a claim write was delayed to land later.
	late map[string][]time.Duration
	// told are the times, by text, from the first requests for messages to their answers.
	told map[string]span
	// aways are the times in which daemons could do nothing.
	aways []away
	bad   []string // violations found immediately
	// spans are the times from which the journal admits that what it accepted may be lost.
	spans  []span
	unless []doubtful
}

// span is a time.
type span struct{ from, to time.Duration }

// doubtful is a violation, unless what was accepted in a time may be lost.
type doubtful struct {
	accepted span
	what     string
}

// hold is a claim as its agent knows it.
type hold struct {
	id             claim.ID
	task, agent    string
	daemon         int
	fence          int64         // 0 if each daemon has its own journal, with its own numbers
	call, answered time.Duration // when the agent first asked, and got its answer
	expires        time.Duration // from the last answer
	ends           []end
	finished       claim.Kind // the accepted finish; empty if there was none
	finish         span       // from the first request for it to its answer, or to the last one
}

// away is a time in which a daemon, 0 for all of them, was down or cut off from Notion.
type away struct {
	daemon   int
	from, to time.Duration
}

// end is the earliest time at which the agent stopped trusting its claim.
type end struct {
	at  time.Duration
	why string
}

func newHistory() *history {
	return &history{
		began: time.Now(), holds: make(map[claim.ID]*hold), keys: make(map[string]claim.ID),
		takings: make(map[string][]time.Duration), late: make(map[string][]time.Duration),
		told: make(map[string]span),
	}
}

func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad = append(h.bad, fmt.Sprintf(format, args...))
}

// complaints returns how many there were.
func (h *history) complaints() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bad)
}

// complainUnlessLost complains at the end, unless what was accepted in a time may be lost.
func (h *history) complainUnlessLost(accepted span, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unless = append(h.unless, doubtful{accepted, fmt.Sprintf(format, args...)})
}

// mayBeLost reports whether the journal admits that what it accepted in a time may be lost.
func (h *history) mayBeLost(accepted span) bool {
	return slices.ContainsFunc(h.spans, func(s span) bool { return accepted.from <= s.to && accepted.to >= s.from })
}

// accepted records that a message, which was first sent at call, was accepted.
func (h *history) accepted(text string, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[text] = span{call, h.now()}
}

// forgotten records that a claim which was granted is unknown.
func (h *history) forgotten(id claim.ID) {
	h.mu.Lock()
	hd := h.holds[id]
	h.mu.Unlock()
	h.complainUnlessLost(span{hd.call, hd.answered}, "claim %s, granted to %s at %v, is unknown", id, hd.agent, hd.answered)
}

// bound records that the request under a key was answered with a claim.
func (h *history) bound(key string, id claim.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.keys[key]; ok && other != id {
		h.bad = append(h.bad, fmt.Sprintf("the key %s was given two claims, %s and %s", key, other, id))
	}
	h.keys[key] = id
}

// granted records an agent's grant, for which it first asked at call.
func (h *history) granted(a *chaosAgent, key string, call time.Duration, cl api.Claim) {
	h.bound(key, cl.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.holds[cl.ID]; known != nil {
		if known.agent != a.name {
			h.bad = append(h.bad, fmt.Sprintf("claim %s was given to %s and to %s", cl.ID, known.agent, a.name))
		}
		return
	}
	// The times in the answer are by the daemon's clock, which may be wrong, and may have changed
	// since. The id was minted at the beginning of the attempt by Notion's time.
	minted := ulid.Time(ulid.MustParse(string(cl.ID)).Time()).Sub(h.began)
	minted = min(max(minted, call), h.now())
	if !a.daemon.shares() {
		cl.Fence = 0
	}
	h.holds[cl.ID] = &hold{
		id: cl.ID, task: string(cl.Task.ID), agent: a.name, daemon: a.daemon.number, fence: cl.Fence,
		call: call, answered: h.now(), expires: minted + cl.ExpiresAt.Sub(cl.ClaimedAt.Time),
	}
}

// grants returns how many claims agents were granted so far.
func (h *history) grants() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.holds)
}

// renewed records a renewal that an agent was told of.
func (h *history) renewed(id claim.ID, expires time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.expires = max(hd.expires, expires.Sub(h.began))
	}
}

// ended records that an agent stops trusting its claim at that time.
func (h *history) ended(id claim.ID, at time.Duration, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.ends = append(hd.ends, end{at, fmt.Sprintf(format, args...)})
	}
}

// finished records an agent's finish, for which it first asked at call. as is empty if it was not
// accepted.
func (h *history) finished(id claim.ID, as claim.Kind, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.finished, hd.finish = as, span{call, h.now()}
	}
}

// trusted reports whether the agent still trusts its claim.
func (h *history) trusted(id claim.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	hd := h.holds[id]
	return hd != nil && len(hd.ends) == 0 && h.now() < hd.expires
}

// taken records that a person changes what the claim on a task depends on.
func (h *history) taken(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takings[task] = append(h.takings[task], h.now())
}

// touched reports whether a person changed what a claim on the task depended on.
func (h *history) touched(task string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.takings[task]) > 0
}

// heldUp records that a claim write to the task is delayed.
func (h *history) heldUp(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late[task] = append(h.late[task], h.now())
}

// wasAway records that a daemon, 0 for all of them, could do nothing from then until now.
func (h *history) wasAway(daemon int, from time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aways = append(h.aways, away{daemon, from, time.Since(h.began)})
}

// over returns the earliest time at which the hold's agent stopped trusting its claim.
func (h *history) over(hd *hold) end {
	first := end{hd.expires, "its lease was over"}
	for _, e := range hd.ends {
		if e.at < first.at {
			first = e
		}
	}
	for _, at := range h.takings[hd.task] {
		if at >= hd.call && at < first.at {
			first = end{at, "a person took it"}
		}
	}
	return first
}

// lockStep is one operation on a task seen as a lock.
type lockStep struct {
	claim claim.ID
	fence int64 // 0 without fences
	ends  bool
}

// locked is the lock's owner, and the greatest fence so far.
type locked struct {
	claim claim.ID
	fence int64
}

// lock models a task as its agents see it: it can be taken while nobody has it, and its owner has
// it until the owner stops trusting that, or somewhat longer. With fences, each owner has a greater
// one than the last.
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

// excused reports whether package claim allows that b was granted while a was trusted: a late write
// covered a's claim, and a's daemon could not reach Notion in time to repair that.
func (h *history) excused(a, b *hold) bool {
	return slices.ContainsFunc(h.late[a.task], func(late time.Duration) bool {
		return late > a.call && late < b.answered && slices.ContainsFunc(h.aways, func(w away) bool {
			return (w.daemon == 0 || w.daemon == a.daemon) && w.from < b.answered && w.to > late
		})
	})
}

// check returns the tasks whose history is not that of a lock, with the history, and counts those
// that are excused.
func (h *history) check() (stories map[string]string, excused int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.unless {
		if !h.mayBeLost(d.accepted) {
			h.bad = append(h.bad, d.what)
		}
	}
	byTask := make(map[string][]*hold)
	for _, hd := range h.holds {
		byTask[hd.task] = append(byTask[hd.task], hd)
	}
	stories = make(map[string]string)
	for task, holds := range byTask {
		var ops []porcupine.Operation
		for i, hd := range holds {
			ops = append(ops,
				porcupine.Operation{ClientId: i, Input: lockStep{claim: hd.id, fence: hd.fence}, Call: int64(hd.call), Return: int64(hd.answered)},
				porcupine.Operation{ClientId: i, Input: lockStep{claim: hd.id, ends: true}, Call: int64(max(h.over(hd).at, hd.call)), Return: math.MaxInt64})
		}
		if porcupine.CheckOperations(lock, ops) {
			continue
		}
		var doubles, fine int
		for _, a := range holds {
			for _, b := range holds {
				if a.answered < b.answered && h.over(a).at > b.answered && h.over(b).at > b.answered {
					doubles++
					if h.excused(a, b) {
						fine++
					}
				}
			}
		}
		if excused += fine; doubles == 0 || fine < doubles {
			stories[task] = h.story(task, holds)
		}
	}
	return stories, excused
}

// story formats the history of a task.
func (h *history) story(task string, holds []*hold) string {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, hd := range holds {
		over := h.over(hd)
		lines = append(lines,
			line{hd.call, fmt.Sprintf("%s asks, at daemon %d, for %s", hd.agent, hd.daemon, hd.id)},
			line{hd.answered, fmt.Sprintf("%s is told of %s, fence %d, until %v", hd.agent, hd.id, hd.fence, hd.expires)},
			line{over.at, fmt.Sprintf("%s trusts %s no longer: %s", hd.agent, hd.id, over.why)})
	}
	for _, at := range h.takings[task] {
		lines = append(lines, line{at, "a person takes it"})
	}
	for _, at := range h.late[task] {
		lines = append(lines, line{at, "a claim write is held up"})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%8.3fs  %s\n", l.at.Seconds(), l.text)
	}
	return out.String()
}
