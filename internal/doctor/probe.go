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

// probeRounds is how many writes are measured, at three requests each.
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
	for _, f := range Judge(measured, e.Config.Claim) {
		e.put(f)
	}
}

// Judge says whether the times that claims are made with fit what was measured.
func Judge(p notion.Probe, c config.Claim) []Finding {
	var r Report
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

	slowest := slices.Max(attempts)
	said := fmt.Sprintf("claim.write_window is %v, the slowest read and write took %v", c.WriteWindow, shown(slowest))
	// Twice the slowest of a few leaves room for the slower ones of many.
	fitting := max(2*time.Second, (2 * slowest).Round(time.Second))
	remedy := fmt.Sprintf("set claim.write_window to %v and claim.settle to %v, for every daemon of the workspace", fitting, fitting+fitting/2)
	switch {
	case slowest > c.WriteWindow:
		r.problem("write_window", said+": claims would be given up", remedy)
	case 2*slowest > c.WriteWindow:
		r.warn("write_window", said+": some claims would be given up", remedy)
	default:
		r.ok("write_window", said)
	}
	r.Findings = append(r.Findings, judgeSettle(stale, len(p.Rounds), c))
	return r.Findings
}

// judgeSettle says whether the read that verifies a claim comes late enough.
func judgeSettle(stale []time.Duration, rounds int, c config.Claim) Finding {
	if len(stale) == 0 {
		return Finding{"settle", OK, fmt.Sprintf("claim.settle is %v, each of %d reads right after a write showed it", c.Settle, rounds), ""}
	}
	worst := slices.Max(stale)
	f := Finding{
		Check: "settle", Level: Warning,
		Found: fmt.Sprintf("claim.settle is %v, %d of %d writes did not show at once, one for %v", c.Settle, len(stale), rounds, shown(worst)),
		Remedy: fmt.Sprintf("set claim.settle to %v or more, for every daemon of the workspace: a page has to show its last write when a claim is verified",
			max(c.Settle, c.WriteWindow+2*worst).Round(time.Second)+time.Second),
	}
	// A rival may have read what was there before for that long and then written
	// within its window, and the verifying read may be as late to show it.
	if c.Settle <= c.WriteWindow+2*worst {
		f.Level = Error
	}
	return f
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

func shown(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
