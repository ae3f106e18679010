package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"dibs/internal/kit/backoff"

	"golang.org/x/time/rate"
)

// Lane is a queue for permits.
type Lane int

// The lanes, the most urgent first.
const (
	LaneClaim Lane = iota // what an agent waits for
	LaneLog               // entries of the log databases, and pages read out to agents
	LaneSync              // the mirror's queries

	lanes = iota
)

func (l Lane) String() string {
	return [lanes]string{"claim", "log", "sync"}[l]
}

// share keeps the lower lanes from starving: while somebody waits in the log lane, it gets one
// of every 4 permits, and the sync lane one of every 40.
var share = [lanes]int{LaneLog: 4, LaneSync: 40}

type laneKey struct{}

// InLane returns a context whose requests wait in lane l. The default is LaneClaim.
func InLane(ctx context.Context, l Lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

func laneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}

// InLaneUnlessChosen is InLane, unless ctx has a lane already.
func InLaneUnlessChosen(ctx context.Context, l Lane) context.Context {
	if _, chosen := ctx.Value(laneKey{}).(Lane); chosen {
		return ctx
	}
	return InLane(ctx, l)
}

const (
	// window is the time over which Notion counts requests.
	window = time.Minute
	// jitterAllowance allows for requests that take different times to reach Notion: 60 seconds
	// there may be that much more here.
	jitterAllowance = 1500 * time.Millisecond
)

// errInLine is wrapped by the error of a request whose context ended before it had a permit.
var errInLine = errors.New("not sent: gave up waiting in")

// firstPause is the first of several pauses for which Notion names no length; each further
// one is twice as long, up to a minute.
const firstPause = 5 * time.Second

// permits hands out the permits to send. In any window of a minute, no more of them are used
// than Notion allows.
//
// A token bucket that holds b tokens and is filled at r a second lets b + r·t requests pass in
// a time t. Here that sum must be 60 times the rate, where t is a minute plus the allowance for
// jitter. It must hold for the moments at which permits are used, not for those at which they
// are handed out. So a permit that was handed out and is not used yet, or was given back,
// counts as if it were still in the bucket: the bucket shrinks by one for each of them.
type permits struct {
	jitter jitter

	mu     sync.Mutex
	burst  int
	bucket *rate.Limiter
	spare  int // permits that were given back unused
	held   int // permits that grants hold
	queues [lanes][]*waiter
	passed [lanes]int // permits that went to other lanes while somebody waited in this one
	until  time.Time  // the end of the pause
	pauses int        // since the last good answer
	wake   *time.Timer
}

// waiter stands in line for n permits.
type waiter struct {
	n     int
	use   int       // how many of them are used at once
	grant *grant    // holds the others; nil if there are none
	until time.Time // it leaves if a pause lasts beyond that; zero for never
	done  chan error
}

func newPermits(perSecond float64, burst int, j jitter) (*permits, error) {
	refill, err := refillOf(perSecond, burst)
	if err != nil {
		return nil, err
	}
	return &permits{jitter: j, burst: burst, bucket: rate.NewLimiter(refill, burst)}, nil
}

// refillOf returns how fast the bucket is filled.
func refillOf(perSecond float64, burst int) (rate.Limit, error) {
	allowed := perSecond * window.Seconds()
	switch {
	case !(perSecond > 0):
		return 0, fmt.Errorf("a rate of %g requests a second: set notion.rate to a number above zero", perSecond)
	case burst < 2:
		return 0, fmt.Errorf("a burst of %d requests: set notion.burst to 2 or more, for the read and the write of a claim", burst)
	case float64(burst) >= allowed:
		return 0, fmt.Errorf("a burst of %d requests where notion.rate allows %g a minute: set notion.burst to less than that", burst, allowed)
	}
	return rate.Limit((allowed - float64(burst)) / (window + jitterAllowance).Seconds()), nil
}

// setRate changes how many requests may be sent. Those sent in the minute before count as they
// did.
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
	p.turnAway(now)
	p.settle(now)
	return nil
}

// room returns how many requests could be sent at once now, and the most that ever can.
func (p *permits) room() (now, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moment := time.Now()
	if p.until.After(moment) {
		return 0, p.burst
	}
	return p.spare + max(0, int(p.bucket.TokensAt(moment))), p.burst
}

// admit waits until a request may be sent, or returns why it may not. until is the latest end
// of a pause that the request waits for; zero if it waits for any.
func (p *permits) admit(ctx context.Context, until time.Time) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	w := &waiter{n: 1, use: 1, until: until}
	if g := grantOf(ctx); g != nil && g.left > 0 {
		if now := time.Now(); g.held && !p.until.After(now) {
			g.spend()
			p.settle(now)
			p.mu.Unlock()
			return nil
		}
		g.giveBack()
		w.n, w.grant = g.left, g
	}
	return p.wait(ctx, w)
}

// wait queues w until it is served. It is called with p.mu held and returns without.
func (p *permits) wait(ctx context.Context, w *waiter) error {
	if end, ok := ctx.Deadline(); ok && (w.until.IsZero() || end.Before(w.until)) {
		w.until = end
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
	case err := <-w.done: // it was served while it gave up
		if err == nil {
			p.spare += w.use // its grant gives back the others
		}
	default:
		p.leave(lane, w)
	}
	p.settle(time.Now())
	return fmt.Errorf("%w the %s lane: %w", errInLine, lane, context.Cause(ctx))
}

func (p *permits) leave(lane Lane, w *waiter) {
	p.queues[lane] = slices.DeleteFunc(p.queues[lane], func(q *waiter) bool { return q == w })
	if len(p.queues[lane]) == 0 {
		p.passed[lane] = 0
	}
}

// check returns an error if a pause is too long to wait for while somebody else is waiting.
func (p *permits) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return p.refuse(&waiter{n: 1, until: now.Add(impatience)}, now)
}

// refuse returns why w will not get its permits, or not in time; nil if it may.
func (p *permits) refuse(w *waiter, now time.Time) error {
	if w.n < 1 || w.n > p.burst {
		return fmt.Errorf("not sent: %d requests in a row were asked for, and notion.burst allows 1 to %d", w.n, p.burst)
	}
	if p.until.After(now) && !w.until.IsZero() && p.until.After(w.until) {
		return &pausedError{p.until.Sub(now)}
	}
	return nil
}

// turnAway refuses the waiters that will not get their permits, or not in time.
func (p *permits) turnAway(now time.Time) {
	for lane, queue := range p.queues {
		for _, w := range slices.Clone(queue) {
			if err := p.refuse(w, now); err != nil {
				p.leave(Lane(lane), w)
				w.done <- err
			}
		}
	}
}

// serve hands out the available permits, and schedules itself for the rest.
func (p *permits) serve() {
	now := time.Now()
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
			w.grant.hold(w.n - w.use)
		}
		p.resize(now)
		w.done <- nil
	}
}

// first returns the next waiter to serve: the first in the most urgent lane, unless a lower
// lane has its turn. If several lower lanes could have their turn at the same moment, the
// lowest ones are served a few permits earlier, one each.
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

// take takes n permits, or returns when to come back. While grants hold too many of them, that
// is never: whoever returns one calls serve.
func (p *permits) take(now time.Time, n int) time.Duration {
	spare := min(n, p.spare)
	if n > spare {
		r := p.bucket.ReserveN(now, n-spare)
		if left := r.DelayFrom(now); left > 0 {
			r.CancelAt(now)
			return left
		}
	}
	p.spare -= spare
	return 0
}

// resize shrinks the bucket by the permits outside it.
func (p *permits) resize(now time.Time) { p.bucket.SetBurstAt(now, p.burst-p.spare-p.held) }

// settle is called after the number of permits outside the bucket changed.
func (p *permits) settle(now time.Time) {
	p.resize(now)
	p.serve()
}

// callBack schedules serve after some time; not at all if that is zero or for ever.
func (p *permits) callBack(after time.Duration) {
	if p.wake != nil {
		p.wake.Stop()
		p.wake = nil
	}
	if after > 0 && after < rate.InfDuration {
		p.wake = time.AfterFunc(after, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.serve()
		})
	}
}

// pause holds everything back for d, and a little longer, so that clients that Notion told the
// same do not all come back at the same moment. If d is zero, the length grows from one pause
// to the next. It returns how long the pause will be.
func (p *permits) pause(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d <= 0 {
		d = backoff.Backoff{First: firstPause, Longest: window}.After(p.pauses + 1)
	}
	p.pauses++
	now := time.Now()
	if until := now.Add(p.jitter.after(d)); until.After(p.until) {
		p.until = until
	}
	p.turnAway(now)
	p.serve()
	return p.until.Sub(now)
}

// ease records a good answer.
func (p *permits) ease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses = 0
}

// waiting returns the number of waiters in each lane, and the end of the last pause.
func (p *permits) waiting() (n [lanes]int, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for lane, queue := range p.queues {
		n[lane] = len(queue)
	}
	return n, p.until
}

// errHeldBack is wrapped by the error of every request that was not sent because of a pause or
// because Notion is down.
var errHeldBack = errors.New("held back")

// pausedError is the error of a request that was not sent because of a pause.
type pausedError struct{ left time.Duration }

func (e *pausedError) Error() string {
	return fmt.Sprintf("not sent: Notion asked for a pause, which ends in %s", e.left.Round(time.Second))
}

func (e *pausedError) retryAfter() time.Duration { return e.left }

func (e *pausedError) Is(target error) bool { return target == errHeldBack }

type (
	patienceKey struct{} // how long a context's reads wait for the end of a pause
	untilKey    struct{} // the time until which they wait
	makingKey   struct{} // set for requests that make something nobody competes for
)

// Patient returns a context whose reads wait at most that long for the end of a pause. A read
// that would have to wait longer fails at once, and RetryAfter says when to try again.
func Patient(ctx context.Context, longest time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, longest)
}

// Impatient returns a context for a caller that sits and waits: its reads wait only a few
// seconds for the end of a pause, like those of a claim.
func Impatient(ctx context.Context) context.Context { return Patient(ctx, impatience) }

// impatience is the longest wait for the end of a pause while somebody else is waiting.
// Beyond that, it is better to tell them when to come back.
const impatience = 5 * time.Second

// waitingUntil returns a context whose reads wait until then for the end of a pause; a zero
// time means for ever.
func waitingUntil(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, untilKey{}, until)
}

// pausesUntil returns until when a read that is made now waits for the end of a pause; zero if
// it waits for ever.
func pausesUntil(ctx context.Context) time.Time {
	if until, ok := ctx.Value(untilKey{}).(time.Time); ok {
		return until
	}
	if g := grantOf(ctx); g != nil {
		return g.until
	}
	if longest, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return time.Now().Add(longest)
	}
	return time.Time{}
}

// grant holds permits that were taken together, for the requests of one context. The mutex of
// its permits guards it.
type grant struct {
	permits *permits
	ctx     context.Context // its end returns the unused permits
	until   time.Time       // its requests wait no longer than that for the end of a pause
	left    int             // permits not yet used by its requests
	held    bool            // those permits are held; if not, the next request takes them anew
	unwatch func() bool     // ends the watch over ctx, while they are held
	expiry  *time.Timer     // returns them in the end, while they are held
}

// grantLife is how long permits taken together are held. Without it, holders of permits that
// wait for another could make everybody wait for each other for ever.
const grantLife = 5 * time.Second

type grantKey struct{}

// grantOf returns the grant of the context, or nil.
func grantOf(ctx context.Context) *grant {
	g, _ := ctx.Value(grantKey{}).(*grant)
	return g
}

// HasPermits reports whether ctx comes from Transport.Permit.
func HasPermits(ctx context.Context) bool { return grantOf(ctx) != nil }

// WithoutPermits returns a context whose requests wait for their own permits instead of using
// those of ctx. They wait for the end of a pause as long as those of ctx do.
func WithoutPermits(ctx context.Context) context.Context {
	g := grantOf(ctx)
	if g == nil {
		return ctx
	}
	return context.WithValue(waitingUntil(ctx, g.until), grantKey{}, (*grant)(nil))
}

// grant waits for n permits and returns a context that carries them.
func (p *permits) grant(ctx context.Context, n int) (context.Context, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g := &grant{permits: p, ctx: ctx, until: time.Now().Add(impatience)}
	p.mu.Lock()
	if err := p.wait(ctx, &waiter{n: n, grant: g, until: g.until}); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, grantKey{}, g), nil
}

// hold keeps n permits for the grant, until they are used or its context ends.
func (g *grant) hold(n int) {
	g.left = n
	if n == 0 {
		return
	}
	g.held = true
	g.permits.held += n
	over := func() {
		g.permits.mu.Lock()
		defer g.permits.mu.Unlock()
		g.giveBack()
		g.permits.serve()
	}
	g.unwatch, g.expiry = context.AfterFunc(g.ctx, over), time.AfterFunc(grantLife, over)
}

// givenBack reports whether the next request of the grant would need new permits.
func (g *grant) givenBack() bool {
	if g == nil {
		return false
	}
	g.permits.mu.Lock()
	defer g.permits.mu.Unlock()
	return g.left > 0 && !g.held
}

// spend uses one held permit.
func (g *grant) spend() {
	g.left--
	g.permits.held--
	if g.left == 0 {
		g.release()
	}
}

// giveBack returns the held permits, if any. The next request takes as many anew, so that
// nothing waits between it and those that follow.
func (g *grant) giveBack() {
	if g.held {
		g.permits.held -= g.left
		g.permits.spare += g.left
		g.release()
	}
}

func (g *grant) release() {
	g.held = false
	g.unwatch()
	g.expiry.Stop()
}

// startOver prepares the grant, if there is one, for a request that is sent again. That request
// takes a new permit together with the remaining ones. Those are not held while it waits,
// because everybody could end up waiting for each other.
func (g *grant) startOver() {
	if g == nil {
		return
	}
	g.permits.mu.Lock()
	defer g.permits.mu.Unlock()
	g.giveBack()
	g.left++
	g.permits.serve()
}

// jitter returns a random duration of at least zero and less than n, which is positive. It
// spreads out the retries of callers that failed together.
type jitter func(n time.Duration) time.Duration

// around returns a duration between half of d and one and a half of it.
func (j jitter) around(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + j(d)
}

// after returns d, or up to a tenth more.
func (j jitter) after(d time.Duration) time.Duration { return d + j(d/10+1) }

// random is a jitter. It draws from crypto/rand, which a test can give a seed, as it cannot
// math/rand/v2.
func random(n time.Duration) time.Duration {
	drawn, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		return n / 2 // crypto/rand never fails
	}
	return time.Duration(drawn.Int64())
}
