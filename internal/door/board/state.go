package board

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// maxEvents is how many events a board remembers.
const maxEvents = 1000

// state is what pages show, from the daemon's last answers. It is safe for concurrent use.
type state struct {
	run string // identifies this state: the next one counts its changes from zero

	mu      sync.Mutex
	cards   []card // in the daemon's order
	health  health
	pauses  []api.Pause
	words   map[task.Status]string // the board's
	events  []event                // oldest first
	number  int64                  // how often it has changed
	changed chan struct{}          // closed with the next change
}

// health is the state of the daemon. Moments are as in a card.
type health struct {
	Up    bool
	Since int64  // the start of its silence
	Error string // why

	Stale     bool
	Owed      int
	OwedSince int64
	Trouble   string // with Notion
	Halted    bool   // everybody is paused
}

// event is something that happened, as a page shows it.
type event struct {
	ID    int64
	At    int64
	Kind  string
	Agent string
	Task  task.ID
	Title string
	Text  string // further details

	Claimed bool // Agent has, or had, a claim
}

func newState(run string) *state { return &state{run: run, changed: make(chan struct{})} }

// touch tells open pages that there is something new. The caller has locked s.mu.
func (s *state) touch() {
	s.number++
	close(s.changed)
	s.changed = make(chan struct{})
}

// touched is touch for a change that is kept elsewhere.
func (s *state) touched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
}

// put stores all cards, in the daemon's order. Only a visible change is told.
func (s *state) put(cards []card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.cards, cards) {
		s.cards = cards
		s.touch()
	}
}

// change stores some cards, each where it was, a new one at the end, until all are read again; and
// drops those that are gone.
func (s *state) change(cards []card, gone []task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.cards), func(c card) bool { return slices.Contains(gone, c.ID) })
	for _, c := range cards {
		if i := slices.IndexFunc(all, func(other card) bool { return other.ID == c.ID }); i >= 0 {
			all[i] = c
		} else {
			all = append(all, c)
		}
	}
	if !slices.Equal(s.cards, all) {
		s.cards = all
		s.touch()
	}
}

// updateClaims takes the leases and the progress of the held claims, which change without an event. It returns the
// tasks whose cards contradict the claims and have to be read again.
func (s *state) updateClaims(claims []api.Claim) (doubted []task.ID) {
	held := make(map[task.ID]api.Claim, len(claims))
	for _, a := range claims {
		held[a.Task.ID] = a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, before := slices.Clone(s.cards), len(held)
	for i, c := range all {
		a, ok := held[c.ID]
		delete(held, c.ID)
		switch {
		case !ok && c.Claim != "", ok && a.State == claim.Held && (c.Status != task.InProgress || c.Claim != a.ID):
			doubted = append(doubted, c.ID)
		case ok && a.State == claim.Held:
			all[i].From, all[i].Until, all[i].Progress = milliseconds(a.ClaimedAt), milliseconds(a.ExpiresAt), text(a.Progress, maxLine)
		}
	}
	if len(all) > 0 || before == 0 {
		for id, a := range held { // on no card
			if a.State == claim.Held {
				doubted = append(doubted, id)
			}
		}
	}
	if !slices.Equal(s.cards, all) {
		s.cards = all
		s.touch()
	}
	return doubted
}

// addEvent adds an event, unless it is known.
func (s *state) addEvent(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.events); n > 0 && s.events[n-1].ID >= e.ID {
		return
	}
	s.events = append(s.events, e)
	if len(s.events) > maxEvents {
		s.events = slices.Delete(s.events, 0, len(s.events)-maxEvents)
	}
	s.touch()
}

// setStatus stores the state of the daemon.
func (s *state) setStatus(h health, pauses []api.Pause, words map[task.Status]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if words != nil {
		s.words = words
	}
	s.setPaused(h, pauses)
}

// setPauses stores what is paused.
func (s *state) setPauses(pauses []api.Pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPaused(s.health, pauses)
}

// setPaused stores both. The caller has locked s.mu.
func (s *state) setPaused(h health, pauses []api.Pause) {
	h.Halted = slices.ContainsFunc(pauses, func(p api.Pause) bool { return p.Agent == "" })
	same := slices.EqualFunc(s.pauses, pauses, func(a, b api.Pause) bool {
		return a.Agent == b.Agent && a.At.Equal(b.At.Time) && a.ExpiresAt.Equal(b.ExpiresAt.Time)
	})
	if h != s.health || !same {
		s.health, s.pauses = h, pauses
		s.touch()
	}
}

// down records that the daemon does not answer.
func (s *state) down(why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	if h.Up || h.Since == 0 {
		h.Since = now.UnixMilli()
	}
	h.Up, h.Error = false, text(why, maxLine)
	s.setPaused(h, s.pauses)
}

// has reports whether the board has a status, as far as is known.
func (s *state) has(status task.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words == nil || s.words[status] != ""
}

// news returns where the state is, and a channel that is closed once it has changed.
func (s *state) news() (place string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place(), s.changed
}

// place names the state as it is. The caller has locked s.mu.
func (s *state) place() string { return fmt.Sprintf("%s.%d", s.run, s.number) }

// glance is a snapshot of the state.
type glance struct {
	Place  string
	Now    time.Time
	Cards  []card
	Events []event
	Health health
	Pauses []api.Pause
	words  map[task.Status]string
}

func (s *state) current() glance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return glance{Place: s.place(), Now: time.Now(), Cards: s.cards, Events: slices.Clone(s.events), Health: s.health, Pauses: s.pauses, words: s.words}
}

// word returns what the board calls a status.
func (g glance) word(of column) string {
	if name := g.words[of.Status]; name != "" && name != string(of.Status) {
		return text(name, 80)
	}
	return of.Name
}

// size returns the number of tasks.
func (s *state) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cards)
}
