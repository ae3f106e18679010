package webhook

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/task"
)

// echoTime is how long before an event this daemon must have written the page for the event to be
// of that write.
const echoTime = time.Minute

// maxHints is how many pages are remembered between two looks. If there are more, the whole board is
// read.
const maxHints = 1000

// Known is what the daemon knows that decides whether an event is worth reading for.
type Known interface {
	// Now returns Notion's time.
	Now() time.Time
	// Bot returns the id of this connection's user; empty while it is unknown.
	Bot() string
	// Wrote reports whether this daemon wrote the page, or a comment on it, at since or later, by
	// Notion's clock.
	Wrote(page task.ID, since time.Time) bool
	// Board reports whether these are the database and the data source of the tasks. Either may be
	// empty: unknown.
	Board(database, source task.ID) bool
	// Knows reports whether a page is a task of the board.
	Knows(page task.ID) bool
}

// Hints collects what is worth reading. It is safe for concurrent use.
type Hints struct {
	known Known

	mu   sync.Mutex
	next Batch
}

// NewHints returns an empty collection.
func NewHints(known Known) *Hints { return &Hints{known: known} }

// Batch is what was collected since the last one. A page is in it once.
type Batch struct {
	Changed, Gone map[task.ID]bool // pages of the board; Gone: moved to the trash
	Commented     map[task.ID]bool // tasks with new comments
	All           bool             // the whole board has to be read, with its properties
	// First is when the earliest of these happened, by Notion's clock; zero for none.
	First time.Time
}

// Empty reports whether there is nothing in the batch.
func (b Batch) Empty() bool { return len(b.Changed)+len(b.Gone)+len(b.Commented) == 0 && !b.All }

// Only returns the part of the batch about these pages.
func (b Batch) Only(pages []task.ID) Batch {
	left := Batch{First: b.First, Changed: make(map[task.ID]bool), Gone: make(map[task.ID]bool)}
	for _, page := range pages {
		if b.Gone[page] {
			left.Gone[page] = true
		} else {
			left.Changed[page] = true
		}
	}
	return left
}

// The kinds of events.
const (
	Heard     Kind = "heard"     // a reason to read something
	Echo      Kind = "echo"      // of this daemon's own write
	Elsewhere Kind = "elsewhere" // of what does not concern the queue
)

// Kind is what became of an event.
type Kind string

// Add adds an event, and returns its kind.
func (h *Hints) Add(e Event) Kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	page, isPage := e.page()
	switch {
	case !h.concerns(e, page, isPage):
		return Elsewhere
	case isPage && h.echo(e, page):
		return Echo
	}
	at := e.At.Is
	if at.IsZero() {
		at = h.known.Now()
	}
	if h.next.First.IsZero() || at.Before(h.next.First) {
		h.next.First = at
	}
	switch {
	case !isPage:
		h.next.All = true
	case strings.HasPrefix(e.Type, "comment."):
		h.note(&h.next.Commented, page)
	case e.Type == "page.deleted":
		delete(h.next.Changed, page)
		h.note(&h.next.Gone, page)
	default:
		delete(h.next.Gone, page)
		h.note(&h.next.Changed, page)
	}
	return Heard
}

// note adds a page to a set that has room. h.mu is locked.
func (h *Hints) note(set *map[task.ID]bool, page task.ID) {
	switch {
	case len(*set) >= maxHints && set != &h.next.Commented:
		h.next.All = true
	case *set == nil:
		*set = make(map[task.ID]bool)
		fallthrough
	default:
		(*set)[page] = true
	}
}

// Return puts back what could not be read, except for pages of which more has been heard since.
func (h *Hints) Return(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for page := range b.Changed {
		if !h.next.Gone[page] {
			h.note(&h.next.Changed, page)
		}
	}
	for page := range b.Gone {
		if !h.next.Changed[page] {
			h.note(&h.next.Gone, page)
		}
	}
	for page := range b.Commented {
		h.note(&h.next.Commented, page)
	}
	h.next.All = h.next.All || b.All
	if h.next.First.IsZero() || !b.First.IsZero() && b.First.Before(h.next.First) {
		h.next.First = b.First
	}
}

// concerns reports whether an event is about a task, or about the properties of the board.
func (h *Hints) concerns(e Event, page task.ID, isPage bool) bool {
	switch kind, _, _ := strings.Cut(e.Type, "."); kind {
	case "page":
		return isPage && (h.onBoard(e) || h.known.Knows(page))
	case "comment":
		return isPage && e.Type == "comment.created" && h.known.Knows(page)
	case "database", "data_source":
		if !strings.HasSuffix(e.Type, ".schema_updated") {
			return false
		}
		return kind == "database" && h.known.Board(id(e.Entity.ID), "") || kind == "data_source" && h.known.Board("", id(e.Entity.ID))
	}
	return false
}

// onBoard reports whether an event's entity lies in the board.
func (h *Hints) onBoard(e Event) bool {
	return h.known.Board(id(e.Data.Parent.ID), id(e.Data.Parent.Source))
}

// id returns the canonical form of s, or "" if s is no id.
func id(s string) task.ID {
	parsed, err := task.ParseID(s)
	if err != nil {
		return ""
	}
	return parsed
}

// echo reports whether an event is of a write of this daemon, and of nobody else's.
func (h *Hints) echo(e Event, page task.ID) bool {
	bot := id(h.known.Bot())
	if bot == "" || len(e.Authors.Is) == 0 || slices.ContainsFunc(e.Authors.Is, func(o Object) bool { return id(o.ID) != bot }) {
		return false
	}
	at := h.known.Now()
	if !e.At.Is.IsZero() && e.At.Is.Before(at) {
		at = e.At.Is // Notion may take a minute to send it
	}
	return h.known.Wrote(page, at.Add(-echoTime))
}

// Take returns what was collected, and begins anew.
func (h *Hints) Take() Batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.next
	h.next = Batch{}
	return b
}

// Pages returns the pages of a set, in a fixed order.
func Pages(set map[task.ID]bool) []task.ID { return slices.Sorted(maps.Keys(set)) }
