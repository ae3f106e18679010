package journal_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/report"

	"github.com/google/go-cmp/cmp"
)

// wantSpent checks what was used, in a line for each agent.
func wantSpent(t *testing.T, j *journal.Journal, q report.Spending, want ...string) {
	t.Helper()
	spent, err := j.Spent(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spent {
		got = append(got, fmt.Sprintf("%s %d %d", s.Agent, s.Tokens, s.Micros))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%+v (-want +got):\n%s", q, diff)
	}
}

func used(c claim.Hold, tokens, micros int64, at time.Time) claim.Hold {
	c.Used = claim.Usage{Tokens: tokens, Micros: micros, At: at}
	return c
}

// What a claim used is summed up once, by when it was reported, whatever is saved how often.
func TestSpent(t *testing.T) {
	j := newJournal(t)
	midnight := t0.Truncate(24 * time.Hour).Add(24 * time.Hour)
	first := grant(t, j, attempt("worker-1", "a", t0), t0)
	second := grant(t, j, attempt("worker-2", "b", t0), t0)
	other := grant(t, j, attempt("worker", "c", t0), t0)

	save(t, j, used(first, 100, 0, midnight.Add(-time.Minute)))
	save(t, j, used(first, 100, 0, midnight.Add(-time.Minute)))
	save(t, j, used(first, 150, 70, midnight.Add(time.Minute)))
	save(t, j, used(second, 0, 5, midnight.Add(-time.Hour)))
	save(t, j, used(other, 7, 7, midnight.Add(48*time.Hour)))
	first = ended(used(first, 150, 70, midnight.Add(time.Minute)), claim.EndLost, midnight.Add(2*time.Minute))
	save(t, j, first)
	// a report after the end
	first.Used = claim.Usage{Tokens: 150, Micros: 100, At: midnight.Add(3 * time.Minute)}
	do(t, j.Save(t.Context(), claim.Change{Used: []claim.Hold{first}}))
	do(t, j.Save(t.Context(), claim.Change{Used: []claim.Hold{first}}))

	j = reopen(t, j)
	wantSpent(t, j, report.Spending{}, "worker 7 7", "worker-1 150 100", "worker-2 0 5")
	wantSpent(t, j, report.Spending{Agent: "worker-*"}, "worker-1 150 100", "worker-2 0 5")
	wantSpent(t, j, report.Spending{Agent: "worker*"}, "worker-1 150 100", "worker-2 0 5") // as a pattern covers names
	wantSpent(t, j, report.Spending{Agent: "worker"}, "worker 7 7")
	wantSpent(t, j, report.Spending{To: midnight}, "worker-1 100 0", "worker-2 0 5")
	// the clocks of a machine and of Notion differ by a little
	for _, off := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} {
		wantSpent(t, j, report.Spending{From: midnight.Add(off), To: midnight.Add(24*time.Hour + off)}, "worker-1 50 100")
	}
	wantSpent(t, j, report.Spending{Task: "a"}, "worker-1 150 100")
	if got, err := j.Hold(t.Context(), first.ID); err != nil || got.Used.Micros != 100 || got.Ending != claim.EndLost {
		t.Errorf("%+v, %v", got, err)
	}
}

// What an ended claim used is forgotten with it, and what a live one used is not.
func TestPruneSpent(t *testing.T) {
	j := newJournal(t)
	cut := t0.Add(24 * time.Hour)
	alive := grant(t, j, attempt("Sandman", "alive", t0), t0)
	save(t, j, used(alive, 1, 1, t0))
	old := grant(t, j, attempt("Sandman", "old", t0), t0)
	save(t, j, used(old, 2, 2, t0))
	save(t, j, ended(used(old, 5, 5, t0.Add(time.Hour)), claim.EndReleased, t0.Add(time.Hour)))
	late := grant(t, j, attempt("Sandman", "late", t0), t0)
	late = ended(late, claim.EndReleased, t0)
	save(t, j, late)
	do(t, j.Save(t.Context(), claim.Change{Used: []claim.Hold{used(late, 10, 10, cut.Add(time.Hour))}}))

	prune(t, j, cut, 4) // two claims, and the two quarters of an hour of one
	wantSpent(t, j, report.Spending{}, "Sandman 11 11")
	save(t, j, used(alive, 3, 3, cut))
	wantSpent(t, j, report.Spending{}, "Sandman 13 13")
}
