package doctor

import (
	"fmt"
	"time"

	"dibs/config"
)

const (
	// leastWindow is the shortest proposed write window: ten rounds do not show a slow day of
	// Notion.
	leastWindow = time.Second
	// settleMargin is how much longer the proposed settle wait is than necessary; staleMargin, if
	// stale reads were seen.
	settleMargin, staleMargin = 100 * time.Millisecond, time.Second
)

// Proposal is the pair of times that fits a measured workspace. Every daemon of the workspace needs
// the same pair.
type Proposal struct {
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
}

// propose returns claim.write_window and claim.settle for a workspace in which a read and write
// together took slowest at most, and reads were stale for up to stale. The configuration stays
// valid with them.
func propose(slowest, stale time.Duration, c config.Config) (window, settle time.Duration) {
	margin := settleMargin
	if stale > 0 {
		margin = staleMargin
	}
	after := tenths(2*stale) + margin // settle minus window
	// Twice the slowest of a few leaves room for slower ones among many.
	window = max(leastWindow, tenths(2*slowest))
	if c.Claim.Exclusive {
		return window, c.Claim.Settle // there are no other claimers' writes to wait for
	}
	if together := c.Notion.Timeout - config.ClockAllowance; 2*window+after < together {
		window = tenths((together - after + 1) / 2)
	}
	return window, window + after
}

// propose adds the pair to the report.
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
