package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// term is a ledger as the leader of one epoch has it: once it is over, nothing that it
// changes is kept. It is struck at one of the points that its queue passes.
type term struct {
	*outboxtest.Memory
	*strike
	over *atomic.Bool
}

var errDeposed = errors.New("another daemon leads now")

// blow is what befalls a leader: it stands still for that long, or ends.
type blow struct {
	lasts  time.Duration
	killed bool
}

// strike is a blow at one point.
type strike struct {
	blow
	struck chan struct{}

	mu    sync.Mutex
	point int // how many are left until then
	till  time.Time
}

// pass is a point.
func (s *strike) pass() error {
	s.mu.Lock()
	if s.point--; s.point == -1 {
		s.till = time.Now().Add(s.lasts)
		close(s.struck)
	}
	left, dead := time.Until(s.till), s.killed && s.point < 0
	s.mu.Unlock()
	if dead {
		return errors.New("killed")
	}
	time.Sleep(left)
	return nil
}

// transact makes a transaction.
func (t term) transact(do func() error) error {
	if err := t.pass(); err != nil {
		return err
	}
	if t.over.Load() {
		return errDeposed
	}
	return errors.Join(do(), t.pass())
}

func (t term) Hurry(ctx context.Context, kind outbox.Kind, latest time.Time) error {
	return t.transact(func() error { return t.Memory.Hurry(ctx, kind, latest) })
}

func (t term) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	return t.transact(func() error { return t.Memory.StartSending(ctx, in, at) })
}

func (t term) NoteInDoubt(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return t.transact(func() error { return t.Memory.NoteInDoubt(ctx, in, notBefore, why) })
}

func (t term) Retry(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return t.transact(func() error { return t.Memory.Retry(ctx, in, notBefore, why) })
}

func (t term) Delivered(ctx context.Context, in outbox.Intent, ref string, at time.Time) error {
	return t.transact(func() error { return t.Memory.Delivered(ctx, in, ref, at) })
}

// door is a log as the leader has it.
type door struct {
	*database
	*strike
}

func (d door) Send(ctx context.Context, in outbox.Intent) (string, error) {
	if err := d.pass(); err != nil {
		return "", err
	}
	ref, err := d.database.Send(ctx, in)
	return ref, errors.Join(err, d.pass())
}

func (d door) Find(ctx context.Context, in outbox.Intent) ([]string, error) {
	if err := d.pass(); err != nil {
		return nil, err
	}
	found, err := d.database.Find(ctx, in)
	return found, errors.Join(err, d.pass())
}

// lasting is how the answers to requests for an entry come: late, or, once, not at all.
type lasting struct {
	doubt bool
	late  time.Duration
}

// walk has a leader be struck, in every way and at every point, while it delivers an entry or
// looks one up, and returns how many points there were, and what went wrong.
func walk(t *testing.T, former func(term, door) outbox.Ledger) (points int, wrong []string) {
	for name, blow := range map[string]blow{
		"killed": {killed: true}, "at work": {},
		"frozen": {lasts: 12 * time.Second}, "frozen for long": {lasts: 100 * time.Second},
	} {
		for _, l := range []lasting{{}, {doubt: true}, {late: 9 * time.Second}, {late: time.Minute}} {
			for point, struck := 0, true; struck; point++ {
				synctest.Test(t, func(t *testing.T) {
					var there int
					s := &strike{blow: blow, point: point, struck: make(chan struct{})}
					there, struck = takenOver(t, s, l, former)
					if there != 1 {
						wrong = append(wrong, fmt.Sprintf("%s at point %d, %+v: the entry is there %d times", name, point, l, there))
					}
				})
				points++
			}
		}
	}
	return points, wrong
}

// takenOver has a leader be struck while it delivers an entry, and another one take over. It
// returns how often the entry is there, and whether the leader was struck.
func takenOver(t *testing.T, s *strike, l lasting, ledger func(term, door) outbox.Ledger) (there int, struck bool) {
	w := newWorld(t)
	w.mesh.lag = 2 * time.Second
	w.mesh.create = func(_ context.Context, _ string, n int) fate {
		f := fate{late: l.late}
		if l.late > 0 || l.doubt && n == 0 {
			f.err = unknown
		}
		return f
	}
	w.owe(outbox.MeshEntry, "one")
	var over atomic.Bool
	log := door{w.mesh, s}
	former := newQueue(ledger(term{w.ledger, s, &over}, log), outbox.MeshEntry, log, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 { // and does not know that it is over
			_, _ = former.RunOnce(t.Context())
			time.Sleep(5 * time.Second)
		}
	}()
	select {
	case <-s.struck:
		struck = true
		time.Sleep(8 * time.Second)
		over.Store(true)
		w.start()
	case <-done:
	}
	w.pass(10 * time.Minute)
	<-done
	return len(w.mesh.landed["one"]), struck
}

// Wherever a leader is deposed while it delivers an entry, the next one sees to it that the
// entry is there once.
func TestTakeover(t *testing.T) {
	points, wrong := walk(t, func(of term, _ door) outbox.Ledger { return of })
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d points", points)
}

// noEpoch lets a former leader change the ledger.
type noEpoch struct{ term }

func (o noEpoch) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	if err := o.pass(); err != nil {
		return err
	}
	return errors.Join(o.Memory.StartSending(ctx, in, at), o.pass())
}

func (o noEpoch) Retry(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return o.Memory.Retry(ctx, in, notBefore, why)
}

// sendsFirst notes that an entry is being sent only once it was.
type sendsFirst struct {
	term
	door
}

func (o sendsFirst) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	time.AfterFunc(0, func() { _ = o.term.StartSending(context.WithoutCancel(ctx), in, at) })
	return nil
}

// The walk catches a ledger that does not check the epoch, and one that notes an entry only after
// it was sent.
func TestTakeoverMutants(t *testing.T) {
	for name, mutant := range map[string]func(term, door) outbox.Ledger{
		"no epoch":                func(of term, _ door) outbox.Ledger { return noEpoch{of} },
		"sent before it is saved": func(of term, log door) outbox.Ledger { return sendsFirst{of, log} },
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := walk(t, mutant)
			if len(wrong) == 0 {
				t.Fatal("survived")
			}
			t.Logf("caught: %s", wrong[0])
		})
	}
}
