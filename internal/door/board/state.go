package board

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// What a board remembers: events for the page of events, and news for readers that were away for a
// moment.
const (
	maxEvents = 1000
	maxNews   = 2000
	maxCards  = 1000 // limit of cards in one piece of news
)

// state is what pages show, from the daemon's last answers, and the news of it. It is safe for
// concurrent use.
type state struct {
	run string // identifies this state: the next one numbers its news from the start

	mu      sync.Mutex
	cards   map[task.ID]card
	health  health
	pauses  []api.Pause
	words   map[task.Status]string // the board's
	events  []event                // oldest first
	news    []news
	number  int64         // the number of the last piece of news
	changed chan struct{} // closed with the next piece of news
}

// news is a change that open pages have to show.
type news struct {
	number int64
	kind   string // tasks, event or health
	data   []byte // JSON
}

// tasksNews lists the cards that are new or changed, and those that are gone.
type tasksNews struct {
	Set  []card    `json:"set,omitempty"`
	Gone []task.ID `json:"gone,omitempty"`
}

// health is the state of the daemon. Moments are as in a card.
type health struct {
	Up       bool   `json:"up"`
	Since    int64  `json:"since,omitempty"` // the start of its silence
	Error    string `json:"error,omitempty"` // why
	ReadOnly bool   `json:"read_only,omitempty"`

	Tasks     int    `json:"tasks"`
	Ready     int    `json:"ready"`
	Held      int    `json:"held"`
	Synced    int64  `json:"synced,omitempty"`
	Stale     bool   `json:"stale,omitempty"`
	Syncing   int    `json:"syncing,omitempty"` // how many tasks have been read, during a full sync
	Owed      int    `json:"owed"`
	OwedSince int64  `json:"owed_since,omitempty"`
	Trouble   string `json:"trouble,omitempty"` // with Notion
	Paused    int64  `json:"paused,omitempty"`
	Warnings  int    `json:"warnings,omitempty"`
	// Brake is another text whenever something else is paused; Halted says that everybody is.
	Brake  string `json:"brake,omitempty"`
	Halted bool   `json:"halted,omitempty"`
}

// event is something that happened, as a page shows it.
type event struct {
	ID    int64   `json:"id"`
	At    int64   `json:"at"`
	Kind  string  `json:"kind"`
	Agent string  `json:"agent,omitempty"`
	Hue   int     `json:"hue,omitempty"`
	Task  task.ID `json:"task,omitempty"`
	Title string  `json:"title,omitempty"`
	Text  string  `json:"text,omitempty"` // further details
}

func newState(run string, readOnly bool) *state {
	return &state{run: run, cards: make(map[task.ID]card), health: health{ReadOnly: readOnly}, changed: make(chan struct{})}
}

// publish adds a piece of news. The caller has locked s.mu.
func (s *state) publish(kind string, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // texts and numbers only
	}
	s.number++
	s.news = append(s.news, news{s.number, kind, data})
	if len(s.news) > maxNews {
		s.news = slices.Delete(s.news, 0, len(s.news)-maxNews)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// put stores cards; with all, they replace the old ones. Only visible changes are news.
func (s *state) put(cards []card, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var said tasksNews
	if all {
		there := make(map[task.ID]bool, len(cards))
		for _, c := range cards {
			there[c.ID] = true
		}
		for id := range s.cards {
			if !there[id] {
				said.Gone = append(said.Gone, id)
				delete(s.cards, id)
			}
		}
	}
	for _, c := range cards {
		if old, ok := s.cards[c.ID]; !ok || old != c {
			s.cards[c.ID] = c
			said.Set = append(said.Set, c)
		}
	}
	switch many := len(said.Set) + len(said.Gone); {
	case many > maxCards:
		s.news = nil // for readers, starting again is cheaper
		s.publish("tasks", tasksNews{})
		s.news = nil
	case many > 0:
		s.publish("tasks", said)
	}
}

// drop removes a card.
func (s *state) drop(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.cards[id]; ok {
		delete(s.cards, id)
		s.publish("tasks", tasksNews{Gone: []task.ID{id}})
	}
}

// updateClaims takes the leases and the progress of the held claims, which change without an event. It returns the
// tasks whose cards contradict the claims and have to be read again.
func (s *state) updateClaims(claims []api.Claim) (doubted []task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var said tasksNews
	held := make(map[task.ID]bool, len(claims))
	for _, a := range claims {
		held[a.Task.ID] = true
		c, ok := s.cards[a.Task.ID]
		if !ok || a.State != claim.Held || c.Status != task.InProgress || c.Claim != a.ID {
			if a.State == claim.Held {
				doubted = append(doubted, a.Task.ID)
			}
			continue
		}
		next := c
		next.From, next.Until, next.Progress = milliseconds(a.ClaimedAt), milliseconds(a.ExpiresAt), text(a.Progress, maxLine)
		next.Rank = heldRank(next)
		if next != c {
			s.cards[c.ID] = next
			said.Set = append(said.Set, next)
		}
	}
	for id, c := range s.cards {
		if c.Claim != "" && !held[id] {
			doubted = append(doubted, id)
		}
	}
	if len(said.Set) > 0 {
		s.publish("tasks", said)
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
	s.publish("event", e)
}

// setHealth stores the state of the daemon.
func (s *state) setHealth(h health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.ReadOnly = s.health.ReadOnly
	if h != s.health {
		s.health = h
		s.publish("health", h)
	}
}

// setWords stores what the board calls its statuses.
func (s *state) setWords(words map[task.Status]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words = words
}

// has reports whether the board has a status, as far as is known.
func (s *state) has(status task.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words == nil || s.words[status] != ""
}

// down records that the daemon does not answer.
func (s *state) down(why string, now time.Time) {
	s.mu.Lock()
	h := s.health
	s.mu.Unlock()
	if h.Up || h.Since == 0 {
		h.Since = now.UnixMilli()
	}
	h.Up, h.Error = false, text(why, maxLine)
	s.setHealth(h)
}

// place is a reader's position in the news.
type place struct {
	run    string
	number int64
}

func (p place) String() string { return fmt.Sprintf("%s.%d", p.run, p.number) }

func parsePlace(s string) place {
	run, number, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return place{}
	}
	return place{run, n}
}

// after returns the news after p, and a channel that is closed once there is more. ok is false if
// some of it is no longer kept, or p is not of this state.
func (s *state) after(p place) (list []news, more <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := s.number - p.number
	if p.run != s.run || missed < 0 || missed > int64(len(s.news)) {
		return nil, nil, false
	}
	return slices.Clone(s.news[len(s.news)-int(missed):]), s.changed, true
}

// glance is a snapshot of the state.
type glance struct {
	Place  place
	Now    time.Time
	Cards  []card // ordered by rank
	Events []event
	Health health
	Pauses []api.Pause
	words  map[task.Status]string
}

func (s *state) current() glance {
	s.mu.Lock()
	g := glance{Place: place{s.run, s.number}, Now: time.Now(), Cards: slices.Collect(maps.Values(s.cards)), Events: slices.Clone(s.events), Health: s.health, Pauses: s.pauses, words: s.words}
	s.mu.Unlock()
	slices.SortFunc(g.Cards, func(a, b card) int { return cmp.Compare(a.Rank, b.Rank) })
	return g
}

// pulse returns the state of the daemon, and the position of the news.
func (s *state) pulse() (health, place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health, place{s.run, s.number}
}

// brake shows in h what is paused.
func (h *health) brake(pauses []api.Pause) {
	h.Brake, h.Halted = "", false
	for _, p := range pauses {
		h.Brake += fmt.Sprintf("%s %d %d;", p.Agent, milliseconds(p.At), milliseconds(p.ExpiresAt))
		h.Halted = h.Halted || p.Agent == ""
	}
}

// setPauses stores what is paused.
func (s *state) setPauses(pauses []api.Pause) {
	s.mu.Lock()
	s.pauses = pauses
	h := s.health
	s.mu.Unlock()
	h.brake(pauses)
	s.setHealth(h)
}

// called returns the column under the board's own name, if it has one.
func (g glance) called(c column) column {
	if name := g.words[c.Status]; name != "" && name != string(c.Status) {
		c.Name = text(name, 80)
	}
	if c.Key == people {
		c.Name += ": people"
	}
	return c
}

// size returns the number of tasks.
func (s *state) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cards)
}
