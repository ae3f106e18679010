package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/notion"

	"github.com/oklog/ulid/v2"
)

// probeRounds is how many writes are measured. Each takes three requests.
const probeRounds = 10

// probe measures Notion on a scratch row.
func (e *examination) probe(ctx context.Context) {
	if e.paused() {
		e.warn("probe", "not done: Notion asked for a pause", "try again when it has ended")
		return
	}
	if e.tasks == nil {
		e.warn("probe", "not done: the tasks database cannot be used", "see to the errors above first")
		return
	}
	title := "dibs probe " + ulid.Make().String() + ", can be deleted"
	measured, err := e.tasks.Probe(ctx, title, probeRounds)
	if err != nil {
		e.failed("probe", err)
		return
	}
	judged := Judge(measured, e.Config)
	e.Proposal = judged.Proposal
	for _, f := range judged.Findings {
		e.put(f)
	}
}

// Judge reports whether the configured times of claims fit the measurement, and which would.
func Judge(p notion.Probe, all config.Config) *Report {
	r, c := new(Report), all.Claim
	var reads, writes, attempts, stale []time.Duration
	for _, round := range p.Rounds {
		reads = append(reads, round.Read)
		writes = append(writes, round.Write)
		attempts = append(attempts, round.Attempt())
		if round.Stale > 0 {
			stale = append(stale, round.Stale)
		}
	}
	r.ok("latency", fmt.Sprintf("a read %v, a write %v, at most %v and %v, in %d rounds",
		shown(median(reads)), shown(median(writes)), shown(slices.Max(reads)), shown(slices.Max(writes)), len(p.Rounds)))

	slowest, behind := slices.Max(attempts), time.Duration(0)
	if len(stale) > 0 {
		behind = slices.Max(stale)
	}
	window, settle := propose(slowest, behind, all)
	remedy := fmt.Sprintf("set claim.write_window to %v and claim.settle to %v, for every daemon of the workspace", window, settle)

	found := fmt.Sprintf("claim.write_window is %v, the slowest read and write took %v", c.WriteWindow, shown(slowest))
	switch {
	case slowest > c.WriteWindow:
		r.problem("write_window", found+": claims would be given up", remedy)
	case 2*slowest > c.WriteWindow:
		r.warn("write_window", found+": some claims would be given up", remedy)
	default:
		r.ok("write_window", found)
	}
	r.ok("overwrite", fmt.Sprintf("an edit of a task in the moment in which it is claimed is overwritten: %v as a rule, %v at most", shown(median(attempts)), shown(slowest)))
	found = fmt.Sprintf("claim.settle is %v, %d of %d writes did not show at once, one for %v", c.Settle, len(stale), len(p.Rounds), shown(behind))
	remedy += ": a page has to show its last write when a claim is verified"
	switch {
	case behind == 0:
		r.ok("settle", fmt.Sprintf("claim.settle is %v, each of %d reads right after a write showed it", c.Settle, len(p.Rounds)))
	// A rival may have read the old page for up to behind and then written within its window, and
	// the verifying read may be late by behind again.
	case c.Settle <= c.WriteWindow+2*behind:
		r.problem("settle", found, remedy)
	default:
		r.warn("settle", found, remedy)
	}
	r.propose(window, settle, c)
	return r
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

const (
	// leastWindow is the shortest proposed write window: ten rounds do not show a slow day of
	// Notion.
	leastWindow = time.Second
	// settleMargin is how much longer the proposed settle wait is than necessary; staleMargin, if
	// stale reads were seen.
	settleMargin, staleMargin = 100 * time.Millisecond, time.Second
)

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
	found := fmt.Sprintf("claim.write_window %v and claim.settle %v fit what was measured", window, settle)
	if window == c.WriteWindow && settle == c.Settle {
		found += ", and are set"
	} else {
		found += fmt.Sprintf(", for every daemon of the workspace; set are %v and %v", c.WriteWindow, c.Settle)
	}
	r.ok("proposal", found)
}

// tenths rounds up to tenths of a second.
func tenths(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return (d + tenth - 1) / tenth * tenth
}
