package claim

import (
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/task"
)

// Some of what people do to a card the daemon answers with a write of its own: it takes off what
// is left of a claim, sweeps a stale one. An automation in Notion may
// answer that in turn, and so on for ever. So a card that was answered mostAnswers times within
// answersWithin is left alone for restFor. What safety needs goes on: claims, renewals, finishes,
// the withdrawal of attempts, claims that are written back, and the end of a claim, of which only
// the remains stay on the card. What somebody asks for by `dibs reopen` is no answer.
const (
	mostAnswers   = 3
	answersWithin = 10 * time.Minute
	restFor       = time.Hour
)

// unrest counts the answers to cards. It is in memory only: a restart begins anew. It goes by
// this machine's clock, and is safe for concurrent use.
type unrest struct {
	mu    sync.Mutex
	cards map[task.ID]answered
}

// answered is a card with the times of its last answers, oldest first.
type answered struct {
	task  task.Task
	times []time.Time
}

// until returns when a card's rest ends; zero if it has none.
func (a answered) until() time.Time {
	n := len(a.times)
	if n < mostAnswers || a.times[n-1].Sub(a.times[0]) > answersWithin {
		return time.Time{}
	}
	return a.times[n-1].Add(restFor)
}

// answer counts an answer to t. It reports whether t is left alone from now on.
func (u *unrest) answer(t task.Task) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(u.cards, func(_ task.ID, a answered) bool { return now.Sub(a.times[len(a.times)-1]) > restFor })
	if u.cards == nil {
		u.cards = make(map[task.ID]answered)
	}
	times := append(slices.Clone(u.cards[t.ID].times), now)
	a := answered{t, times[max(0, len(times)-mostAnswers):]}
	u.cards[t.ID] = a
	return !a.until().IsZero()
}

// LeftAlone returns for how long the daemon still leaves a card alone, because something changes
// it back whenever it is tidied; 0 if it does not.
func (u *unrest) LeftAlone(id task.ID) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(0, time.Until(u.cards[id].until()))
}

// AllLeftAlone returns the cards that are left alone, by their ids.
func (u *unrest) AllLeftAlone() []task.Task {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []task.Task
	for _, id := range slices.Sorted(maps.Keys(u.cards)) {
		if a := u.cards[id]; time.Now().Before(a.until()) {
			out = append(out, a.task)
		}
	}
	return out
}
