package creation_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/task"
)

// board is a database of tasks in which a request that makes one waits for its turn, and
// gets no answer. The page is there for queries some time later.
type board struct {
	turn, behind time.Duration
	said         error // what is answered; nil for nothing at all

	mu    sync.Mutex
	sent  int
	pages map[string]time.Time // when each can be found, by the creation's id
}

func (b *board) Plan(context.Context, task.Draft, creation.Lookup) (creation.Plan, error) {
	return plan{b}, nil
}

func (b *board) Find(_ context.Context, s creation.Sought) ([]claim.Reading, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.pages[s.ID]; ok && !time.Now().Before(at) {
		return []claim.Reading{{Task: task.Task{ID: task.ID(s.ID), Title: s.Title}}}, nil
	}
	return nil, nil
}

func (b *board) Get(_ context.Context, id task.ID) (claim.Reading, error) {
	return claim.Reading{Task: task.Task{ID: id}}, nil
}

func (b *board) Now() time.Time { return time.Now() }

type plan struct{ *board }

func (p plan) Create(_ context.Context, id string) (claim.Reading, error) {
	time.Sleep(p.turn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	p.pages[id] = time.Now().Add(p.behind)
	if p.said != nil {
		return claim.Reading{}, p.said
	}
	return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "no answer")
}

// memory is a storage of one creation.
type memory struct {
	mu   sync.Mutex
	made *creation.Creation
	over error // why nothing can be begun
}

func (m *memory) Creation(context.Context, int, string) (creation.Creation, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil {
		return creation.Creation{}, false, nil
	}
	return *m.made, true, nil
}

func (m *memory) BeginCreation(_ context.Context, c creation.Creation, _ int, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return m.over
	}
	m.made = &c
	return nil
}

func (m *memory) Created(_ context.Context, _ string, page task.ID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made.Page = page
	return true, nil
}

func (m *memory) DropCreation(context.Context, string, int, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = nil
	return nil
}

// A creation that waited long for its turn is in doubt from when it was sent, not from when
// it was asked for.
func TestDoubtBeginsWhenARequestWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{turn: 5 * time.Minute, behind: time.Minute, pages: make(map[string]time.Time)}
		m := creation.New(&memory{}, b, func(claim.Reading) {}, slog.New(slog.DiscardHandler))
		r := creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"}
		for try := range 20 {
			made, _, err := m.Make(t.Context(), r)
			if err == nil {
				if made.ID == "" || try == 0 {
					t.Errorf("made %+v at try %d", made, try)
				}
				break
			}
			unknown, ok := errors.AsType[*creation.UnknownError](err)
			if !ok {
				t.Fatalf("try %d: %v", try, err)
			}
			if wait := unknown.Err.RetryAfter; wait <= 0 || wait > time.Minute {
				t.Errorf("try %d: to be asked again in %v", try, wait)
			}
			time.Sleep(10 * time.Second)
		}
		if b.sent != 1 {
			t.Errorf("sent %d times, want once", b.sent)
		}
	})
}

// A creation that is to be sent again is saved again first: where another member leads by now,
// that fails, and nothing is sent.
func TestNothingIsSentAgainBeforeItIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{behind: time.Hour, pages: make(map[string]time.Time)}
		kept := &memory{}
		m := creation.New(kept, b, func(claim.Reading) {}, slog.New(slog.DiscardHandler))
		r := creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"}
		if _, _, err := m.Make(t.Context(), r); err == nil {
			t.Fatal("it was made although nothing was answered")
		}
		time.Sleep(5 * time.Minute)
		kept.over = errors.New("another member leads")
		if _, _, err := m.Make(t.Context(), r); !errors.Is(err, kept.over) || b.sent != 1 {
			t.Errorf("sent %d times (%v), want once, and the journal's error", b.sent, err)
		}
		kept.over = nil
		if _, _, err := m.Make(t.Context(), r); b.sent != 2 {
			t.Errorf("sent %d times (%v), want twice: the journal takes it again", b.sent, err)
		}
	})
}

// Whoever waits for a task of unknown fate waits no longer than the daemon lets it.
func TestWaitsEndWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{behind: time.Hour, pages: make(map[string]time.Time)}
		m := creation.New(&memory{}, b, func(claim.Reading) {}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, _, err := m.Make(ctx, creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"})
		if _, ok := errors.AsType[*creation.UnknownError](err); !ok || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("after %v: %v, want that it is not known, when the request ends", time.Since(began), err)
		}
	})
}

// A page that Notion says it has saved, and that no query shows yet, is looked for and not made again.
func TestSavedIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{behind: time.Minute, said: claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved"), pages: make(map[string]time.Time)}
		m := creation.New(&memory{}, b, func(claim.Reading) {}, slog.New(slog.DiscardHandler))
		time.Sleep(time.Hour) // it began long ago
		r := creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"}
		var err error
		for range 20 {
			if _, _, err = m.Make(t.Context(), r); err == nil {
				break
			}
			time.Sleep(5 * time.Second)
		}
		if err != nil || b.sent != 1 {
			t.Errorf("sent %d times, %v; want once, and the task in the end", b.sent, err)
		}
	})
}
