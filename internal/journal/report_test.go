package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/report"
	"dibs/internal/task"
)

// agents says how agents do, in a line each.
func agents(t testing.TB, j *journal.Journal, q report.Asking) []string {
	t.Helper()
	list, err := j.Agents(t.Context(), q)
	do(t, err)
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
	same(t, "agents", want, agents(t, j, q))
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
	do(t, errOf(j.TakeTriggers(t.Context(), inbox.Take{Agent: "Merlin", Taker: "p", Now: at(5), At: at(5)})))
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

// wantSpent checks what was used, in a line for each agent.
func wantSpent(t *testing.T, j *journal.Journal, q report.Spending, want ...string) {
	t.Helper()
	spent, err := j.Spent(t.Context(), q)
	do(t, err)
	var got []string
	for _, s := range spent {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%s %s %d %d", s.Task, s.Agent, s.Tokens, s.Micros), " "))
	}
	same(t, fmt.Sprintf("%+v", q), want, got)
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
	wantSpent(t, j, report.Spending{To: midnight.Add(24 * time.Hour), ByTask: true}, "a worker-1 150 100", "b worker-2 0 5")
	save(t, j, used(grant(t, j, attempt("worker-2", "d", t0), t0), 0, 6, midnight))
	wantSpent(t, j, report.Spending{Agent: "worker-2", ByTask: true}, "b worker-2 0 5", "d worker-2 0 6")
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
