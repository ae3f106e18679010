package broker

import "time"

// coarse is the precision of Notion's time: its answers give whole seconds.
const coarse = time.Second

// Local converts Notion's time to this machine's, so that agents see times of their own clock.
//
// The difference between the clocks is an estimate that varies a little all the time. Added as it
// is, it would give two answers two times for one moment. So Local adds whole seconds, and keeps
// the same number until the estimate is more than a second away from it. If both clocks are right,
// that number is zero, and agents see the times that Notion shows. A second of error does no harm:
// much more than that lies between the end of a lease and the moment at which somebody else may
// take the task.
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
