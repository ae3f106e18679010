package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/broker"
)

// skewed is a clock that is ahead of this machine's.
type skewed struct{ by time.Duration }

func (s *skewed) Now() time.Time { return time.Now().Add(s.by) }

// TestLocal has the estimate of Notion's time change between two answers that have
// the same moment.
func TestLocal(t *testing.T) {
	const ms = time.Millisecond
	page := time.Date(2026, 11, 20, 12, 43, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		// ahead is by how much this machine's clock seems to be ahead, and want by how
		// much later what is told is than what Notion shows.
		ahead, want []time.Duration
	}{
		"right":                        {[]time.Duration{0, -time.Microsecond, time.Microsecond, -ms, ms}, []time.Duration{0, 0, 0, 0, 0}},
		"right, for all that is known": {[]time.Duration{0, 700 * ms, -900 * ms, 999 * ms, -time.Second}, []time.Duration{0, 0, 0, 0, 0}},
		"ahead by a minute":            {[]time.Duration{59700 * ms, 60100 * ms, 60999 * ms, 59001 * ms}, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
		"behind by a minute":           {[]time.Duration{-59700 * ms, -60100 * ms, -60999 * ms}, []time.Duration{-time.Minute, -time.Minute, -time.Minute}},
		"at half a second":             {[]time.Duration{4499 * ms, 4501 * ms, 4499 * ms, 4501 * ms}, []time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second, 4 * time.Second}},
		"set right":                    {[]time.Duration{0, time.Hour, time.Hour + 800*ms, 200 * ms, 0}, []time.Duration{0, time.Hour, time.Hour, 0, 0}},
		"drifting":                     {[]time.Duration{0, time.Second, 1001 * ms, 2 * time.Second, 2001 * ms, 1 * time.Second}, []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second, 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notion := new(skewed)
				b := broker.New(broker.Config{Clock: notion})
				for i := range tt.ahead {
					notion.by = -tt.ahead[i]
					if got := b.Local(page).Sub(page); got != tt.want[i] {
						t.Errorf("ahead by %v: what Notion shows is told %v later, want %v", tt.ahead[i], got, tt.want[i])
					}
					if !b.Local(time.Time{}).IsZero() {
						t.Error("no time became one")
					}
				}
			})
		})
	}
}
