package arbitersim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dibs/internal/arbiter"
)

// Room is where members are elected, and where the leader passes on what it found out. It is
// safe for concurrent use.
type Room struct {
	mu        sync.Mutex
	now       int64 // grows with everything that is done
	term      arbiter.Term
	until     time.Time
	passed    []passed
	last      []byte
	forgotten int64
	more      chan struct{} // closed when something was passed on
}

type passed struct {
	at   int64
	data []byte
}

// NewRoom returns an empty room.
func NewRoom() *Room { return &Room{more: make(chan struct{})} }

// Forget forgets all that was passed on until now.
func (r *Room) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed, r.forgotten = nil, r.now
}

// Empty forgets, beside all that was passed on, that anything ever was.
func (r *Room) Empty() {
	r.Forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
}

// Passed is how much was passed on.
func (r *Room) Passed() (publications, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.passed {
		bytes += len(p.data)
	}
	return len(r.passed), bytes
}

// Way is one member's way to a room. It is an arbiter.Seat and an arbiter.Wire.
type Way struct {
	room   *Room
	member string
	mu     sync.Mutex
	away   chan struct{} // closed while the way is cut
	cut    bool
	left   int // publications, before the way is cut; 0 for any number
	takes  time.Duration
}

var (
	_ arbiter.Seat = (*Way)(nil)
	_ arbiter.Wire = (*Way)(nil)
)

// Way returns the way of a member.
func (r *Room) Way(member string) *Way {
	return &Way{room: r, member: member, away: make(chan struct{})}
}

// Cut cuts the way, or mends it.
func (w *Way) Cut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case cut && !w.cut:
		close(w.away)
	case !cut && w.cut:
		w.away = make(chan struct{})
	}
	w.cut = cut
}

// CutAfter cuts the way when that many publications more have gone over it.
func (w *Way) CutAfter(publications int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = publications
}

// Slow has each publication take so long to go over the way.
func (w *Way) Slow(takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = takes
}

// passed notes a publication that went over the way.
func (w *Way) passed() {
	w.mu.Lock()
	w.left--
	last := w.left == 0
	w.left = max(0, w.left)
	w.mu.Unlock()
	if last {
		w.Cut(true)
	}
}

// in reports why nothing gets through, nil if it does.
func (w *Way) in() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return fmt.Errorf("%w: nothing gets through", arbiter.ErrAway)
	}
	return nil
}

// expire ends a term that was not kept. r.mu is locked.
func (r *Room) expire() {
	if r.term.Number != 0 && !r.until.After(time.Now()) {
		r.term = arbiter.Term{}
	}
}

// Leader implements arbiter.Seat.
func (w *Way) Leader(context.Context) (arbiter.Term, error) {
	w.room.mu.Lock()
	defer w.room.mu.Unlock()
	w.room.expire()
	return w.room.term, w.in()
}

// TakeSeat implements arbiter.Seat.
func (w *Way) TakeSeat(context.Context) (arbiter.Term, bool, error) {
	r := w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.in(); err != nil {
		return arbiter.Term{}, false, err
	}
	if r.expire(); r.term.Number != 0 {
		return arbiter.Term{}, false, nil
	}
	r.now++
	r.term, r.until = arbiter.Term{Number: r.now, Member: w.member, Name: w.member}, time.Now().Add(arbiter.SeatTime)
	return r.term, true, nil
}

// KeepSeat implements arbiter.Seat.
func (w *Way) KeepSeat(_ context.Context, t arbiter.Term) (bool, error) {
	r := w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.in(); err != nil {
		return false, err
	}
	if r.expire(); r.term.Number != t.Number {
		return false, nil
	}
	r.until = time.Now().Add(arbiter.SeatTime)
	return true, nil
}

// LeaveSeat implements arbiter.Seat.
func (w *Way) LeaveSeat(_ context.Context, t arbiter.Term) error {
	r := w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.in(); err != nil {
		return err
	}
	if r.term.Number == t.Number {
		r.term = arbiter.Term{}
	}
	return nil
}

// Publish implements arbiter.Wire.
func (w *Way) Publish(_ context.Context, term int64, data []byte) (bool, error) {
	w.mu.Lock()
	takes := w.takes
	w.mu.Unlock()
	time.Sleep(takes)
	r := w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.in(); err != nil {
		return false, err
	}
	if r.expire(); r.term.Number != term {
		return false, nil
	}
	r.now++
	r.passed, r.last = append(r.passed, passed{r.now, data}), data
	close(r.more)
	r.more = make(chan struct{})
	w.passed()
	return true, nil
}

// Newest implements arbiter.Wire.
func (w *Way) Newest(context.Context) (int64, []byte, error) {
	r := w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.in(); err != nil {
		return 0, nil, err
	}
	r.now++
	return r.now, r.last, nil
}

// Follow implements arbiter.Wire.
func (w *Way) Follow(ctx context.Context, after int64, tell func(at int64, data []byte)) error {
	for ctx.Err() == nil {
		if err := w.in(); err != nil {
			return err
		}
		w.mu.Lock()
		away := w.away
		w.mu.Unlock()
		r := w.room
		r.mu.Lock()
		if after < r.forgotten {
			r.mu.Unlock()
			return fmt.Errorf("what was passed on after %d %w", after, arbiter.ErrForgotten)
		}
		var next []passed
		for _, p := range r.passed {
			if p.at > after {
				next = append(next, p)
			}
		}
		more := r.more
		r.mu.Unlock()
		for _, p := range next {
			tell(p.at, p.data)
			after = p.at
		}
		if len(next) > 0 {
			continue
		}
		select {
		case <-more:
		case <-away:
		case <-ctx.Done():
		}
	}
	return nil
}
