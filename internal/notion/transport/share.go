package transport

import (
	"time"
)

// Use says what counts against a share at a moment.
type Use struct {
	// Sent is how many requests were sent in the last minute and a little, and may count
	// in a window of Notion's that has not ended.
	Sent int
	// Held is how many more may be sent at any moment, with permits that were taken together.
	Held int
	// Waiting is how many permits are waited for.
	Waiting int
}

// portion bounds what one of several daemons sends that have one budget: in any window no
// more than its limit, and nothing when its word is too old. It is guarded by the mutex of
// the permits.
//
// It counts what was sent, rather than fill a bucket: a limit that changes then holds for
// each window that reaches beyond the change, from the moment on at which no more than that
// was sent in the window before. Time is that of the monotonic clock, which is never ahead.
type portion struct {
	bound bool // else there is no limit
	limit int
	live  func() bool // whether the limit is still given
	sent  []time.Time // what counts, the oldest first
}

// counted is for how long a request counts.
const counted = window + jitterAllowance

// over reports whether nothing may be sent, not even with permits that are held.
func (s *portion) over() bool { return s.bound && !s.live() }

// given is how much may be sent in a window, if it has any bound.
func (s *portion) given() int {
	if s.over() {
		return 0
	}
	return s.limit
}

// forget forgets what no longer counts.
func (s *portion) forget(now time.Time) {
	n := 0
	for n < len(s.sent) && now.Sub(s.sent[n]) >= counted {
		n++
	}
	s.sent = s.sent[n:]
}

// after says when n more may be sent while held others may be, at any moment: 0 for now, a
// negative time if that does not come by itself.
func (s *portion) after(now time.Time, n, held int) time.Duration {
	if !s.bound {
		return 0
	}
	s.forget(now)
	over := len(s.sent) + held + n - s.given()
	switch {
	case over <= 0:
		return 0
	case over > len(s.sent):
		return -1
	}
	return max(s.sent[over-1].Add(counted).Sub(now), 1)
}

// spend counts what is sent now.
func (s *portion) spend(now time.Time, n int) {
	if !s.bound {
		return
	}
	s.forget(now)
	for range n {
		s.sent = append(s.sent, now)
	}
}

// shareError says that nothing is sent because there is no share.
type shareError struct{}

// shareAgain is when to try again: the share is looked after more often than that.
const shareAgain = 5 * time.Second

func (shareError) Error() string {
	return "not sent: this daemon has no share of the cluster's requests now: see dibs cluster"
}

func (shareError) retryAfter() time.Duration { return shareAgain }

func (shareError) Is(target error) bool { return target == errHeldBack }

// SetShare bounds what is sent beyond Options.Rate: no window of a minute has more than
// limit requests, and none is sent once live says that the share is over; it is called
// often, and must not block or use the Transport. What has been sent counts.
func (t *Transport) SetShare(limit int, live func() bool) { t.permits.setShare(limit, live) }

// Use says what counts against the share that was set.
func (t *Transport) Use() Use { return t.permits.use() }

func (p *permits) setShare(limit int, live func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share.bound, p.share.limit, p.share.live = true, limit, live
	p.turnAway(time.Now())
	p.serve()
}

func (p *permits) use() (u Use) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share.forget(time.Now())
	u.Sent, u.Held = len(p.share.sent), p.held
	for _, queue := range p.queues {
		for _, w := range queue {
			u.Waiting += w.n
		}
	}
	return u
}

// errNoShare is why somebody who does not wait for ever gets nothing.
var errNoShare error = shareError{}
