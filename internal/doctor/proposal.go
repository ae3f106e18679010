package doctor

import (
	"fmt"
	"time"

	"dibs/config"
)

const (
	// leastWindow is the shortest write window that is proposed: ten rounds do not
	// show Notion on a slow day.
	leastWindow = time.Second
	// settleMargin is by how much the settle wait that is proposed is longer than it
	// has to be, and staleMargin where reads were seen to be behind.
	settleMargin, staleMargin = 100 * time.Millisecond, time.Second
	// clockAllowance is what config adds to the two times to bound notion.timeout.
	clockAllowance = 10 * time.Second
)

// Proposal is the pair of times that fits a workspace as it was measured. Every daemon
// of the workspace has to have the same.
type Proposal struct {
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
}

// propose returns claim.write_window and claim.settle for a workspace in which the
// slowest read and write together took that long, and reads were behind for that long.
// The configuration stays valid with them.
func propose(slowest, stale time.Duration, c config.Config) (window, settle time.Duration) {
	margin := settleMargin
	if stale > 0 {
		margin = staleMargin
	}
	after := tenths(2*stale) + margin // the end of the window
	// Twice the slowest of a few leaves room for the slower ones of many.
	window = max(leastWindow, tenths(2*slowest))
	if c.Claim.Exclusive {
		return window, c.Claim.Settle // nobody else's writes have to be waited for
	}
	if together := c.Notion.Timeout - clockAllowance; 2*window+after < together {
		window = tenths((together - after + 1) / 2)
	}
	return window, window + after
}

// propose puts the pair into the report.
func (r *Report) propose(window, settle time.Duration, c config.Claim) {
	r.Proposal = &Proposal{window.Seconds(), settle.Seconds()}
	said := fmt.Sprintf("claim.write_window %v and claim.settle %v fit what was measured", window, settle)
	if window == c.WriteWindow && settle == c.Settle {
		said += ", and are set"
	} else {
		said += fmt.Sprintf(", for every daemon of the workspace; set are %v and %v", c.WriteWindow, c.Settle)
	}
	r.ok("proposal", said)
}

// tenths rounds up to tenths of a second.
func tenths(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return (d + tenth - 1) / tenth * tenth
}
