package journal_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/report"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// agents says how agents do, in a line each.
func agents(t testing.TB, j *journal.Journal, q report.Asking) []string {
	t.Helper()
	list, err := j.Agents(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, a := range list {
		line := fmt.Sprintf("%s at %s: %d done", a.Name, a.Seen.Format("15:04"), a.Done)
		if a.Median != nil {
			line += fmt.Sprint(", ", *a.Median)
		}
		out = append(out, line)
	}
	return out
}

func wantAgents(t testing.TB, j *journal.Journal, q report.Asking, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, agents(t, j, q)); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

func TestHowAgentsDo(t *testing.T) {
	j := newJournal(t)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	for i, took := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour} {
		done := claim.Fact{
			ID: claim.NewFactID(at(i)), At: at(i), Kind: claim.KindCompleted, Task: task.ID(fmt.Sprint(i)), Agent: "Sandman",
			Started: at(i).Add(-took), Finished: at(i),
		}
		record(t, j, done)
	}
	c := grant(t, j, attempt("Oracle", "a", at(3)), at(3))
	save(t, j, c, event(c, claim.KindGranted, at(3)))
	everybody := report.Asking{Limit: 500}
	wantAgents(t, j, everybody, "Oracle at 09:03: 0 done", "Sandman at 09:02: 3 done, 5m0s")

	// A renewal that stays here, and a poll; but nothing that others did to the agent.
	c.Heartbeat = at(4)
	save(t, j, c)
	wantAgents(t, j, report.Asking{Limit: 1}, "Oracle at 09:04: 0 done")
	if _, err := j.TakeTriggers(t.Context(), inbox.Take{Agent: "Merlin", Taker: "p", Now: at(5), At: at(5)}); err != nil {
		t.Fatal(err)
	}
	swept := event(c, claim.KindLost, at(6))
	record(t, j, swept)
	wantAgents(t, j, report.Asking{Limit: 500, DoneSince: at(2), MedianSince: at(1)},
		"Merlin at 09:05: 0 done", "Oracle at 09:04: 0 done", "Sandman at 09:02: 1 done, 32m30s")
	wantAgents(t, j, report.Asking{Limit: 500, Since: at(5)}, "Merlin at 09:05: 0 done")

	// What is older than the time it is kept is forgotten.
	if n, err := j.PruneSeen(t.Context(), at(3)); err != nil || n != 1 {
		t.Errorf("PruneSeen = %d, %v; want one row", n, err)
	}
	wantAgents(t, j, everybody, "Merlin at 09:05: 0 done", "Oracle at 09:04: 0 done")
}
