package report_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/report"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, time.November, 20, 9, 7, 31, 0, time.UTC)

func TestMedian(t *testing.T) {
	if got := report.Median(nil); got != nil {
		t.Errorf("the median of nothing is %v", *got)
	}
	for want, of := range map[time.Duration][]time.Duration{7: {7}, 3: {4, 2}, 5: {9, 5, 1}} {
		if got := report.Median(of); *got != want {
			t.Errorf("the median of %v is %v, want %v", of, *got, want)
		}
	}
}

func TestNineOfTen(t *testing.T) {
	if got := report.NineOfTen(nil); got != nil {
		t.Errorf("of nothing it is %v", *got)
	}
	for want, of := range map[time.Duration][]time.Duration{7: {7}, 4: {4, 2}, 9: {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 10: {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}} {
		if got := report.NineOfTen(of); *got != want {
			t.Errorf("of %v it is %v, want %v", of, *got, want)
		}
	}
}

// Each day and hour has what happened in it, also if that is nothing. A wait begins when the task is
// ready, and refusals that one fact counts are each counted.
func TestPeriods(t *testing.T) {
	fact := func(kind claim.Kind, id task.ID, after time.Duration) claim.Fact {
		return claim.Fact{Kind: kind, Task: id, At: t0.Add(after)}
	}
	held := fact(claim.KindDenied, "a", time.Hour)
	held.Code, held.Count = claim.CodeHeld, 3
	raced := fact(claim.KindDenied, "b", time.Hour)
	raced.Code = claim.CodeLostRace
	hold := func(from, to time.Duration) claim.Hold {
		return claim.Hold{State: claim.Ended, Started: t0.Add(from), Ended: t0.Add(to)}
	}
	before, within, across, live := hold(-time.Hour, time.Hour), hold(time.Hour, 3*time.Hour), hold(0, 12*time.Hour), hold(10*time.Hour, 0)
	live.State, live.Ended = claim.Held, time.Time{}
	halves := func(at time.Time) time.Time { return at.Add(8 * time.Hour) }
	got := report.Periods(t0, t0.Add(20*time.Hour), halves, []claim.Hold{before, within, across, {State: claim.Reserved}, {State: claim.Ended, Brief: true, Started: t0, Ended: t0.Add(time.Hour)}, live}, []claim.Fact{
		fact(claim.KindReady, "a", 0), fact(claim.KindGranted, "a", time.Hour), held, raced,
		fact(claim.KindAccepted, "a", 2*time.Hour), // nobody saw it ready again
		fact(claim.KindReady, "a", 3*time.Hour), fact(claim.KindReady, "b", 4*time.Hour), fact(claim.KindCancelled, "b", 6*time.Hour),
		fact(claim.KindGranted, "a", 16*time.Hour), fact(claim.KindGranted, "never ready", 16*time.Hour),
	})
	none := map[claim.Code]int{}
	at := func(hours int) time.Time { return t0.Add(time.Duration(hours) * time.Hour) }
	if diff := cmp.Diff([]report.Period{
		{From: at(0), To: at(8), Ended: []claim.Hold{before, within}, Granted: 2, Held: (1 + 2 + 8) / 8., Waiting: (1 + 5 + 2) / 8., Denied: map[claim.Code]int{claim.CodeHeld: 3, claim.CodeLostRace: 1}, Waited: []time.Duration{time.Hour}},
		{From: at(8), To: at(16), Ended: []claim.Hold{across}, Granted: 1, Held: (4 + 6) / 8., Waiting: 1, Denied: none},
		{From: at(16), To: at(20), Held: 1, Denied: none, Waited: []time.Duration{13 * time.Hour}},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := report.Periods(t0, t0, report.Hour, []claim.Hold{live}, nil); len(got) > 0 {
		t.Errorf("no time has %+v", got)
	}
	if end := report.Hour(t0); !end.Equal(t0.Truncate(time.Hour).Add(time.Hour)) || !report.Hour(end).Equal(end.Add(time.Hour)) {
		t.Errorf("the hour of %v ends at %v", t0, end)
	}
}

func TestFacts(t *testing.T) {
	for kind, want := range map[claim.Kind]struct{ completes, alive bool }{
		claim.KindGranted: {false, true}, claim.KindDenied: {false, true},
		claim.KindCompleted: {true, true}, claim.KindReview: {true, true},
		claim.KindFailed: {false, true}, claim.KindReleased: {false, true}, claim.KindBlocked: {false, true},
		claim.KindRenewed: {false, true}, claim.KindMessage: {false, true}, claim.KindReserved: {false, true}, claim.KindReopened: {false, true},
		claim.KindLost: {false, false}, claim.KindOverridden: {false, true}, claim.KindSwept: {false, false},
		claim.KindConflict: {false, false}, claim.KindContested: {false, false}, claim.KindExpiring: {false, false},
		claim.KindCleared: {false, false}, claim.KindWithdrawn: {false, false}, claim.KindUnreserved: {false, false},
	} {
		e := claim.Fact{Kind: kind, Code: claim.CodeHeld, Agent: "Sandman"}
		if got := report.Completes(e); got != want.completes {
			t.Errorf("%s completes a task: %v", kind, got)
		}
		if got := report.Alive(e); got != want.alive {
			t.Errorf("%s shows that its agent is there: %v", kind, got)
		}
		if e.Agent = ""; report.Alive(e) {
			t.Errorf("%s shows that nobody is there", kind)
		}
	}
	if report.Completes(claim.Fact{Kind: claim.KindCompleted, By: "user maria"}) {
		t.Error("a person's approval completes a task")
	}
}

func TestSum(t *testing.T) {
	end := func(agent string, as claim.Ending, after, took time.Duration, said bool) claim.Hold {
		h := claim.Hold{Agent: agent, State: claim.Ended, Started: t0, Ending: as, Ended: t0.Add(after)}
		if said {
			h.Finish = &claim.Finish{As: claim.EndCompleted, At: t0.Add(took)}
		}
		return h
	}
	never := end("Sandman", claim.EndNotGranted, 0, 0, false)
	never.Started = time.Time{}
	ended := []claim.Hold{
		end("Sandman", claim.EndCompleted, time.Minute, time.Minute, true),
		end("Sandman", claim.EndReview, time.Minute, 3*time.Minute, true),
		end("Sandman", claim.EndFailed, time.Minute, 0, false), end("Sandman", claim.EndReleased, time.Minute, 0, false),
		never,
		end("Oracle", claim.EndLost, 0, 0, false), end("Oracle", claim.EndSwept, 24*time.Hour, 0, false), end("Oracle", claim.EndOverridden, 24*time.Hour, 0, false),
		end("Oracle", claim.EndLost, 24*time.Hour, 0, true), // it was done
		end("Ghost", claim.EndBlocked, 0, 0, false),
	}
	if diff := cmp.Diff([]report.Work{
		{Of: "Oracle", Lost: 3}, {Of: "Sandman", Completed: 2, Failed: 1, Took: []time.Duration{time.Minute, 3 * time.Minute}},
	}, report.Sum(ended, nil, report.ByAgent)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	used := func(agent string, id task.ID, tokens int64) report.Spent {
		return report.Spent{Agent: agent, Task: id, Usage: claim.Usage{Tokens: tokens}}
	}
	ended[0].Task.ID, ended[5].Task.ID = "a", "b" // one of each agent
	areas := func(_ string, id task.ID) []string {
		return map[task.ID][]string{"a": {"api", "web"}, "b": {"web"}, "d": {"unused"}}[id]
	}
	if diff := cmp.Diff([]report.Work{
		{Of: "api", Completed: 1, Took: []time.Duration{time.Minute}, Used: claim.Usage{Tokens: 3}},
		{Of: "idle", Used: claim.Usage{Tokens: 9}},
		{Of: "web", Completed: 1, Lost: 1, Took: []time.Duration{time.Minute}, Used: claim.Usage{Tokens: 8}},
	}, report.Sum(ended, []report.Spent{used("Sandman", "a", 1), used("Oracle", "a", 2), used("Oracle", "b", 5), used("Oracle", "c", 9), used("Oracle", "d", 0)}, func(agent string, id task.ID) []string {
		if id == "c" {
			return []string{"idle"}
		}
		return areas(agent, id)
	})); diff != "" {
		t.Errorf("by value (-want +got):\n%s", diff)
	}
}
