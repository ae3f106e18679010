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
	"dibs/internal/kit/clock"
	"dibs/internal/outbox"
	"dibs/internal/outbox/creation"
	"dibs/internal/outbox/outboxtest"
	"dibs/internal/task"
)

var noAnswer = claim.Errorf(claim.Unavailable, claim.LandedUnknown, "no answer")

// board is a database of tasks in which a request that makes one waits for its turn. The page
// is there for queries some time later.
type board struct {
	turn, behind time.Duration
	looks        time.Duration // how long a look for a creation takes
	answer       error         // to a request that makes a page; nil if it is shown
	made         func()        // what happens when it was made

	mu    sync.Mutex
	sent  int
	pages map[string]time.Time // when each can be found, by the creation's id
}

func (b *board) Plan(context.Context, task.Draft, creation.Lookup) (creation.Plan, error) {
	return plan{b}, nil
}

func (b *board) Find(ctx context.Context, s creation.Sought) ([]claim.Reading, error) {
	if err := clock.Pause(ctx, b.looks); err != nil {
		return nil, err
	}
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
	if p.made != nil {
		p.made()
	}
	if p.answer == nil {
		return claim.Reading{Task: task.Task{ID: task.ID(id), Title: "Write"}}, nil
	}
	return claim.Reading{}, p.answer
}

// newMaker returns a maker of tasks on the board.
func newMaker(l outbox.Ledger, b *board) *creation.Maker {
	return creation.New(l, b, func(claim.Reading) {}, slog.New(slog.DiscardHandler))
}

// asked is a request for a task.
var asked = creation.Request{Draft: task.Draft{Title: "Write"}, Key: "key"}

// A creation that waited long for its turn is in doubt from when it was sent, not from when it was asked
// for. A page that Notion says it has saved, and that no query shows yet, is looked for, however long
// ago the process began. Neither is made again.
func TestMadeOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		began, turn time.Duration
		answer      error
	}{
		"waited for its turn": {0, 5 * time.Minute, noAnswer},
		"said to be saved":    {time.Hour, 0, claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &board{turn: tt.turn, behind: time.Minute, answer: tt.answer, pages: make(map[string]time.Time)}
				m := newMaker(outboxtest.NewMemory(), b)
				time.Sleep(tt.began)
				for try := range 20 {
					made, _, err := m.Make(t.Context(), asked)
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
		})
	}
}

// A stop ends each look for a creation in doubt, and each wait before one, within the moment.
func TestAStopEndsEveryWait(t *testing.T) {
	for at := 250 * time.Millisecond; at < 10*time.Second; at += 250 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			b := &board{behind: time.Hour, looks: 500 * time.Millisecond, answer: noAnswer, pages: make(map[string]time.Time)}
			kept, began := outboxtest.NewMemory(), time.Now()
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(at, stop)
			_, _, err := newMaker(kept, b).Make(ctx, asked)
			if _, ok := errors.AsType[*creation.UnknownError](err); !ok || time.Since(began) != at {
				t.Errorf("stopped after %v, it ended after %v: %v", at, time.Since(began), err)
			}
			if in, _, _ := kept.OwedFor(t.Context(), 0, "key"); in.State != outbox.Doubted {
				t.Errorf("stopped after %v, it is kept as %+v", at, in)
			}
		})
	}
}

// A creation that is to be sent again is saved again first: where another member leads by now,
// that fails, and nothing is sent.
func TestNothingIsSentAgainBeforeItIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{behind: time.Hour, answer: noAnswer, pages: make(map[string]time.Time)}
		kept, over := outboxtest.NewMemory(), errors.New("another member leads")
		m := newMaker(kept, b)
		if _, _, err := m.Make(t.Context(), asked); err == nil {
			t.Fatal("it was made although nothing was answered")
		}
		time.Sleep(5 * time.Minute)
		kept.Depose(over)
		if _, _, err := m.Make(t.Context(), asked); !errors.Is(err, over) || b.sent != 1 {
			t.Errorf("sent %d times (%v), want once, and the journal's error", b.sent, err)
		}
		kept.Depose(nil)
		if _, _, err := m.Make(t.Context(), asked); b.sent != 2 {
			t.Errorf("sent %d times (%v), want twice: the journal takes it again", b.sent, err)
		}
	})
}

// A task that is there is returned, whatever else goes wrong: Notion says that it has saved it and
// not what, nothing can be stored any more, or the caller is gone by then.
func TestMadeAllTheSame(t *testing.T) {
	saved := claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")
	for name, test := range map[string]struct {
		answer error
		over   bool
		gone   bool
		known  bool // the ledger has it as delivered
	}{
		"shown":                          {known: true},
		"said to be saved":               {answer: saved, known: true},
		"shown, and it cannot be stored": {over: true},
		"shown, and nobody waits for it": {gone: true, known: true},
		"saved, and nobody waits for it": {answer: saved, gone: true, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept, b := outboxtest.NewMemory(), &board{answer: test.answer, pages: make(map[string]time.Time)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b.made = func() {
					if test.gone {
						cancel()
					}
					if test.over {
						kept.Depose(errors.New("another member leads"))
					}
				}
				m := newMaker(kept, b)
				made, fresh, err := m.Make(ctx, asked)
				if test.gone && test.answer != nil {
					// Nothing is looked up for nobody; it is found when the request comes again.
					if _, ok := errors.AsType[*creation.UnknownError](err); !ok {
						t.Errorf("made %+v, %v, want that it is not known", made, err)
					}
					made, fresh, err = m.Make(t.Context(), asked)
				}
				if err != nil || made.ID == "" || !fresh {
					t.Errorf("made %+v, %v, %v", made, fresh, err)
				}
				in, _, _ := kept.OwedFor(t.Context(), 0, "key")
				if known := in.State == outbox.Delivered && in.Ref == string(made.ID); known != test.known || b.sent != 1 {
					t.Errorf("sent %d times, and kept as %+v", b.sent, in)
				}
			})
		})
	}
}

// A creation of which not even the doubt could be saved is looked for all the same, and sent again
// once it is known not to be there.
func TestDoubtThatIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := outboxtest.NewMemory()
		b := &board{behind: time.Hour, answer: noAnswer, pages: make(map[string]time.Time)}
		b.made = func() { kept.Depose(errors.New("the disk is full")) }
		m := newMaker(kept, b)
		for i, sent := range []int{1, 1, 2} {
			_, _, err := m.Make(t.Context(), asked)
			if _, ok := errors.AsType[*creation.UnknownError](err); !ok || b.sent != sent {
				t.Errorf("request %d: sent %d times (%v), want %d, and that it is not known", i, b.sent, err, sent)
			}
			kept.Depose(nil)
			time.Sleep(2 * time.Minute)
		}
	})
}
