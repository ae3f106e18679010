package claim

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"

	"github.com/tidwall/btree"
)

// book holds the live claims in memory, as the ledger has them: the ledger is
// written first. What is asked of it costs as much as there is in the answer,
// however many claims there are. It is safe for concurrent use.
type book struct {
	mu     sync.RWMutex
	claims map[ID]Hold
	tasks  *btree.BTreeG[listed] // all claims, by their tasks
	agents *btree.BTreeG[listed] // those held or being finished, by their agents

	steps    dates // when RunDue has something to do for a claim
	warnings dates // when an agent is to be warned, see Warn
	renewals dates // when a lease is to be written anew, see KeepAlive
	finishes dates // when agents said that they were done
}

// dates has claims in the order of the moments that when gives for them, without
// those for which it gives none.
type dates struct {
	*clock.Agenda[ID]
	when func(Hold) (at time.Time, ok bool)
}

// listed is a claim under a heading.
type listed struct {
	under string
	id    ID
}

func (l listed) compare(m listed) int {
	return cmp.Or(strings.Compare(l.under, m.under), cmp.Compare(l.id, m.id))
}

func newBook() *book {
	list := func() *btree.BTreeG[listed] {
		return btree.NewBTreeGOptions(func(a, b listed) bool { return a.compare(b) < 0 }, btree.Options{NoLocks: true})
	}
	return &book{
		claims: make(map[ID]Hold), tasks: list(), agents: list(),
		steps:    dates{clock.NewAgenda[ID](), Hold.step},
		warnings: dates{clock.NewAgenda[ID](), Hold.warning},
		renewals: dates{clock.NewAgenda[ID](), Hold.renewal},
		finishes: dates{clock.NewAgenda[ID](), Hold.finishing},
	}
}

// put takes over a claim as it was stored.
func (b *book) put(c Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, known := b.claims[c.ID]; known {
		b.tasks.Delete(listed{string(old.Task.ID), old.ID})
		b.agents.Delete(listed{old.Agent, old.ID})
		delete(b.claims, c.ID)
	}
	for _, d := range []dates{b.steps, b.warnings, b.renewals, b.finishes} {
		if at, ok := d.when(c); ok {
			d.Set(c.ID, at)
		} else {
			d.Remove(c.ID)
		}
	}
	if c.State == Ended {
		return
	}
	b.claims[c.ID] = c
	b.tasks.Set(listed{string(c.Task.ID), c.ID})
	if c.State == Held || c.State == Finishing {
		b.agents.Set(listed{c.Agent, c.ID})
	}
}

// get returns a live claim.
func (b *book) get(id ID) (Hold, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	c, ok := b.claims[id]
	return c, ok
}

// on returns the claims on a task, oldest first.
func (b *book) on(id task.ID) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []Hold
	b.tasks.Ascend(listed{under: string(id)}, func(l listed) bool {
		if l.under != string(id) {
			return false
		}
		out = append(out, b.claims[l.id])
		return true
	})
	return out
}

// of returns the claims that an agent, or if that is empty anybody, holds or is
// done with, oldest first.
func (b *book) of(agent string) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var ids []ID
	b.agents.Ascend(listed{under: agent}, func(l listed) bool {
		if agent != "" && l.under != agent {
			return false
		}
		ids = append(ids, l.id)
		return true
	})
	slices.Sort(ids)
	out := make([]Hold, len(ids))
	for i, id := range ids {
		out[i] = b.claims[id]
	}
	return out
}

// held is how many claims are held.
func (b *book) held() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.agents.Len() - b.finishes.Len()
}

// until returns the claims whose dates are not after end, in the order of these.
func (b *book) until(d dates, end time.Time) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []Hold
	for id, at := range d.From(time.Time{}) {
		if at.After(end) {
			break
		}
		out = append(out, b.claims[id])
	}
	return out
}

// first returns the earliest date, from start on, of a claim that counts; zero if
// there is none.
func (b *book) first(d dates, start time.Time, counts func(Hold) bool) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for id, at := range d.From(start) {
		if counts(b.claims[id]) {
			return at
		}
	}
	return time.Time{}
}

// step is when RunDue has something to do for c.
func (c Hold) step() (time.Time, bool) {
	switch c.State {
	case Reserved, Writing:
		return c.Reserved, true // at once, if nobody is at work on it any more
	case Finishing, Abandoned, Voided, Clearing:
		return c.Due, true
	case Unseen:
		if end := c.watchEnd(); end.After(c.Due) {
			return end, true
		}
		return c.Due, true
	}
	return time.Time{}, false
}

// warning is when the agent of c is to be warned that its lease ends.
func (c Hold) warning() (time.Time, bool) {
	return warnAt(c), c.State == Held && !c.Warned.Equal(c.ExpiresAt())
}

// renewal is when the lease of c may be written anew, if its agent has given a
// sign of life since it was.
func (c Hold) renewal() (time.Time, bool) {
	return c.ClaimedAt.Add(c.Timeout / 2), c.State == Held && c.Heartbeat.After(c.ClaimedAt)
}

// finishing is when the agent of c said that it was done.
func (c Hold) finishing() (time.Time, bool) {
	if c.State != Finishing {
		return time.Time{}, false
	}
	return c.Finish.At, true
}
