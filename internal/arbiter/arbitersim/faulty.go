package arbitersim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"dibs/internal/arbiter"
)

// Faults say what goes wrong on one member's way to a table.
type Faults struct {
	Seed uint64
	// Slow is how long an answer takes at most, and Lost how often one of a hundred is lost,
	// half of them after they took effect.
	Slow time.Duration
	Lost int
	// Away, if set, reports whether nothing gets through now.
	Away func() bool
}

// Faulty is a table on the way to which something goes wrong.
func Faulty(t arbiter.Table, f Faults) arbiter.Table {
	return &faulty{Table: t, Faults: f, rand: rand.New(rand.NewPCG(f.Seed, 77))}
}

type faulty struct {
	arbiter.Table
	Faults
	mu   sync.Mutex
	rand *rand.Rand
}

var errLost = errors.New("the answer was lost")

// ask does something with the table, unless a fault keeps it from being done, or known.
func (f *faulty) ask(ctx context.Context, do func()) error {
	f.mu.Lock()
	there, back, lost := f.rand.Int64N(int64(f.Slow)+1), f.rand.Int64N(int64(f.Slow)+1), f.rand.IntN(200)
	f.mu.Unlock()
	if f.Away != nil && f.Away() {
		return fmt.Errorf("%w: nothing gets through", arbiter.ErrAway)
	}
	if lost < f.Lost {
		return fmt.Errorf("%w: the request was lost", arbiter.ErrAway)
	}
	late := make(chan struct{})
	go func() { // what was sent takes effect whether it is waited for or not
		defer close(late)
		time.Sleep(time.Duration(there))
		do()
	}()
	select {
	case <-late:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", arbiter.ErrAway, context.Cause(ctx))
	}
	if time.Sleep(time.Duration(back)); lost < 2*f.Lost {
		return fmt.Errorf("%w: %w", arbiter.ErrAway, errLost)
	}
	return nil
}

// answer is what a call returned; it is read only after it was done.
type answer[T any] struct {
	value T
	err   error
}

func call[T any](ctx context.Context, f *faulty, do func(context.Context) (T, error)) (T, error) {
	var a answer[T]
	if err := f.ask(ctx, func() { a.value, a.err = do(context.WithoutCancel(ctx)) }); err != nil {
		var none T
		return none, err
	}
	return a.value, a.err
}

func (f *faulty) Take(ctx context.Context, row arbiter.Row, lasting time.Duration, limit int) (arbiter.Grant, error) {
	return call(ctx, f, func(ctx context.Context) (arbiter.Grant, error) { return f.Table.Take(ctx, row, lasting, limit) })
}

func (f *faulty) Keep(ctx context.Context, row arbiter.Row, fence int64, lasting time.Duration) (bool, *arbiter.Held, error) {
	type said struct {
		kept bool
		now  *arbiter.Held
	}
	s, err := call(ctx, f, func(ctx context.Context) (s said, err error) {
		s.kept, s.now, err = f.Table.Keep(ctx, row, fence, lasting)
		return s, err
	})
	return s.kept, s.now, err
}

func (f *faulty) Drop(ctx context.Context, row arbiter.Row, fence int64) error {
	_, err := call(ctx, f, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.Table.Drop(ctx, row, fence) })
	return err
}

func (f *faulty) Rows(ctx context.Context) ([]arbiter.Held, error) {
	return call(ctx, f, f.Table.Rows)
}

func (f *faulty) Probe(ctx context.Context) error {
	_, err := call(ctx, f, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.Table.Probe(ctx) })
	return err
}
