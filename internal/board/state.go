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

// What a board remembers: events for the page of events, and pieces of news for readers
// that were away for a moment.
const (
	maxEvents = 1000
	maxNews   = 2000
	maxTold   = 1000 // cards in one piece of news
)

// state is what pages show, as the daemon said it last, and the news of it. It is safe for
// concurrent use.
type state struct {
	epoch string // of this state: news is numbered anew in the next

	mu      sync.Mutex
	cards   map[task.ID]card
	health  health
	events  []event // the oldest first
	news    []news
	number  int64         // of the last piece of news
	changed chan struct{} // closed with the next piece of news
}

// news is something that pages which are open have to show.
type news struct {
	number int64
	kind   string // tasks, event or health
	data   []byte // JSON
}

// tasksNews are the cards that are new or look different, and those that are gone.
type tasksNews struct {
	Set  []card    `json:"set,omitempty"`
	Gone []task.ID `json:"gone,omitempty"`
}

// health is how the daemon does. Moments are as in a card.
type health struct {
	Up       bool   `json:"up"`
	Since    int64  `json:"since,omitempty"` // since when it does not answer
	Error    string `json:"error,omitempty"` // why
	ReadOnly bool   `json:"read_only,omitempty"`

	Tasks     int    `json:"tasks"`
	Ready     int    `json:"ready"`
	Held      int    `json:"held"`
	Synced    int64  `json:"synced,omitempty"`
	Stale     bool   `json:"stale,omitempty"`
	Syncing   int    `json:"syncing,omitempty"` // how many tasks have been read, while the board is
	Owed      int    `json:"owed"`
	OwedSince int64  `json:"owed_since,omitempty"`
	Trouble   string `json:"trouble,omitempty"` // with Notion
	Paused    int64  `json:"paused,omitempty"`
	Warnings  int    `json:"warnings,omitempty"`
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
	Text  string  `json:"text,omitempty"` // what else there is to it
}

func newState(epoch string, readOnly bool) *state {
	return &state{epoch: epoch, cards: make(map[task.ID]card), health: health{ReadOnly: readOnly}, changed: make(chan struct{})}
}

// tell adds a piece of news. s.mu is held.
func (s *state) tell(kind string, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	s.number++
	s.news = append(s.news, news{s.number, kind, data})
	if len(s.news) > maxNews {
		s.news = slices.Delete(s.news, 0, len(s.news)-maxNews)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// put takes cards in; with all, there are no others. Only what looks different is news.
func (s *state) put(cards []card, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var said tasksNews
	if all {
		seen := make(map[task.ID]bool, len(cards))
		for _, c := range cards {
			seen[c.ID] = true
		}
		for id := range s.cards {
			if !seen[id] {
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
	case many > maxTold:
		s.news = nil // to begin anew is less
		s.tell("tasks", tasksNews{})
		s.news = nil
	case many > 0:
		s.tell("tasks", said)
	}
}

// drop takes a card out.
func (s *state) drop(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.cards[id]; ok {
		delete(s.cards, id)
		s.tell("tasks", tasksNews{Gone: []task.ID{id}})
	}
}

// renew takes in what claims are held, whose leases grow without an event. It returns the
// tasks whose cards say something else than the claims do, and are to be read again.
func (s *state) renew(claims []api.Claim) (doubted []task.ID) {
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
		next.From, next.Until = milliseconds(a.ClaimedAt), milliseconds(a.ExpiresAt)
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
		s.tell("tasks", said)
	}
	return doubted
}

// note takes an event in, unless it has been.
func (s *state) note(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.events); n > 0 && s.events[n-1].ID >= e.ID {
		return
	}
	s.events = append(s.events, e)
	if len(s.events) > maxEvents {
		s.events = slices.Delete(s.events, 0, len(s.events)-maxEvents)
	}
	s.tell("event", e)
}

// feel takes in how the daemon does.
func (s *state) feel(h health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.ReadOnly = s.health.ReadOnly
	if h != s.health {
		s.health = h
		s.tell("health", h)
	}
}

// down notes that the daemon does not answer.
func (s *state) down(why string, now time.Time) {
	s.mu.Lock()
	h := s.health
	s.mu.Unlock()
	if h.Up || h.Since == 0 {
		h.Since = now.UnixMilli()
	}
	h.Up, h.Error = false, text(why, maxLine)
	s.feel(h)
}

// place is where a reader is in the news.
type place struct {
	epoch  string
	number int64
}

func (p place) String() string { return fmt.Sprintf("%s.%d", p.epoch, p.number) }

func parsePlace(s string) place {
	epoch, number, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return place{}
	}
	return place{epoch, n}
}

// after returns the news after p, and a channel that is closed once there is more. It is
// not ok if there was more than is kept, or p is none of this state's.
func (s *state) after(p place) (list []news, more <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := s.number - p.number
	if p.epoch != s.epoch || missed < 0 || missed > int64(len(s.news)) {
		return nil, nil, false
	}
	return slices.Clone(s.news[len(s.news)-int(missed):]), s.changed, true
}

// glance is the state at one moment.
type glance struct {
	Place  place
	Now    time.Time
	Cards  []card // in the order of their ranks
	Events []event
	Health health
}

func (s *state) look() glance {
	s.mu.Lock()
	g := glance{Place: place{s.epoch, s.number}, Now: time.Now(), Cards: slices.Collect(maps.Values(s.cards)), Events: slices.Clone(s.events), Health: s.health}
	s.mu.Unlock()
	slices.SortFunc(g.Cards, func(a, b card) int { return cmp.Compare(a.Rank, b.Rank) })
	return g
}

// pulse is how the daemon does, and where the news is.
func (s *state) pulse() (health, place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health, place{s.epoch, s.number}
}
