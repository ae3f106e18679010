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
	"dibs/internal/owed"
	"dibs/internal/owed/owedtest"
	"dibs/internal/task"
)

// board is a database of tasks in which a request that makes one waits for its turn, and
// gets no answer. The page is there for queries some time later.
type board struct {
	turn, behind time.Duration

	mu    sync.Mutex
	sent  int
	pages map[string]time.Time // when each can be found, by the creation's id
}

func (b *board) plan(context.Context, task.Draft) (creation.Plan, error) { return plan{b}, nil }

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
	return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "no answer")
}

// newMaker returns a maker of tasks on the board.
func newMaker(l owed.Ledger, b *board) *creation.Maker {
	return creation.New(creation.Config{Ledger: l, Tasks: b, Plan: b.plan, Observe: func(claim.Reading) {}, Log: slog.New(slog.DiscardHandler)})
}

// A creation that waited long for its turn is in doubt from when it was sent, not from when
// it was asked for.
func TestDoubtBeginsWhenARequestWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{turn: 5 * time.Minute, behind: time.Minute, pages: make(map[string]time.Time)}
		m := newMaker(owedtest.NewMemory(), b)
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
		kept, over := owedtest.NewMemory(), errors.New("another member leads")
		m := newMaker(kept, b)
		r := creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"}
		if _, _, err := m.Make(t.Context(), r); err == nil {
			t.Fatal("it was made although nothing was answered")
		}
		time.Sleep(5 * time.Minute)
		kept.Depose(over)
		if _, _, err := m.Make(t.Context(), r); !errors.Is(err, over) || b.sent != 1 {
			t.Errorf("sent %d times (%v), want once, and the journal's error", b.sent, err)
		}
		kept.Depose(nil)
		if _, _, err := m.Make(t.Context(), r); b.sent != 2 {
			t.Errorf("sent %d times (%v), want twice: the journal takes it again", b.sent, err)
		}
	})
}
