package arbiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/clock"
)

// Times of the election. All of them are lengths, told by the member's own clocks.
const (
	// SeatTime is for how long a term lasts that is not kept.
	SeatTime = 6 * time.Second
	// seatUse is for how long a member leads after it asked for its term to be kept. What is
	// left of SeatTime is for what it was about to do.
	seatUse   = 4 * time.Second
	seatEvery = time.Second // how often the seat is looked after
)

// Term is the time for which one member leads the others.
type Term struct {
	// Number is greater than those of the terms before; 0 is no term.
	Number int64
	// Member is the id of the member whose term it is, and Name what it is called.
	Member, Name string

	lease int64
}

// Seat is what one member at a time has. Implementations are safe for concurrent use. Their
// errors wrap ErrAway or ErrForeign, and then it is not known what was done.
type Seat interface {
	// Leader returns whose term it is; the zero Term if it is nobody's.
	Leader(ctx context.Context) (Term, error)
	// TakeSeat begins a term of this member's, for SeatTime, unless there is one.
	TakeSeat(ctx context.Context) (Term, bool, error)
	// KeepSeat makes a term last for SeatTime from now; false if it is over.
	KeepSeat(ctx context.Context, t Term) (bool, error)
	// LeaveSeat ends a term, if it is not over.
	LeaveSeat(ctx context.Context, t Term) error
}

// ElectionConfig is what an Election is made of. Seat and Member are required.
type ElectionConfig struct {
	Seat   Seat
	Member string // this member's id
	// Able, if set, says whether this member can do what a leader is for. One that cannot
	// leaves the seat to others, as long as there are some that can.
	Able func() bool
	// Changed, if set, is called when this member begins a term, and with 0 when it is found
	// to be over. It must not call the Election's methods.
	Changed func(term int64)
	// Clocks, if set, reads the clocks of the machine in place of those of this process.
	Clocks func() clock.Instant
	Log    *slog.Logger
}

// Election has one of the members lead, as long as one can reach the seat. It is safe for
// concurrent use.
//
// A term is bound to a lease, which is kept by asking. The leader counts it from before it
// asked, by clocks that go on while the machine is suspended, and takes it to be over sooner
// than it is: so what a leader does at once it does before anybody else leads. What must not
// be done twice has the term as its condition, see Wire.
type Election struct {
	ElectionConfig
	turn chan struct{} // has one who looks after the seat at a time

	mu     sync.Mutex
	mine   Term          // this member's, as far as is known
	kept   clock.Instant // when it was asked last, with success, to be kept
	leader Term          // whose term it was when that was last heard
	heard  clock.Instant
	free   clock.Instant // since when nobody has been seen to lead
}

// unableFor is for how long the seat has to be free before a member takes it that cannot do
// what it is for: it may be that none can.
const unableFor = 8 * time.Second

// NewElection returns an election in which this member does not lead.
func NewElection(c ElectionConfig) *Election {
	if c.Clocks == nil {
		start := time.Now()
		c.Clocks = func() clock.Instant { return clock.Local(start) }
	}
	if c.Changed == nil {
		c.Changed = func(int64) {}
	}
	if c.Able == nil {
		c.Able = func() bool { return true }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Election{ElectionConfig: c, turn: make(chan struct{}, 1), free: c.Clocks()}
}

// Term is the number of this member's term; 0 if it does not lead now.
func (e *Election) Term() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mine.Number == 0 || e.Clocks().Since(e.kept) >= seatUse {
		return 0
	}
	return e.mine.Number
}

// Leads reports whether this member leads now.
func (e *Election) Leads() bool { return e.Term() != 0 }

// Leader is the member that leads, as far as is known; the zero Term if none does, or if
// that was not heard of for so long that it may be another one.
func (e *Election) Leader() Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Clocks().Since(e.heard) >= SeatTime {
		return Term{}
	}
	return e.leader
}

// Run takes part in the election until ctx ends.
func (e *Election) Run(ctx context.Context) {
	tick := time.NewTicker(seatEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askTime)
		if err := e.Round(asking); err != nil && ctx.Err() == nil {
			e.Log.Debug("who leads the cluster is not known now", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Round looks once after the seat: a term of this member's is kept, and a free seat taken.
func (e *Election) Round(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if over, err := e.keep(ctx); err != nil || !over {
		return err
	}
	before := e.Clocks()
	now, err := e.Seat.Leader(ctx)
	if err != nil {
		return err
	}
	e.see(now, before)
	switch {
	case now.Number == 0 && !e.Able() && before.Since(e.free) < unableFor:
		return nil
	case now.Number == 0:
		var taken bool
		before = e.Clocks()
		if now, taken, err = e.Seat.TakeSeat(ctx); err != nil || !taken {
			return err // the next round sees whose it is, and whether it was taken after all
		}
	case now.Member != e.Member:
		return nil
	default: // the answer was lost with which it began, or it is of an earlier run
		before = e.Clocks()
		if kept, err := e.Seat.KeepSeat(ctx, now); err != nil || !kept {
			return err
		}
	}
	e.see(now, before)
	e.mu.Lock()
	e.mine, e.kept = now, before
	e.mu.Unlock()
	e.Log.Info("this daemon reads the board for its cluster from now on", "term", now.Number)
	e.Changed(now.Number)
	return nil
}

// keep makes a term of this member's last, and reports whether there is none any more.
func (e *Election) keep(ctx context.Context) (over bool, err error) {
	e.mu.Lock()
	mine, kept := e.mine, e.kept
	e.mu.Unlock()
	if mine.Number == 0 {
		return true, nil
	}
	before := e.Clocks()
	switch still, err := e.Seat.KeepSeat(ctx, mine); {
	case err != nil && before.Since(kept) < SeatTime:
		return false, err
	case err != nil:
		e.end()
		return false, err
	case !still:
		e.end()
		return true, nil
	}
	e.see(mine, before)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = before
	return false, nil
}

// see notes whose term it was at a moment.
func (e *Election) see(t Term, at clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.Number != 0 {
		e.free = at
	}
	if t.Number != 0 && t.Number != e.leader.Number && t.Member != e.Member {
		e.Log.Info("another daemon reads the board for the cluster", "member", t.Name, "term", t.Number)
	}
	e.leader, e.heard = t, at
}

// end notes that this member's term is over.
func (e *Election) end() {
	e.mu.Lock()
	e.mine = Term{}
	e.mu.Unlock()
	e.Log.Info("this daemon does not read the board for its cluster any more")
	e.Changed(0)
}

// Resign ends this member's term, if it has one: another one may lead at once.
func (e *Election) Resign(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e.mu.Lock()
	mine := e.mine
	e.mu.Unlock()
	if mine.Number == 0 {
		return nil
	}
	e.end()
	return e.Seat.LeaveSeat(ctx, mine)
}
