package journal_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// race calls f(0) … f(n-1) at the same time.
func race(n int, f func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	group.Wait()
}

func TestOneOfManyGetsTheTask(t *testing.T) {
	j := newJournal(t)
	const agents = 40
	var refusals [agents]*claim.Refusal
	var claims [agents]claim.Claim
	race(agents, func(i int) {
		claims[i] = attempt(fmt.Sprintf("agent-%02d", i), "a", t0)
		var err error
		refusals[i], err = j.Reserve(t.Context(), claims[i], t0, 1)
		if err != nil {
			t.Error(err)
		}
	})
	winner := slices.Index(refusals[:], nil)
	if winner < 0 {
		t.Fatal("nobody got the task")
	}
	want := &claim.Refusal{Holder: &claims[winner]}
	for i, got := range refusals {
		if i == winner {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refusal of %s (-want +got):\n%s", claims[i].Agent, diff)
		}
	}
	if diff := cmp.Diff([]claim.Claim{claims[winner]}, live(t, j)); diff != "" {
		t.Errorf("live claims (-want +got):\n%s", diff)
	}
	if n := len(events(t, j, journal.EventFilter{})); n != agents-1 {
		t.Errorf("%d denials recorded, want %d", n, agents-1)
	}
}

func TestLimitHoldsUnderConcurrency(t *testing.T) {
	j := newJournal(t)
	const tasks, limit = 20, 3
	var refusals [tasks]*claim.Refusal
	race(tasks, func(i int) {
		var err error
		refusals[i], err = j.Reserve(t.Context(), attempt("Sandman", task.ID(fmt.Sprint(i)), t0), t0, limit)
		if err != nil {
			t.Error(err)
		}
	})
	granted := 0
	for _, refusal := range refusals {
		if refusal == nil {
			granted++
			continue
		}
		if diff := cmp.Diff(&claim.Refusal{Limit: true}, refusal); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
	}
	if granted != limit || len(live(t, j)) != limit {
		t.Errorf("granted = %d with %d live claims, want %d", granted, len(live(t, j)), limit)
	}
}

func TestLimitCountsOtherTasks(t *testing.T) {
	j := newJournal(t)
	a := grant(t, j, attempt("Sandman", "a", t0), t0)
	b := grant(t, j, attempt("Sandman", "b", t0), t0)
	grant(t, j, attempt("Oracle", "c", t0), t0)

	try := func(c claim.Claim, now time.Time, limit int, want *claim.Refusal) {
		t.Helper()
		got, err := j.Reserve(t.Context(), c, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
	}
	try(attempt("Sandman", "d", t0), t0, 2, &claim.Refusal{Limit: true})
	// Who has the task is the better reason.
	try(attempt("Sandman", "a", t0), t0, 2, &claim.Refusal{Holder: &a})
	// A stale claim of one's own on the task does not count against taking it over.
	again := attempt("Sandman", "a", t0)
	try(again, a.StaleAt, 2, nil)
	// A claim that has ended does not count.
	save(t, j, ended(b, claim.EndReleased, t0))
	d := attempt("Sandman", "d", t0)
	try(d, t0, 2, nil)
	try(attempt("Sandman", "e", t0), t0, 2, &claim.Refusal{Limit: true})
	try(attempt("Sandman", "e", t0), t0, 3, nil)
	try(attempt("Sandman", "f", t0), t0, 0, nil)
}

func TestDenials(t *testing.T) {
	now := t0.Add(time.Minute)
	bare := func(c claim.Claim) claim.Claim {
		c.Task = task.Task{ID: c.Task.ID}
		return c
	}
	tests := map[string]struct {
		state  claim.State // of the holder
		c      claim.Claim
		limit  int
		want   claim.Event
		detail string
	}{
		"reserved": {
			state: claim.Reserved, c: attempt("Sandman", "a", now),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "being claimed by Oracle",
		},
		"held": {
			state: claim.Held, c: attempt("Sandman", "a", now),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "held by Oracle until 2026-11-20T09:30:00Z",
		},
		"finishing": {
			state: claim.Finishing, c: attempt("Sandman", "a", now),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "finished by Oracle, which Notion is still to be told",
		},
		"abandoned": {
			state: claim.Abandoned, c: attempt("Sandman", "a", now),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "an attempt by Oracle is being withdrawn",
		},
		"task known to the holder only": {
			state: claim.Writing, c: bare(attempt("Sandman", "a", now)),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "being claimed by Oracle",
		},
		"the same name": {
			state: claim.Writing, c: attempt("Oracle", "a", now),
			want:   claim.Event{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "being claimed by Oracle",
		},
		"limit": {
			state: claim.Held, c: attempt("Oracle", "b", now), limit: 1,
			want:   claim.Event{Code: claim.CodeLimitReached, Title: "Task b", URL: "https://www.notion.so/b"},
			detail: "Oracle has as many tasks as it may have at a time (1)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			holder := attempt("Oracle", "a", t0)
			reserve(t, j, holder, t0)
			if test.state != claim.Reserved {
				holder = held(holder, t0)
				holder.State = test.state
				save(t, j, holder)
			}
			refusal, err := j.Reserve(t.Context(), test.c, now, test.limit)
			if err != nil || refusal == nil {
				t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
			}
			want := test.want
			want.Kind, want.At, want.Task = claim.KindDenied, now, test.c.Task.ID
			want.Agent, want.Claim, want.Detail = test.c.Agent, test.c.ID, test.detail
			if want.Holder != "" {
				want.Against = holder.ID
			}
			got := events(t, j, journal.EventFilter{})
			if diff := cmp.Diff([]claim.Event{want}, got, cmpopts.IgnoreFields(claim.Event{}, "ID")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if stats, err := j.OutboxStats(t.Context()); err != nil || len(stats) != 0 {
				t.Errorf("a denial decided here is owed to a log: %v, %v", stats, err)
			}
		})
	}
}

func TestStaleClaimsAreTakenOver(t *testing.T) {
	tests := map[string]struct {
		state   claim.State
		staleAt time.Time
		now     time.Time
		want    bool
	}{
		"before":           {claim.Held, t0.Add(time.Hour), t0.Add(time.Hour - time.Millisecond), false},
		"at the moment":    {claim.Held, t0.Add(time.Hour), t0.Add(time.Hour), true},
		"never early":      {claim.Held, t0.Add(1500 * time.Nanosecond), t0.Add(1400 * time.Nanosecond), false},
		"long after":       {claim.Held, t0.Add(time.Hour), t0.Add(1000 * time.Hour), true},
		"no moment is set": {claim.Held, time.Time{}, t0.Add(1000 * time.Hour), false},
		"writing":          {claim.Writing, t0.Add(time.Hour), t0.Add(1000 * time.Hour), false},
		"finishing":        {claim.Finishing, t0.Add(time.Hour), t0.Add(1000 * time.Hour), false},
		"abandoned":        {claim.Abandoned, t0.Add(time.Hour), t0.Add(1000 * time.Hour), false},
		"voided":           {claim.Voided, t0.Add(time.Hour), t0.Add(1000 * time.Hour), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			first := grant(t, j, attempt("Oracle", "a", t0), t0)
			first.State, first.StaleAt = test.state, test.staleAt
			save(t, j, first)
			second := attempt("Sandman", "a", test.now)
			refusal, err := j.Reserve(t.Context(), second, test.now, 0)
			if err != nil {
				t.Fatal(err)
			}
			want, wantLive := &claim.Refusal{Holder: &first}, []claim.Claim{first}
			if test.want {
				want, wantLive = nil, append(wantLive, second)
			}
			if diff := cmp.Diff(want, refusal); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantLive, live(t, j)); diff != "" {
				t.Errorf("live claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneOfManyTakesOver(t *testing.T) {
	j := newJournal(t)
	stale := grant(t, j, attempt("Oracle", "a", t0), t0)
	var refusals [20]*claim.Refusal
	race(len(refusals), func(i int) {
		var err error
		refusals[i], err = j.Reserve(t.Context(), attempt(fmt.Sprint(i), "a", stale.StaleAt), stale.StaleAt, 0)
		if err != nil {
			t.Error(err)
		}
	})
	granted := 0
	for _, refusal := range refusals {
		switch {
		case refusal == nil:
			granted++
		case refusal.Holder == nil || refusal.Holder.ID == stale.ID:
			t.Errorf("refused because of %+v, want the claim that took over", refusal.Holder)
		}
	}
	if granted != 1 {
		t.Errorf("granted = %d, want 1", granted)
	}
}

// What is saved of a claim that was taken over does not touch its successor.
func TestTakenOverClaimHasNoSay(t *testing.T) {
	holder := func(t *testing.T, j *journal.Journal, now time.Time) *claim.Claim {
		refusal, err := j.Reserve(t.Context(), attempt("probe", "a", now), now, 0)
		if err != nil {
			t.Fatal(err)
		}
		if refusal == nil {
			return nil
		}
		return refusal.Holder
	}
	j := newJournal(t)
	first := grant(t, j, attempt("Oracle", "a", t0), t0)
	now := first.StaleAt
	second := attempt("Sandman", "a", now)
	reserve(t, j, second, now)

	renewed := held(first, now)
	save(t, j, renewed)
	if got := holder(t, j, now); got == nil || got.ID != second.ID {
		t.Errorf("after the first was saved as held, the task is with %+v, want the second", got)
	}
	// The second is not granted after all: the task falls back to the first with
	// the next word from it.
	save(t, j, ended(second, claim.EndNotGranted, now))
	save(t, j, renewed)
	if got := holder(t, j, now); got == nil || got.ID != first.ID {
		t.Errorf("after the second ended, the task is with %+v, want the first", got)
	}

	third := attempt("claude-chat-7K9X", "a", renewed.StaleAt)
	reserve(t, j, third, renewed.StaleAt)
	save(t, j, ended(first, claim.EndOverridden, renewed.StaleAt))
	if got := holder(t, j, renewed.StaleAt); got == nil || got.ID != third.ID {
		t.Errorf("after the first ended, the task is with %+v, want the third", got)
	}
}

// Renewing moves the moment at which others may take over.
func TestSaveMovesStaleAt(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	renewed := c
	renewed.StaleAt = c.StaleAt.Add(time.Hour)
	save(t, j, renewed)
	refusal, err := j.Reserve(t.Context(), attempt("Sandman", "a", c.StaleAt), c.StaleAt, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&claim.Refusal{Holder: &renewed}, refusal); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	reserve(t, j, attempt("Sandman", "a", renewed.StaleAt), renewed.StaleAt)
}

func TestContestedCountsEveryDenial(t *testing.T) {
	j := newJournal(t)
	const agents, attempts = 8, 25
	var mu sync.Mutex
	want := map[claim.ID][]string{} // who was refused because of the claim
	race(agents, func(i int) {
		agent := fmt.Sprintf("agent-%d", i)
		for range attempts {
			c := attempt(agent, "a", t0)
			refusal, err := j.Reserve(t.Context(), c, t0, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if refusal != nil {
				mu.Lock()
				want[refusal.Holder.ID] = append(want[refusal.Holder.ID], agent)
				mu.Unlock()
				continue
			}
			if err := j.Save(t.Context(), ended(c, claim.EndReleased, t0), event(c, claim.KindReleased, t0)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	got := map[claim.ID]claim.Event{}
	for _, e := range events(t, j, journal.EventFilter{}) {
		if e.Kind == claim.KindContested {
			if _, twice := got[e.Claim]; twice {
				t.Errorf("claim %s was summed up twice", e.Claim)
			}
			got[e.Claim] = e
		}
	}
	if len(want) == 0 {
		t.Fatal("nobody was refused: nothing was tested")
	}
	if len(got) != len(want) {
		t.Errorf("%d claims were summed up, want %d", len(got), len(want))
	}
	for id, names := range want {
		slices.Sort(names)
		count := len(names)
		e := got[id]
		if e.Count != count || !slices.Equal(e.Names, slices.Compact(names)) || e.Task != "a" || !e.At.Equal(t0) {
			t.Errorf("contested event of %s = %+v, want %d denials of %v", id, e, count, names)
		}
	}
}

func TestContestedGoesToTheMeshLogOnce(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	for _, agent := range []string{"Sandman", "Merlin", "Sandman"} {
		if refusal, err := j.Reserve(t.Context(), attempt(agent, "a", t0), t0, 0); err != nil || refusal == nil {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
	}
	// A denial that Notion was asked about is an entry by itself.
	remote := event(attempt("Zed", "a", t0), claim.KindDenied, t0)
	remote.Remote, remote.Against = true, c.ID
	if err := j.Record(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	end := t0.Add(time.Minute)
	done := event(c, claim.KindCompleted, end)
	save(t, j, ended(c, claim.EndCompleted, end), done)

	contested := event(c, claim.KindContested, end)
	contested.Count, contested.Names = 3, []string{"Merlin", "Sandman"}
	want := []journal.Item{
		{Entry: remote, Log: claim.MeshLog, State: journal.Due},
		{Entry: done, Log: claim.TaskLog, State: journal.Due},
		{Entry: contested, Log: claim.MeshLog, State: journal.Due},
	}
	got, err := j.NextOutbox(t.Context(), end, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(claim.Event{}, "ID")); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}
