package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/notion/transport"

	"github.com/oklog/ulid/v2"
)

// probeRounds is how many writes are measured as a claim's.
const probeRounds = 10

// probe measures Notion on scratch rows.
func (e *examination) probe(ctx context.Context) {
	if e.paused() {
		e.warn("probe", "not done: Notion asked for a pause", "try again when it has ended")
		return
	}
	if e.tasks == nil {
		e.warn("probe", "not done: the tasks database cannot be used", "see to the errors above first")
		return
	}
	e.ok("probe", fmt.Sprintf("asks Notion %d times in about half a minute, and for some minutes while writes do not show; on two rows of the tasks database that no agent is offered, which go to the trash", notion.ProbeRequests(probeRounds)))
	began := time.Now()
	measured, err := e.tasks.Probe(ctx, notion.ProbeTitle(ulid.Make().String()), probeRounds, e.Config.Claim.WriteWindow)
	if err != nil {
		e.failed("probe", err)
		return
	}
	judged := Judge(measured, e.Config)
	e.Proposal = judged.Proposal
	e.Measured = &Measured{Probe: measured, claim: e.Config.Claim, at: began, notions: e.Config.Notion.BaseURL == transport.DefaultBaseURL}
	for _, f := range judged.Findings {
		e.put(f)
	}
}

// Post returns the measurement as a text to be posted by anybody: it names nobody, and nothing of
// the workspace.
func (m *Measured) Post(version string) string {
	var b strings.Builder
	server := "Notion"
	if !m.notions {
		server = "a server that is not Notion's"
	}
	fmt.Fprintf(&b, "dibs %s measured %s (API %s) on %s, with %d requests\n", version, server, transport.Version, m.at.UTC().Format(time.DateOnly), m.Requests)
	for _, f := range m.Facts {
		holds := "holds"
		if !f.Holds {
			holds = "FAILS"
		}
		fmt.Fprintf(&b, "%s  %-23s  %s\n", holds, f.Name, f.Measured)
	}
	var reads, writes []time.Duration
	for _, round := range m.Rounds {
		reads, writes = append(reads, round.Read), append(writes, round.Write)
	}
	for _, of := range []struct {
		what string
		took []time.Duration
	}{{"reads", reads}, {"writes", writes}} {
		if len(of.took) > 0 {
			fmt.Fprintf(&b, "%d %s took %v at least, %v in the median, %v at most\n", len(of.took), of.what, shown(slices.Min(of.took)), shown(median(of.took)), shown(slices.Max(of.took)))
		}
	}
	fmt.Fprintf(&b, "claim.write_window was %v, claim.settle %v\n", m.claim.WriteWindow, m.claim.Settle)
	return b.String()
}

// meaning says of a fact what dibs would rely on, and what it does where that fails.
type meaning struct {
	level     Level // of a finding that it fails
	wanted    string
	otherwise string
}

// proposed stands for the pair of times in a remedy.
const proposed = "{pair}"

var meanings = map[string]meaning{
	notion.ReadAfterWrite: {Warning, "a page shows its last write",
		"a claim is granted after claim.settle, and the page has to show it by then: {pair}"},
	notion.WriteLateness: {Error, "no write lands later than claim.write_window after it was answered or given up",
		"{pair}; until then a late write may cover a claim, and dibs repairs that within 15 seconds"},
	notion.WriteKept: {Warning, "a write that was answered 200 stays",
		"dibs compares each answer, and reads a claim again before it grants it; another write that is lost leaves the task held until its lease is over"},
	notion.QueryLag: {Warning, "a query shows the last write",
		"dibs takes a query for a hint and reads the page before it claims; lists, and agents that wait for tasks, are behind for as long"},
	notion.DateMinutes: {Error, "Notion cuts dates to the minute",
		"dibs grants no claim whose page shows another minute than it wrote: report this with the text below"},
	notion.DateHeader: {Warning, "Notion's Date is within 5s of this machine's clock, and never goes back",
		"dibs believes a date that is off only when another answer agrees, and claims nothing on an answer without one: set this machine's clock, and see which proxy is on the way"},
	notion.AppendOrder: {Warning, "what is appended last comes last", "nothing to do: dibs appends to no page that is there"},
	notion.TrashOnce:   {Warning, "of two moves to the trash one is refused", "nothing to do: no claim depends on it"},
}

// facts adds a finding for each fact.
func (r *Report) facts(p notion.Probe, pair string) {
	for _, f := range p.Facts {
		m := meanings[f.Name]
		if f.Holds {
			r.ok(f.Name, m.wanted+": "+f.Measured)
		} else {
			r.add(m.level, f.Name, "it does not hold that "+m.wanted+": "+f.Measured, strings.ReplaceAll(m.otherwise, proposed, pair))
		}
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
	if len(p.Rounds) == 0 {
		r.facts(p, "measure again when Notion answers")
		r.problem("latency", "none of the writes was answered", "see Notion's status page, and try again")
		return r
	}
	r.ok("latency", fmt.Sprintf("a read %v, a write %v, at most %v and %v, in %d rounds",
		shown(median(reads)), shown(median(writes)), shown(slices.Max(reads)), shown(slices.Max(writes)), len(p.Rounds)))

	slowest, behind := slices.Max(attempts), time.Duration(0)
	if len(stale) > 0 {
		behind = slices.Max(stale)
	}
	late := time.Duration(0)
	if p.Late > c.WriteWindow {
		late = p.Late + p.Late/8 // as exactly as it was looked for
	}
	window, settle := propose(slowest, behind, late, all)
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
	shows := remedy + ": a page has to show its last write when a claim is verified"
	switch {
	case behind == 0:
		r.ok("settle", fmt.Sprintf("claim.settle is %v, each of %d reads right after a write showed it", c.Settle, len(p.Rounds)))
	// A rival may have read the old page for up to behind and then written within its window, and
	// the verifying read may be late by behind again.
	case c.Settle <= c.WriteWindow+2*behind:
		r.problem("settle", found, shows)
	default:
		r.warn("settle", found, shows)
	}
	r.facts(p, remedy)
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
// together took slowest at most, reads were stale for up to stale, and writes landed up to late after
// they were given up. The configuration stays valid with them.
func propose(slowest, stale, late time.Duration, c config.Config) (window, settle time.Duration) {
	margin := settleMargin
	if stale+late > 0 {
		margin = staleMargin
	}
	after := tenths(2*stale+late) + margin // settle minus window
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
