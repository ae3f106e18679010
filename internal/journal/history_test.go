package journal_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/inbox"
	"dibs/internal/journal"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// happened is what happened in each step of the last hours, before now, that has anything.
func happened(t testing.TB, j *journal.Journal, now time.Time, hours, points int) map[string]history.Counts {
	t.Helper()
	w := history.Last(now, hours, points)
	steps, err := j.History(t.Context(), w)
	if err != nil || len(steps) != w.Points {
		t.Fatalf("%d steps of %d, %v", len(steps), w.Points, err)
	}
	out := make(map[string]history.Counts)
	for i, counts := range steps {
		if len(counts) > 0 {
			out[w.From.Add(time.Duration(i)*w.Step).Format("15:04")] = counts
		}
	}
	return out
}

func wantHappened(t testing.TB, j *journal.Journal, now time.Time, hours, points int, want map[string]history.Counts) {
	t.Helper()
	if diff := cmp.Diff(want, happened(t, j, now, hours, points)); diff != "" {
		t.Errorf("%d hours in %d steps (-want +got):\n%s", hours, points, diff)
	}
}

// agents says how agents do, in a line each.
func agents(t testing.TB, j *journal.Journal, q history.Asking) []string {
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

func wantAgents(t testing.TB, j *journal.Journal, q history.Asking, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, agents(t, j, q)); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

func TestHistoryCountsEvents(t *testing.T) {
	j := newJournal(t)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	c := grant(t, j, attempt("Sandman", "a", at(0).Add(-2*time.Second)), at(0))
	save(t, j, c, event(c, claim.KindGranted, at(0)))
	// The same agent again, counted in one fact, and another agent.
	for i, agent := range []string{"Oracle", "Oracle", "Merlin"} {
		_, refusal, err := j.Reserve(t.Context(), attempt(agent, "a", at(i)), at(i), 0)
		if err != nil || refusal == nil {
			t.Fatalf("refusal %v, %v", refusal, err)
		}
	}
	save(t, j, ended(c, claim.EndReview, at(6)), event(c, claim.KindReview, at(6)))
	for _, kind := range []claim.Kind{claim.KindFailed, claim.KindLost, claim.KindOverridden, claim.KindSwept, claim.KindReleased, claim.KindCompleted} {
		record(t, j, event(c, kind, at(7)))
	}
	raced := event(c, claim.KindDenied, at(7))
	raced.Code, raced.Remote = claim.CodeLostRace, true
	record(t, j, raced)
	if err := j.Count(t.Context(), at(7), history.Counts{history.Requests: 5}); err != nil {
		t.Fatal(err)
	}
	granted := history.Counts{history.Granted: 1, history.Waited(2 * time.Second): 1, history.Denied(claim.CodeHeld): 1}
	rest := history.Counts{
		history.Failed: 1, history.Lost: 2, history.Swept: 1, history.Completed: 1, history.Worked(0): 1,
		history.Denied(claim.CodeLostRace): 1, history.Requests: 5,
	}
	wantHappened(t, j, at(8), 1, 60, map[string]history.Counts{
		"09:00": granted,
		"09:01": {history.Denied(claim.CodeHeld): 1},
		"09:02": {history.Denied(claim.CodeHeld): 1},
		"09:06": {history.Completed: 1, history.Worked(0): 1},
		"09:07": rest,
	})
	// An event that is on record already is not counted again.
	record(t, j, raced)
	rest[history.Completed], rest[history.Worked(0)] = 2, 2
	granted[history.Denied(claim.CodeHeld)] = 3
	all := map[string]history.Counts{"09:00": granted, "09:05": rest}
	wantHappened(t, j, at(8), 6, 72, all)
	j = reopen(t, j)
	wantHappened(t, j, at(8), 6, 72, all)
	wantHappened(t, j, at(60+8), 1, 60, map[string]history.Counts{}) // 08:09 is in the first step
}

// A task waits from when it is ready, whatever else becomes of it meanwhile, and again
// from when it was given back.
func TestHistoryOfWaiting(t *testing.T) {
	b := newBoard(t, open1("a"))
	waited := func(now time.Time, want ...time.Duration) {
		t.Helper()
		got := make(history.Counts)
		for _, counts := range happened(t, b.Journal, now, 1, 60) {
			for name, n := range counts {
				if name != history.Granted && name != history.Completed {
					got[name] += n
				}
			}
		}
		all := make(history.Counts)
		for _, d := range want {
			all[history.Waited(d)]++
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	}
	tell := func(at time.Time) {
		t.Helper()
		ids, err := b.Unpublished(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), at, ids); err != nil {
			t.Fatal(err)
		}
	}
	made := t0.Add(time.Minute)
	b.put(open1("b"))
	tell(made)
	renamed := open1("b")
	renamed.Title = "Another title"
	b.put(renamed)
	tell(made.Add(2 * time.Minute))

	at := made.Add(10 * time.Minute)
	c := attempt("Sandman", "b", at.Add(-time.Second))
	reserve(t, b.Journal, c, at)
	b.put(shows(c))
	c = held(c, at)
	granted := remote(c, claim.KindGranted)
	granted.At = at
	save(t, b.Journal, c, granted)
	waited(at, 10*time.Minute)

	back := at.Add(20 * time.Minute)
	save(t, b.Journal, ended(c, claim.EndReleased, back))
	b.put(renamed)
	tell(back)
	again := attempt("Oracle", "b", back.Add(2*time.Minute))
	reserve(t, b.Journal, again, back)
	b.put(shows(again))
	again = held(again, back)
	granted = remote(again, claim.KindGranted)
	granted.At = back.Add(2 * time.Minute)
	save(t, b.Journal, again, granted)
	waited(back.Add(2*time.Minute), 10*time.Minute, 2*time.Minute)

	// Nobody knows since when a task is ready that was never told of.
	other := attempt("Sandman", "never told", at.Add(-3*time.Second))
	reserve(t, b.Journal, other, at)
	other = held(other, at)
	granted = remote(other, claim.KindGranted)
	granted.At = at
	save(t, b.Journal, other, granted)
	waited(back.Add(2*time.Minute), 10*time.Minute, 2*time.Minute, 3*time.Second)
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
	everybody := history.Asking{Limit: 500}
	wantAgents(t, j, everybody, "Oracle at 09:03: 0 done", "Sandman at 09:02: 3 done, 5m0s")

	// A renewal that stays here, and a poll; but nothing that others did to the agent.
	c.Heartbeat = at(4)
	save(t, j, c)
	wantAgents(t, j, history.Asking{Limit: 1}, "Oracle at 09:04: 0 done")
	if _, err := j.TakeTriggers(t.Context(), inbox.Take{Agent: "Merlin", Taker: "p", Now: at(5), At: at(5)}); err != nil {
		t.Fatal(err)
	}
	swept := event(c, claim.KindLost, at(6))
	record(t, j, swept)
	wantAgents(t, j, history.Asking{Limit: 500, DoneSince: at(2), MedianSince: at(1)},
		"Merlin at 09:05: 0 done", "Oracle at 09:04: 0 done", "Sandman at 09:02: 1 done, 32m30s")
	wantAgents(t, j, history.Asking{Limit: 500, Since: at(5)}, "Merlin at 09:05: 0 done")

	// What is older than the time it is kept is forgotten.
	if n, err := j.PruneHistory(t.Context(), at(10), at(3)); err != nil || n != 1 {
		t.Errorf("PruneHistory = %d, %v; want one row", n, err)
	}
	wantAgents(t, j, everybody, "Merlin at 09:05: 0 done", "Oracle at 09:04: 0 done")
}

func TestPruneHistory(t *testing.T) {
	j := newJournal(t)
	now := t0.Add(30 * 24 * time.Hour)
	for _, age := range []time.Duration{0, history.KeepFine - time.Hour, history.KeepFine + time.Hour, history.KeepCoarse - time.Hour, history.KeepCoarse + time.Hour} {
		if err := j.Count(t.Context(), now.Add(-age), history.Counts{history.Requests: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := j.PruneHistory(t.Context(), now, now); err != nil || n != 4 {
		t.Errorf("PruneHistory = %d, %v; want 4 rows: three minutes, and five", n, err)
	}
	if n, err := j.PruneHistory(t.Context(), now, now); err != nil || n != 0 {
		t.Errorf("PruneHistory again = %d, %v; want none", n, err)
	}
	total := 0
	for _, counts := range happened(t, j, now, history.MaxHours, history.MaxPoints) {
		total += counts[history.Requests]
	}
	if total != 3 {
		t.Errorf("%d requests in a week, want 3", total)
	}
}
