package claim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The bounds of how many visits are made at the same time.
const (
	firstVisits = 16
	leastVisits = 2
	mostVisits  = 1024
)

// gatePatience is how long an attempt waits in line at a gate that is narrower than at
// first before its agent is told to come back: by then the line is longer than what
// Notion answers.
const gatePatience = 10 * time.Second

// gate lets so many visits in at the same time as the store, and this machine, answer
// within the write window: were there more, the write of each would come too late,
// and all work would be in vain. How many that is shows in how long writes take: as
// long as they are in good time, another one is let in for each round of visits that
// fills the room; once one is not, a quarter of them has to wait.
//
// It is safe for concurrent use.
type gate struct {
	mu    sync.Mutex
	limit float64
	in    int // those let in, of which
	busy  int // so many have their permits
	line  []chan struct{}
	eased time.Time // when the limit was last lowered
}

func newGate() *gate { return &gate{limit: firstVisits} }

// errCrowded is the error of a visit that waited in line for too long.
var errCrowded = errors.New("more is asked at the same time than Notion answers in time")

// enter waits until a visit may be made, or for ctx to end, or, if patience is not
// zero and the gate has become narrow, for no longer than that: the error is errCrowded
// then. It is for who waits for permits to wait for the rate that Notion allows.
func (g *gate) enter(ctx context.Context, patience time.Duration) error {
	g.mu.Lock()
	if g.in < int(g.limit) && len(g.line) == 0 {
		g.in++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.line = append(g.line, turn)
	narrow := g.limit < firstVisits
	g.mu.Unlock()
	if patience > 0 && narrow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, errCrowded)
		defer cancel()
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.line, turn); i >= 0 {
		g.line = slices.Delete(g.line, i, i+1)
	} else { // let in while it turned away
		g.out()
	}
	return context.Cause(ctx)
}

// start says that a visit which was let in has its permits, and returns what is to be
// called, instead of leave, when it is over.
func (g *gate) start() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy--
		g.out()
	}
}

// leave says that a visit is over.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out()
}

// out lets the next one in for one that was. g.mu is held.
func (g *gate) out() {
	g.in--
	g.admit()
}

// admit lets in those first in line. g.mu is held.
func (g *gate) admit() {
	for g.in < int(g.limit) && len(g.line) > 0 {
		close(g.line[0])
		g.line = g.line[1:]
		g.in++
	}
}

// heed takes note of how long after its read a write was answered.
func (g *gate) heed(took, window time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := time.Now(); {
	case took > window*3/4:
		// The visits that are under way now were let in before.
		if now.Sub(g.eased) >= window {
			g.limit, g.eased = max(leastVisits, g.limit*3/4), now
		}
	case g.busy >= int(g.limit):
		g.limit = min(mostVisits, g.limit+1/g.limit)
		g.admit()
	}
}
