package notion

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// window is the time over which Notion counts requests.
	window = time.Minute
	// jitterAllowance is by how much the times that two requests take to get to
	// Notion may differ: as much longer the window may be at this end.
	jitterAllowance = 1500 * time.Millisecond
	// grantPatience is how long a pause those wait for who take permits together:
	// whoever waits for them is better told to come back.
	grantPatience = 5 * time.Second
	// grantLife is how long permits taken together are kept for their taker.
	grantLife = 5 * time.Second
)

// permits hands out the permits to send. In no window of a minute are more of
// them used than Notion allows, wherever the window begins.
//
// A token bucket that holds b and is filled at r a second lets b + r·t pass in a
// time t; here that is to be 60 times the rate in a minute and the allowance for
// jitter. The sum must hold for the moments at which permits are used, not for
// those at which they are handed out. Permits that are handed out and not used,
// or given back, are therefore counted as if they were still in the bucket: it is
// made smaller by as many.
type permits struct {
	mu     sync.Mutex
	burst  int
	bucket *rate.Limiter
	spare  int // given back unused, outside the bucket
	grants map[*grant]struct{}
	queues [lanes][]*waiter
	passed [lanes]int // permits that went to others while somebody waited in the lane
	until  time.Time  // the end of the pause
	pauses int        // pauses since the last good answer
	wake   *time.Timer
}

// waiter stands in line for n permits. Those that it does not use at once become
// its grant's.
type waiter struct {
	n        int
	use      int
	grant    *grant
	patience time.Duration // how long a pause it waits for
	until    time.Time     // when its context ends; zero for never
	done     chan error
}

func newPermits(perSecond float64, burst int) (*permits, error) {
	refill, err := refillOf(perSecond, burst)
	if err != nil {
		return nil, err
	}
	return &permits{
		burst:  burst,
		bucket: rate.NewLimiter(refill, burst),
		grants: make(map[*grant]struct{}),
	}, nil
}

// refillOf is how fast the bucket is filled.
func refillOf(perSecond float64, burst int) (rate.Limit, error) {
	allowed := perSecond * window.Seconds()
	if !(perSecond > 0) || burst < 2 || float64(burst) >= allowed {
		return 0, fmt.Errorf("a rate of %g requests a second in bursts of %d: want bursts of at least 2, for a claim's read and write, and of less than a minute's requests, see notion.rate and notion.burst",
			perSecond, burst)
	}
	return rate.Limit((allowed - float64(burst)) / (window + jitterAllowance).Seconds()), nil
}

// setRate changes how many requests may be sent. What was sent in the minute
// before counts as it did.
func (p *permits) setRate(perSecond float64, burst int) error {
	refill, err := refillOf(perSecond, burst)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.burst = burst
	p.bucket.SetLimitAt(now, refill)
	p.settle(now)
	return nil
}

// room returns how many requests could be sent at once now, and at most.
func (p *permits) room() (now, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moment := time.Now()
	if p.until.After(moment) {
		return 0, p.burst
	}
	return p.spare + max(0, int(p.bucket.TokensAt(moment))), p.burst
}

// admit returns when a request may be sent, or why it may not.
func (p *permits) admit(ctx context.Context, patience time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	now := time.Now()
	p.expire(now)
	w := &waiter{n: 1, use: 1, patience: patience}
	if g := grantOf(ctx); g != nil && g.left > 0 {
		if g.live {
			g.spend()
			p.settle(now)
			p.mu.Unlock()
			return nil
		}
		w.n, w.grant = g.left, g
	}
	return p.wait(ctx, w)
}

// wait stands in line until w is served. It is called with p.mu held and
// returns without.
func (p *permits) wait(ctx context.Context, w *waiter) error {
	if deadline, ok := ctx.Deadline(); ok {
		w.until = deadline
	}
	if err := p.refuse(w, time.Now()); err != nil {
		p.mu.Unlock()
		return err
	}
	w.done = make(chan error, 1)
	lane := laneOf(ctx)
	p.queues[lane] = append(p.queues[lane], w)
	p.serve()
	p.mu.Unlock()

	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case err := <-w.done: // it was served while it turned away
		if err == nil {
			p.spare += w.use
			if w.grant != nil {
				w.grant.void()
			}
		}
	default:
		p.leave(lane, w)
	}
	p.settle(time.Now())
	return fmt.Errorf("not sent: gave up waiting in the %s lane: %w", lane, context.Cause(ctx))
}

func (p *permits) leave(lane Lane, w *waiter) {
	p.queues[lane] = slices.DeleteFunc(p.queues[lane], func(q *waiter) bool { return q == w })
	if len(p.queues[lane]) == 0 {
		p.passed[lane] = 0
	}
}

// check says whether there is a pause that nobody waits for whom somebody waits for.
func (p *permits) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse(&waiter{patience: grantPatience}, time.Now())
}

// refuse says whether there is a pause that w will not wait for.
func (p *permits) refuse(w *waiter, now time.Time) error {
	left := p.until.Sub(now)
	if left <= 0 || left <= w.patience && (w.until.IsZero() || !w.until.Before(p.until)) {
		return nil
	}
	return &pausedError{left}
}

// serve hands out what permits there are, and sees to it that somebody comes back
// for the rest.
func (p *permits) serve() {
	now := time.Now()
	p.expire(now)
	for {
		lane, w := p.first()
		if w == nil {
			p.callBack(0)
			return
		}
		if left := p.until.Sub(now); left > 0 {
			p.callBack(left)
			return
		}
		if left := p.take(now, w.n); left > 0 {
			p.callBack(left)
			return
		}
		p.leave(lane, w)
		p.passed[lane] = 0
		for l := range p.queues {
			if Lane(l) != lane && len(p.queues[l]) > 0 {
				p.passed[l] += w.n
			}
		}
		if w.grant != nil {
			w.grant.hold(w.n-w.use, now.Add(grantLife))
			p.resize(now)
		}
		w.done <- nil
	}
}

// first returns who is to be served next: whoever waits in the most urgent lane,
// unless a lower one is due. If several lanes can come due at the same moment the
// lower ones give way, and come due as many permits earlier.
func (p *permits) first() (Lane, *waiter) {
	for lane, queue := range p.queues {
		if len(queue) == 0 {
			continue
		}
		for due := lane + 1; due < lanes; due++ {
			early := due - lane - 1
			if q := p.queues[due]; len(q) > 0 && p.passed[due]+queue[0].n+early >= share[due] {
				return Lane(due), q[0]
			}
		}
		return Lane(lane), queue[0]
	}
	return 0, nil
}

// take takes n permits, or says when to come back.
func (p *permits) take(now time.Time, n int) time.Duration {
	spare := min(n, p.spare)
	if n > spare {
		r := p.bucket.ReserveN(now, n-spare)
		if !r.OK() { // more is held by grants than leaves room
			return p.nextExpiry().Sub(now)
		}
		if left := r.DelayFrom(now); left > 0 {
			r.CancelAt(now)
			return left
		}
	}
	p.spare -= spare
	p.resize(now)
	return 0
}

// resize makes the bucket smaller by what is outside it.
func (p *permits) resize(now time.Time) {
	outside := p.spare
	for g := range p.grants {
		outside += g.left
	}
	p.bucket.SetBurstAt(now, p.burst-outside)
}

// settle follows a change of what is outside the bucket.
func (p *permits) settle(now time.Time) {
	p.resize(now)
	p.serve()
}

// callBack has serve called again after some time, or not at all if that is zero.
func (p *permits) callBack(after time.Duration) {
	if p.wake != nil {
		p.wake.Stop()
		p.wake = nil
	}
	if after > 0 {
		p.wake = time.AfterFunc(after, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.serve()
		})
	}
}

// pause holds everything back for d, and a little longer so that those whom
// Notion told the same do not all come back at the same moment. If d is zero it
// is made up. It returns how long the pause will be.
func (p *permits) pause(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d <= 0 {
		d = min(firstPause<<min(p.pauses, 10), window)
	}
	p.pauses++
	now := time.Now()
	if until := now.Add(d + rand.N(d/10+1)); until.After(p.until) {
		p.until = until
	}
	for g := range p.grants {
		g.void()
	}
	for lane, queue := range p.queues {
		for _, w := range slices.Clone(queue) {
			if err := p.refuse(w, now); err != nil {
				p.leave(Lane(lane), w)
				w.done <- err
			}
		}
	}
	p.serve()
	return p.until.Sub(now)
}

// ease notes a good answer.
func (p *permits) ease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses = 0
}

// waiting returns how many wait in each lane, and the end of the last pause.
func (p *permits) waiting() (n [lanes]int, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for lane, queue := range p.queues {
		n[lane] = len(queue)
	}
	return n, p.until
}
