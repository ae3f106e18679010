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

	said := fmt.Sprintf("claim.write_window is %v, the slowest read and write took %v", c.WriteWindow, shown(slowest))
	switch {
	case slowest > c.WriteWindow:
		r.problem("write_window", said+": claims would be given up", remedy)
	case 2*slowest > c.WriteWindow:
		r.warn("write_window", said+": some claims would be given up", remedy)
	default:
		r.ok("write_window", said)
	}
	r.ok("overwrite", fmt.Sprintf("an edit of a task in the moment in which it is claimed is overwritten: %v as a rule, %v at most", shown(median(attempts)), shown(slowest)))
	said = fmt.Sprintf("claim.settle is %v, %d of %d writes did not show at once, one for %v", c.Settle, len(stale), len(p.Rounds), shown(behind))
	remedy += ": a page has to show its last write when a claim is verified"
	switch {
	case behind == 0:
		r.ok("settle", fmt.Sprintf("claim.settle is %v, each of %d reads right after a write showed it", c.Settle, len(p.Rounds)))
	// A rival may have read the old page for up to behind and then written within its window, and
	// the verifying read may be late by behind again.
	case c.Settle <= c.WriteWindow+2*behind:
		r.problem("settle", said, remedy)
	default:
		r.warn("settle", said, remedy)
	}
	r.propose(window, settle, c)
	return r
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

func shown(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
