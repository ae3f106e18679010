package cli

import (
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/run/runner"
)

// news prints what dibs run does: a document for each task with --json, else a line on stderr for
// each step, unless quiet.
func (a *app) news(n runner.News, quiet bool) {
	switch {
	case a.json && n.Kind == runner.Ended:
		_ = writeJSON(a.stdout, n.Result) // the task's outcome does not depend on it
	case !a.json && (!quiet || n.Result.Unstarted()):
		line := newsLine(n, time.Now())
		if line == "" || n.Kind == runner.Waiting && line == a.waiting {
			return // nobody has anything, or it waits for the same as before
		}
		if a.waiting = ""; n.Kind == runner.Waiting {
			a.waiting = line
		}
		fmt.Fprintf(a.stderr, "dibs: %s\n", line)
	}
}

func newsLine(n runner.News, now time.Time) string {
	switch n.Kind {
	case runner.Claimed:
		return fmt.Sprintf("%s claimed %s%s", clean(n.Claim.Agent), quoted(n.Claim.Task), lasting(n.Claim.ExpiresAt, now))
	case runner.Waiting:
		if n.Denied.Code == api.Code(claim.CodePaused) {
			return clean(n.Denied.Detail) + lasting(n.Denied.ExpiresAt, now) + "; waiting"
		}
		return "nothing is ready" + waitsFor(n.Denied, now) + "; waiting"
	case runner.Idle:
		if rest := waitsFor(n.Denied, now); rest != "" {
			return "nothing is ready" + rest
		}
		return ""
	}
	r := n.Result
	took := " after " + (time.Duration(r.Seconds * float64(time.Second))).Round(time.Second).String()
	said := ""
	if r.Text != "" {
		said = ": " + beginning(strings.ReplaceAll(r.Text, "\n", "; "), maxText)
	}
	switch {
	case r.Outcome == claim.EndCompleted:
		return "completed " + quoted(r.Task) + took + said
	case r.Outcome == claim.EndReview: // claim.review
		return "put up for review " + quoted(r.Task) + took + said
	case r.Outcome == claim.EndFailed:
		return fmt.Sprintf("failed %s%s, with exit code %d%s", quoted(r.Task), took, r.ExitCode, said)
	case r.Outcome == claim.EndLost:
		return "lost " + quoted(r.Task) + took + said
	case r.GivenUp:
		return fmt.Sprintf("gave back %s%s: not tried again, that was %s", quoted(r.Task), said, count(int64(r.Attempts), "attempt"))
	case !r.Again.IsZero():
		return fmt.Sprintf("gave back %s%s; tried again at %s", quoted(r.Task), said, r.Again.Local().Format("15:04:05"))
	}
	return "gave back " + quoted(r.Task) + said
}

// waitsFor says what the tasks wait for that are not ready; empty if nothing does.
func waitsFor(p *api.Problem, now time.Time) string {
	s := p.Summary
	if s == nil {
		return ""
	}
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{s.Held, "held"}, {s.Blocked, "blocked"}, {s.Dependencies, "waiting for others"}, {s.Assigned, "assigned"},
		{s.Review, "in review"}, {s.Failed, "failed"}, {s.Filtered, "not asked for"}, {s.CoolingOff, "passed over"},
	} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if !s.NextLeaseEndsAt.IsZero() {
		parts = append(parts, "the next lease ends at "+clock(s.NextLeaseEndsAt.Time, now))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
