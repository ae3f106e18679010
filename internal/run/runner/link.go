package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

// The claim of a run on another machine lives while its connection does, and for grace over a break.
// The daemon may notice a break sooner than this side, by as long as its last sign of life was on its
// way: ten seconds are left for that. So the command is held still, and then killed, well before.
const (
	grace      = time.Minute
	stillAfter = 40 * time.Second // without a sign
	killAfter  = 10 * time.Second // more, by the clock that stands still while the machine sleeps
	// answers is how long a connection may take to come about, and silence how long it may be silent,
	// where the daemon sends something every 15 seconds. Then another is tried.
	answers = 10 * time.Second
	silence = 25 * time.Second
)

// sign is news of the connection that keeps a claim.
type sign struct {
	at   clock.Instant // when the daemon was known to keep the claim; if neither error is set
	lost error         // the daemon says that the claim is over
	gone error         // why there is no connection
}

// link keeps the claim with a connection until ctx ends, and reports how the claim stands if the
// connection breaks for long.
func (k *keeping) link(ctx context.Context, tell chan<- standing) {
	start, signs := time.Now(), make(chan sign)
	go k.connect(ctx, start, signs)
	ticks := time.NewTicker(again) // the moment of a timer would move while the machine sleeps
	defer ticks.Stop()
	last, doubted, gone := clock.Local(start), time.Time{}, errors.New("it is silent")
	for {
		select {
		case s := <-signs:
			switch {
			case s.lost != nil:
				pass(ctx, tell, standing{lost: s.lost})
				return
			case s.gone != nil:
				gone = s.gone
			default:
				last = s.at
			}
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		switch broken := clock.Local(start).Since(last) >= stillAfter; {
		case broken && doubted.IsZero():
			doubted = time.Now()
			pass(ctx, tell, standing{doubt: linkGone})
		case broken && time.Since(doubted) >= killAfter:
			pass(ctx, tell, standing{now: true, lost: fmt.Errorf("%w: the connection that keeps it did not come back: %w", ErrLost, gone)})
			return
		case !broken && !doubted.IsZero():
			doubted = time.Time{}
			pass(ctx, tell, standing{})
		}
	}
}

// errLate ends a connection that was silent. A sign that comes later may be an old one: the machine may
// have slept before it was read.
var errLate = errors.New("it was silent for too long")

// connect keeps the claim with one connection after another, until ctx ends or the claim is over.
func (k *keeping) connect(ctx context.Context, start time.Time, signs chan<- sign) {
	for in := (api.KeepAliveInput{ID: string(k.claim.ID), Agent: k.claim.Agent, Grace: grace.String()}); ctx.Err() == nil; {
		var mu sync.Mutex // guards last and limit
		began := clock.Local(start)
		last, limit := began, answers
		late := func() bool { return clock.Local(start).Since(last) >= limit }
		asking, cancel := context.WithCancelCause(ctx)
		go func() { // a timer would stand still while the machine sleeps
			for clock.Pause(asking, again) == nil {
				mu.Lock()
				if late() {
					cancel(errLate)
				}
				mu.Unlock()
			}
		}()
		err := k.daemon.KeepAlive(asking, in, func(c *api.Claim) error {
			mu.Lock()
			now, over := clock.Local(start), late()
			at := now
			if limit == answers {
				at = began // the daemon counts from the request on, at the earliest
			}
			last, limit = now, silence
			mu.Unlock()
			switch {
			case c != nil && c.State != claim.Held:
				return endOf(*c)
			case over:
				return errLate
			}
			pass(ctx, signs, sign{at: at})
			return nil
		})
		cancel(nil)
		if p, refused := errors.AsType[*api.Problem](err); refused && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim) {
			err = lost(p)
		}
		if away, ok := errors.AsType[*client.UnreachableError](err); ok {
			err = away.Err
		}
		switch {
		case errors.Is(err, ErrLost):
			pass(ctx, signs, sign{lost: err})
			return
		case err != nil:
			pass(ctx, signs, sign{gone: err})
		}
		clock.Pause(ctx, again)
	}
}
