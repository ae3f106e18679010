package broker

import "time"

// coarse is how well Notion's time is known, which it tells in whole seconds.
const coarse = time.Second

// Local turns Notion's time into this machine's, so that what is told to agents
// fits the clock they look at.
//
// By how much this machine's clock is ahead is an estimate, a little different each
// time. Were it applied as it is, the same moment would be told differently from
// one answer to the next. So whole seconds of it are, which stay as they are until
// they are off by more than one: zero, where both clocks are right, so that times
// are told as Notion shows them. The second is well within the time between the
// end of a lease and the first moment at which somebody else may take the task.
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
