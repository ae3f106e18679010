package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// What became of a request is known from its answer, or in doubt.
func TestSent(t *testing.T) {
	for want, errs := range map[outbox.Fate][]error{
		outbox.Arrived: {nil, claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")},
		outbox.Absent:  {claim.Errorf(claim.Refused, claim.LandedNo, "400"), fmt.Errorf("sending: %w", claim.Errorf(claim.Unavailable, claim.LandedNo, "429"))},
		outbox.Gone:    {&outbox.GoneError{Err: claim.Errorf(claim.Refused, claim.LandedUnknown, "no such page")}},
		outbox.InDoubt: {claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503"), errors.New("cut off")},
	} {
		for _, err := range errs {
			if got := outbox.NewDoubts().Sent("x", err); got != want {
				t.Errorf("after %v: %d, want %d", err, got, want)
			}
		}
	}
}

// What is not found stays in doubt for as long as a request for it may be under way, or queries
// may be behind, from when its one request ended; of an earlier process, from the beginning.
func TestSought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := outbox.NewDoubts()
		sought := func(id string, want outbox.Fate, wait time.Duration) {
			t.Helper()
			if fate, left := d.Sought(id, false, nil); fate != want || left != wait {
				t.Errorf("%s: %d for %v, want %d for %v", id, fate, left, want, wait)
			}
		}
		time.Sleep(time.Minute)
		d.Sent("late", errors.New("cut off"))
		sought("late", outbox.InDoubt, outbox.Doubt)
		sought("earlier", outbox.InDoubt, outbox.Doubt-time.Minute)
		if fate, _ := d.Sought("earlier", false, errors.New("down")); fate != outbox.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		time.Sleep(outbox.Doubt - time.Minute)
		sought("earlier", outbox.Absent, 0)
		sought("late", outbox.InDoubt, time.Minute)
		if fate, _ := d.Sought("late", false, errors.New("down")); fate != outbox.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		if fate, _ := d.Sought("late", true, nil); fate != outbox.Arrived {
			t.Errorf("what was found is %d", fate)
		}
		if fate, _ := d.Sought("comment", false, &outbox.GoneError{Err: errors.New("no such page")}); fate != outbox.Gone {
			t.Errorf("what cannot be there is %d", fate)
		}
	})
}

// Whoever waits for an intent of unknown fate has it looked for a few times, and waits no longer
// than it is let.
func TestDeliver(t *testing.T) {
	for name, tt := range map[string]struct {
		first fate
		limit time.Duration
		want  outbox.Fate
		took  time.Duration
		state outbox.State // empty if nothing is owed any more
	}{
		"taken":                  {want: outbox.Arrived, state: outbox.Delivered},
		"refused":                {first: fate{lost: true, err: refused}, want: outbox.Absent},
		"found at once":          {first: fate{err: unknown}, want: outbox.Arrived, state: outbox.Delivered},
		"found three seconds on": {first: fate{err: unknown, late: 3 * time.Second}, want: outbox.Arrived, took: 3 * time.Second, state: outbox.Delivered},
		"not found":              {first: fate{err: unknown, lost: true}, want: outbox.InDoubt, took: 8 * time.Second, state: outbox.Doubted},
		"cut off":                {first: fate{err: unknown, lost: true}, limit: 1500 * time.Millisecond, want: outbox.InDoubt, took: 1500 * time.Millisecond, state: outbox.Doubted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.mesh.create = func(context.Context, string, int) fate { return tt.first }
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(tt.limit, time.Hour))
				defer cancel()
				in, err := w.ledger.Owe(ctx, outbox.Intent{ID: "e", Kind: outbox.Creation})
				if err != nil {
					t.Fatal(err)
				}
				got, err := outbox.NewSender(w.ledger).Deliver(ctx, in, w.mesh)
				if err != nil || got.Fate != tt.want {
					t.Errorf("its fate is %+v, %v, want %d", got, err, tt.want)
				}
				if took := time.Since(w.began); took != tt.took {
					t.Errorf("known after %v, want %v", took, tt.took)
				}
				if row, _ := w.ledger.Row("e"); row.State != tt.state {
					t.Errorf("it is %q, want %q", row.State, tt.state)
				}
			})
		})
	}
}

// candidates is what an intent may have become.
type candidates []string

func (c candidates) Send(context.Context, outbox.Intent) (string, error)   { return "", unknown }
func (c candidates) Find(context.Context, outbox.Intent) ([]string, error) { return c, nil }

// What is another intent's is passed over; where nothing else is found the intent stays in doubt.
func TestSeekPassesOverWhatIsTaken(t *testing.T) {
	m := outboxtest.NewMemory()
	s := outbox.NewSender(m)
	for i, want := range []outbox.Outcome{{Fate: outbox.Arrived, Ref: "a"}, {Fate: outbox.Arrived, Ref: "b"}, {Fate: outbox.InDoubt}} {
		in, err := m.Owe(t.Context(), outbox.Intent{ID: string(rune('1' + i)), Kind: outbox.Creation})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Seek(t.Context(), in, candidates{"a", "b"})
		if err != nil || got.Fate != want.Fate || got.Ref != want.Ref {
			t.Errorf("the %d. is %+v, %v, want %+v", i+1, got, err, want)
		}
	}
}

// frozen is a ledger whose daemon stands still once it has noted that something is being sent.
type frozen struct {
	*outboxtest.Memory
	lasts time.Duration
	notes int
	then  func() // what happens meanwhile
}

func (f *frozen) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	f.notes++
	err := f.Memory.StartSending(ctx, in, at)
	time.Sleep(f.lasts)
	if f.lasts = 0; f.then != nil {
		f.then()
	}
	return err
}

// A process that was paused for long does not send on the strength of an old note: others may have
// looked the intent up and sent it by then. It notes it anew, if the ledger still lets it.
func TestLateIsNotSent(t *testing.T) {
	for name, test := range map[string]struct {
		lasts       time.Duration
		over        error
		sent, notes int
	}{
		"not for long":          {lasts: 30 * time.Second, sent: 1, notes: 1},
		"for long":              {lasts: 5 * time.Minute, sent: 1, notes: 2},
		"for long, and deposed": {lasts: 5 * time.Minute, over: errDeposed, notes: 1},
	} {
		for who, deliver := range map[string]func(*testing.T, *frozen, *database){
			"the queue": func(t *testing.T, f *frozen, mesh *database) {
				owe(f.Memory, outbox.MeshEntry, "a")
				if _, err := newQueue(f, outbox.MeshEntry, mesh, slog.New(slog.DiscardHandler)).RunOnce(t.Context()); err != test.over {
					t.Errorf("the run: %v, want %v", err, test.over)
				}
			},
			"who waits": func(t *testing.T, f *frozen, mesh *database) {
				in, err := f.Owe(t.Context(), outbox.Intent{ID: "a", Kind: outbox.Creation})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := outbox.NewSender(f).Deliver(t.Context(), in, mesh); err != test.over {
					t.Errorf("delivered: %v, want %v", err, test.over)
				}
			},
		} {
			t.Run(name+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, mesh := &frozen{Memory: outboxtest.NewMemory(), lasts: test.lasts}, newDatabase()
					f.then = func() { f.Depose(test.over) }
					deliver(t, f, mesh)
					if got := mesh.requests(); got != test.sent || f.notes != test.notes {
						t.Errorf("sent %d times and noted %d times, want %d and %d", got, f.notes, test.sent, test.notes)
					}
				})
			})
		}
	}
}

// The ledger in memory is as ledgers are.
func TestLedger(t *testing.T) {
	outboxtest.LedgerSuite(t, func(*testing.T) outboxtest.World {
		m := outboxtest.NewMemory()
		return outboxtest.World{Ledger: m, Begin: func(*testing.T, int, string) {}, Restart: func() outbox.Ledger { m.Restart(); return m }}
	})
}
