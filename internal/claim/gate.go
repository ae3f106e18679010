package claim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The bounds of the number of concurrent visits.
const (
	firstVisits = 16
	leastVisits = 2
	mostVisits  = 1024
)

// gatePatience is how long an attempt queues at a gate that is narrower than at first. Then its
// agent is told to come back: the queue is longer than Notion can answer.
const gatePatience = 10 * time.Second

// gate limits the number of concurrent visits to what the store and this machine can answer
// within the write window. With more visits, every write would come too late, and all work
// would be in vain. The limit follows the time that writes take: while they are in good time,
// it grows by one for each full round of visits; when one is not, it falls by a quarter.
//
// It is safe for concurrent use.
type gate struct {
	mu    sync.Mutex
	limit float64
	in    int // visits let in
	busy  int // those among them that have their permits
	line  []chan struct{}
	eased time.Time // when the limit was last lowered
}

func newGate() *gate { return &gate{limit: firstVisits} }

// errCrowded is the error of a visit that waited in line for too long.
var errCrowded = errors.New("more is asked at the same time than Notion answers in time")

// enter waits until a visit may be made or ctx ends. If patience is not zero and the gate has
// become narrow, it waits no longer than patience and then returns errCrowded. A waiter that
// already holds a place queues for permits, not here.
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
	} else { // let in while it gave up
		g.out()
	}
	return context.Cause(ctx)
}

// start records that an admitted visit has its permits. It returns the function to call at the
// end of the visit, instead of leave.
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

// leave ends a visit that never got its permits.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out()
}

// out gives up a place and admits the next in line. g.mu is held.
func (g *gate) out() {
	g.in--
	g.admit()
}

// admit lets in the first in line while there are places. g.mu is held.
func (g *gate) admit() {
	for g.in < int(g.limit) && len(g.line) > 0 {
		close(g.line[0])
		g.line = g.line[1:]
		g.in++
	}
}

// heed adjusts the limit to the time between a read and the answer of its write.
func (g *gate) heed(took, window time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := time.Now(); {
	case took > window*3/4:
		// The visits now under way were admitted under the old limit: lower it once per window.
		if now.Sub(g.eased) >= window {
			g.limit, g.eased = max(leastVisits, g.limit*3/4), now
		}
	case g.busy >= int(g.limit):
		g.limit = min(mostVisits, g.limit+1/g.limit)
		g.admit()
	}
}
