package daemon_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
)

// book is what is known of a mesh without asking its daemons: what agents were told, what
// people did, and what befell whom.
type book struct {
	mu       sync.Mutex
	titles   map[string]string // of tasks, by ids
	holds    map[claim.ID]*grip
	takings  map[string][]time.Time // when people changed what claims rest on, by task
	late     map[string][]time.Time // when claim writes were held up, by task
	aways    []absence
	showings map[string]*showing // of triggers, by ids
	told     map[string]string   // the ids of messages that were told, by agents and texts
	offers   map[string]int      // how many there may have been, by who made them and task
	answers  map[string][]string // the ids of what came of them, in the same way
	owed     map[string]bool     // messages that have to be told, by agents and texts
	reserves []*keeping
	wrong    []string
}

// grip is an agent's hold on a task, as it was told.
type grip struct {
	id       claim.ID
	task     string
	agent    string
	line     int
	call     time.Time // when the agent asked
	told     time.Time
	expires  time.Time
	over     time.Time // when the agent itself stopped to trust it; zero before
	why      string
	finished claim.Kind // as which its finish was accepted
}

// absence is a time in which a daemon, 0 for all, could do nothing.
type absence struct {
	line     int
	from, to time.Time
}

// keeping is an agent's reservation, as it was told.
type keeping struct {
	line         int
	thing, agent string
	from, to     time.Time
}

func newBook() *book {
	return &book{
		titles: make(map[string]string), holds: make(map[claim.ID]*grip),
		takings: make(map[string][]time.Time), late: make(map[string][]time.Time),
		showings: make(map[string]*showing), told: make(map[string]string), owed: make(map[string]bool),
		offers: make(map[string]int), answers: make(map[string][]string),
	}
}

// complain notes what must not have happened.
func (b *book) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault(format, args...)
}

// fault is complain for who has b.mu.
func (b *book) fault(format string, args ...any) {
	b.wrong = append(b.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (b *book) named(id, title string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.titles[id] = title
}

// title is what a task was called at first.
func (b *book) title(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.titles[id]
}

// granted notes that an agent was told of its claim, for which it asked first at call.
func (b *book) granted(h *hand, call time.Time, cl api.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.holds[cl.ID]; known != nil {
		b.fault("claim %s was given to %s and to %s", cl.ID, known.agent, h.name)
		return
	}
	b.holds[cl.ID] = &grip{
		id: cl.ID, task: string(cl.Task.ID), agent: h.name, line: h.line.number,
		call: call, told: time.Now(), expires: cl.ExpiresAt.Time,
	}
}

// renewed notes that an agent was told that its claim lasts longer.
func (b *book) renewed(id claim.ID, expires time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil && expires.After(g.expires) {
		g.expires = expires
	}
}

// ended notes that an agent trusts its claim no longer, from that moment on.
func (b *book) ended(id claim.ID, at time.Time, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil && (g.over.IsZero() || at.Before(g.over)) {
		g.over, g.why = at, fmt.Sprintf(format, args...)
	}
}

// gaveUp notes that an agent says that it does not want a task, from now on.
func (b *book) gaveUp(h *hand, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.holds {
		if g.agent == h.name && g.task == task && g.over.IsZero() {
			g.over, g.why = time.Now(), "its agent is to decline the task"
		}
	}
}

// finished notes that what an agent made of its task was accepted.
func (b *book) finished(id claim.ID, as claim.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.holds[id]; g != nil {
		g.finished = as
	}
}

// trusted reports whether the agent has no reason yet to think that its claim is over.
func (b *book) trusted(id claim.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.holds[id]
	return g != nil && g.over.IsZero() && time.Now().Before(g.expires)
}

// taken notes that a person changes what the claim on a task rests on.
func (b *book) taken(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takings[task] = append(b.takings[task], time.Now())
}

// heldUp notes that a claim write is held up on its way to the task.
func (b *book) heldUp(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late[task] = append(b.late[task], time.Now())
}

// wasAway notes that a daemon, 0 for all of them, could do nothing from then until now.
func (b *book) wasAway(line int, from time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aways = append(b.aways, absence{line, from, time.Now()})
}

// sent notes that a message was accepted. Within one line, it has to be told.
func (b *book) sent(from, to *hand, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if from.line == to.line {
		b.owed[to.name+" "+text] = true
	}
}

// shown notes that a trigger was handed to an agent. It is not to be had by another poll while it
// is not visible, and never once it was acknowledged.
func (b *book) shown(h *hand, taker string, t api.Trigger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	before, known := b.showings[t.ID]
	switch {
	case !known:
		before = &showing{line: named(t)}
		b.showings[t.ID] = before
		if t.Type == inbox.Message {
			b.heard(h, t)
		}
	case before.done == acked:
		b.fault("%q comes back to %s after it was acknowledged", before.line, h.name)
	case before.taker != taker && now.Sub(before.at) < visibility-2*time.Second:
		b.fault("%q is handed to another poll of %s %v after the last one", before.line, h.name, now.Sub(before.at))
	}
	before.taker, before.at = taker, now
}

// heard notes a message. Each that an agent sends has a text of its own. The others are about a task:
// they say what came of an offer, with words that are always the same.
func (b *book) heard(h *hand, t api.Trigger) {
	if t.Task != nil {
		key := h.name + " " + string(t.Task.ID)
		b.answers[key] = append(b.answers[key], t.ID)
		if ids := b.answers[key]; len(ids) > b.offers[key] {
			b.fault("%s is told %q of %q, the last of %s, and made %d offers of it", h.name, t.Text, b.titles[string(t.Task.ID)], strings.Join(ids, ", "), b.offers[key])
		}
		return
	}
	key := h.name + " " + t.Text
	if other := b.told[key]; other != "" {
		b.fault("%s is told %q as %s and as %s", h.name, t.Text, other, t.ID)
	}
	b.told[key] = t.ID
}

// offered notes that an agent is about to offer a task.
func (b *book) offered(h *hand, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offers[h.name+" "+task]++
}

// acked notes how far the acknowledgement of triggers came.
func (b *book) acked(ids []string, how done) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.showings[id].done = max(b.showings[id].done, how)
	}
}

// untold are the messages that were accepted and not told.
func (b *book) untold() (missing []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.owed {
		if b.told[key] == "" {
			missing = append(missing, key)
		}
	}
	return missing
}

// reserved notes that an agent was told that it has something for itself.
func (b *book) reserved(h *hand, thing string, r api.Reservation) *keeping {
	b.mu.Lock()
	defer b.mu.Unlock()
	const clocks = 2 * time.Second // by which ideas of the time may differ
	k := &keeping{h.line.number, thing, h.name, time.Now(), r.ExpiresAt.Time}
	for _, other := range b.reserves {
		if other.line == k.line && other.thing == thing && other.agent == k.agent && other.to.After(k.from) {
			other.to = k.from // this one takes its place, and may be shorter
		}
		if other.line == k.line && other.thing == thing && other.agent != k.agent && other.to.After(k.from.Add(clocks)) {
			b.fault("%s has %s until %v, and %s was given it", other.agent, thing, other.to, k.agent)
		}
	}
	b.reserves = append(b.reserves, k)
	return k
}

// unreserved notes that an agent is about to give back what it has reserved. Who reserves the same
// twice has one reservation.
func (b *book) unreserved(k *keeping) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reserves {
		if now := time.Now(); r.line == k.line && r.agent == k.agent && r.thing == k.thing && now.Before(r.to) {
			r.to = now
		}
	}
}
