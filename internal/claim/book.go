package claim

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/kit/btree"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// book is the in-memory copy of the ledger's live holds and marks; the ledger is written first.
// A look-up costs as much as its answer is long, however many records there are. It is safe for
// concurrent use.
type book struct {
	mu     sync.RWMutex
	holds  shelf[Hold]
	marks  shelf[Mark]
	agents headings // the holds that are held or being finished, by their agents

	steps    calendar[Hold] // when RunDue has something to do for a hold
	warnings calendar[Hold] // when an agent is to be warned, see Warn
	renewals calendar[Hold] // when a lease is due for renewal, see KeepAlive
	finishes calendar[Hold] // when agents reported that they were done
	due      calendar[Mark] // when RunDue has something to do for a mark
}

func newBook() *book {
	return &book{
		holds: newShelf[Hold](), marks: newShelf[Mark](), agents: newHeadings(),
		steps:    calendar[Hold]{clock.NewAgenda[ID](), Hold.step},
		warnings: calendar[Hold]{clock.NewAgenda[ID](), Hold.warning},
		renewals: calendar[Hold]{clock.NewAgenda[ID](), Hold.renewal},
		finishes: calendar[Hold]{clock.NewAgenda[ID](), Hold.finishing},
		due:      calendar[Mark]{clock.NewAgenda[ID](), Mark.step},
	}
}

// calendar orders the ids of records by the times that when returns. Records without a time are
// left out.
type calendar[R any] struct {
	*clock.Agenda[ID]
	when func(R) (at time.Time, ok bool)
}

func (d calendar[R]) put(id ID, r R) {
	if at, ok := d.when(r); ok {
		d.Set(id, at)
	} else {
		d.Remove(id)
	}
}

// headings lists ids under headings, oldest first.
type headings struct{ btree.Tree[listed] }

type listed struct {
	under string
	id    ID
}

func newHeadings() headings {
	return headings{btree.New(func(a, b listed) bool {
		return cmp.Or(strings.Compare(a.under, b.under), cmp.Compare(a.id, b.id)) < 0
	})}
}

// under returns the ids under a heading.
func (h headings) under(heading string) (ids []ID) {
	h.Ascend(listed{under: heading}, func(l listed) bool {
		if l.under == heading {
			ids = append(ids, l.id)
		}
		return l.under == heading
	})
	return ids
}

// every returns the ids under all headings.
func (h headings) every() (ids []ID) {
	h.All(func(l listed) bool {
		ids = append(ids, l.id)
		return true
	})
	return ids
}

// shelf indexes records by id and by task.
type shelf[R any] struct {
	all   map[ID]R
	tasks headings
}

func newShelf[R any]() shelf[R] { return shelf[R]{make(map[ID]R), newHeadings()} }

func (s shelf[R]) put(id ID, on task.ID, r R) {
	s.all[id] = r
	s.tasks.Set(listed{string(on), id})
}

func (s shelf[R]) remove(id ID, on task.ID) {
	delete(s.all, id)
	s.tasks.Delete(listed{string(on), id})
}

func (s shelf[R]) of(ids []ID) []R {
	out := make([]R, len(ids))
	for i, id := range ids {
		out[i] = s.all[id]
	}
	return out
}

// put applies a stored change.
func (b *book) put(c Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range c.Holds {
		if old, known := b.holds.all[h.ID]; known {
			b.holds.remove(old.ID, old.Task.ID)
			b.agents.Delete(listed{old.Agent, old.ID})
		}
		for _, d := range []calendar[Hold]{b.steps, b.warnings, b.renewals, b.finishes} {
			d.put(h.ID, h)
		}
		if h.State != Ended {
			b.holds.put(h.ID, h.Task.ID, h)
		}
		if h.State == Held || h.State == Finishing {
			b.agents.Set(listed{h.Agent, h.ID})
		}
	}
	for _, m := range c.Marks {
		if old, known := b.marks.all[m.ID]; known {
			b.marks.remove(old.ID, old.Task.ID)
		}
		b.due.put(m.ID, m)
		if m.State != Gone {
			b.marks.put(m.ID, m.Task.ID, m)
		}
	}
}

// get returns a live hold.
func (b *book) get(id ID) (Hold, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	h, ok := b.holds.all[id]
	return h, ok
}

// mark returns a live mark.
func (b *book) mark(id ID) (Mark, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	m, ok := b.marks.all[id]
	return m, ok
}

// on returns the holds on a task, oldest first.
func (b *book) on(id task.ID) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.holds.of(b.holds.tasks.under(string(id)))
}

// marksOn returns the marks on a task, oldest first.
func (b *book) marksOn(id task.ID) []Mark {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.marks.of(b.marks.tasks.under(string(id)))
}

// allMarks returns the marks on all tasks.
func (b *book) allMarks() []Mark {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.marks.of(b.marks.tasks.every())
}

// of returns the claims that an agent holds or is finishing, oldest first; everybody's if agent
// is empty.
func (b *book) of(agent string) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ids := b.agents.under(agent)
	if agent == "" {
		ids = b.agents.every()
	}
	slices.Sort(ids)
	return b.holds.of(ids)
}

// held returns the number of held claims.
func (b *book) held() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.agents.Len() - b.finishes.Len()
}

// until returns the holds whose dates are not after end, earliest first.
func (b *book) until(d calendar[Hold], end time.Time) []Hold {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.holds.of(d.until(end))
}

// dueUntil returns the marks whose next step is due by end, earliest first.
func (b *book) dueUntil(end time.Time) []Mark {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.marks.of(b.due.until(end))
}

// dueFrom returns the marks whose next step is due at start or later.
func (b *book) dueFrom(start time.Time) []Mark {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var ids []ID
	for id := range b.due.From(start) {
		ids = append(ids, id)
	}
	return b.marks.of(ids)
}

func (d calendar[R]) until(end time.Time) (ids []ID) {
	for id, at := range d.From(time.Time{}) {
		if at.After(end) {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// first returns the earliest date, from start on, of a hold for which counts is true; zero if
// there is none.
func (b *book) first(d calendar[Hold], start time.Time, counts func(Hold) bool) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for id, at := range d.From(start) {
		if counts(b.holds.all[id]) {
			return at
		}
	}
	return time.Time{}
}

// firstDue returns when the first step of a mark is due; zero if none is.
func (b *book) firstDue() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, at := range b.due.From(time.Time{}) {
		return at
	}
	return time.Time{}
}

// step returns when RunDue has something to do for h.
func (h Hold) step() (time.Time, bool) {
	switch h.State {
	case Reserved, Writing:
		return h.Reserved, true // at once, if the attempt was cut short
	case Held:
		at := h.KeptUntil().Add(clockAllowance)
		if h.Due.After(at) {
			at = h.Due
		}
		return at, h.Requested > 0
	case Finishing:
		return h.Due, true
	}
	return time.Time{}, false
}

// warning returns when to warn the agent of h that its lease is about to end.
func (h Hold) warning() (time.Time, bool) {
	return warnAt(h), h.State == Held && !h.Warned.Equal(h.ExpiresAt())
}

// renewal returns when the lease of h may be renewed. There is a time only if the agent was
// alive since the last renewal, or if the claim is kept for longer than the lease.
func (h Hold) renewal() (time.Time, bool) {
	end := h.ClaimedAt.Add(h.Timeout)
	return end.Add(-h.Timeout / 2), h.State == Held && (h.Heartbeat.After(h.ClaimedAt) || h.KeptUntil().After(end))
}

// finishing returns when the agent of h reported that it was done.
func (h Hold) finishing() (time.Time, bool) {
	if h.State != Finishing {
		return time.Time{}, false
	}
	return h.Finish.At, true
}

// maxNotice is the longest notice before the end of a claim. The notice is at most a third of
// how long it lasts.
const maxNotice = 5 * time.Minute

// warnAt returns when to warn the agent of h that its lease is about to end.
func warnAt(h Hold) time.Time {
	return h.ExpiresAt().Add(-min(maxNotice, h.Patience()/3))
}
