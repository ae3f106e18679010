package broker

import "time"

// coarse is how well Notion's time is known: its answers give it in whole seconds.
const coarse = time.Second

// Local turns Notion's time into this machine's, so that what is told to agents
// fits the clock they look at.
//
// By how much this machine's clock is ahead is an estimate, which varies a little all the
// time. If it were added as it is, two answers would give two times for one moment. So
// Local adds whole seconds, and keeps to the same number until the estimate is more than
// a second away from it. If both clocks are right, that number is zero, and agents see
// the times that Notion shows. To be a second wrong does no harm: much more than that lies
// between the end of a lease and the moment at which somebody else may take the task.
func (b *Broker) Local(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	ahead := time.Duration(b.ahead.Load())
	if now := time.Since(b.now()); (now - ahead).Abs() > coarse {
		ahead = now.Round(coarse)
		b.ahead.Store(int64(ahead))
	}
	return t.Add(ahead)
}
