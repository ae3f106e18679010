package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/ledgertest"
	"dibs/internal/claim/sim"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/outbox"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
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

// The journal is a ledger like the simulated one.
func TestLedger(t *testing.T) {
	ledgertest.Suite(t, func(t *testing.T) (claim.Ledger, func() []claim.Fact) {
		j := newJournal(t)
		return j, func() []claim.Fact { return events(t, j, journal.FactFilter{}) }
	})
}

// Whatever state the attempt says that it is in, nothing was written for it yet.
func TestReserveStoresTheClaimAsReserved(t *testing.T) {
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	c.State = claim.Held
	reserve(t, j, c, t0)
	c.State = claim.Reserved
	if diff := cmp.Diff([]claim.Hold{c}, live(t, j), anyFence); diff != "" {
		t.Errorf("live claims (-want +got):\n%s", diff)
	}
}

func TestDenials(t *testing.T) {
	now := t0.Add(time.Minute)
	for name, tt := range map[string]struct {
		holder claim.State // of Oracle's claim of a
		agent  string
		page   task.ID
		limit  int
		detail string
	}{
		"reserved":      {claim.Reserved, "Sandman", "a", 0, "Oracle is claiming the task at this moment"},
		"held":          {claim.Held, "Sandman", "a", 0, `Oracle holds "Task a"`},
		"finishing":     {claim.Finishing, "Sandman", "a", 0, `Oracle is done with "Task a" and Notion has yet to be told`},
		"the same name": {claim.Writing, "Oracle", "a", 0, "Oracle is claiming the task at this moment"},
		"limit":         {claim.Held, "Oracle", "b", 1, "Oracle already holds as many tasks as it may (1)"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			holder := grant(t, j, attempt("Oracle", "a", t0), t0)
			holder.State = tt.holder
			save(t, j, holder)
			c := attempt(tt.agent, tt.page, now)
			want := event(c, claim.KindDenied, now)
			want.Code, want.Detail = claim.CodeLimitReached, tt.detail
			if tt.limit == 0 {
				c.Task = task.Task{ID: tt.page} // which the holder knows better
				want.Code, want.Holder, want.Against = claim.CodeHeld, "Oracle", holder.ID
			}
			if tt.holder == claim.Held && tt.limit == 0 {
				want.Expires = t0.Add(30 * time.Minute)
			}
			_, refusal, err := j.Reserve(t.Context(), c, now, tt.limit)
			if err != nil || refusal == nil {
				t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
			}
			same(t, "events", []claim.Fact{want}, events(t, j, journal.FactFilter{}), cmpopts.IgnoreFields(claim.Fact{}, "ID"))
			if stats, err := j.OutboxStats(t.Context()); err != nil || len(stats) != 0 {
				t.Errorf("a denial decided here is owed to a log: %v, %v", stats, err)
			}
		})
	}
}

// abandoned is what is left of the attempt c.
func abandoned(c claim.Hold) claim.Mark {
	return claim.Mark{
		ID: c.ID, Why: claim.Withdrawn, Of: c.ID, Agent: c.Agent, Task: c.Task, State: claim.Abandoned, Made: c.Reserved, Due: c.Reserved,
	}
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
			_, refusal, err := j.Reserve(t.Context(), c, t0, 0)
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
			if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{ended(c, claim.EndReleased, t0)}, Facts: []claim.Fact{event(c, claim.KindReleased, t0)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	got := map[claim.ID]claim.Fact{}
	for _, e := range events(t, j, journal.FactFilter{}) {
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
		refuse(t, j, attempt(agent, "a", t0), t0, 0)
	}
	// A denial that Notion was asked about is an entry by itself.
	remote := event(attempt("Zed", "a", t0), claim.KindDenied, t0)
	remote.Remote, remote.Against = true, c.ID
	do(t, j.Record(t.Context(), remote))
	end := t0.Add(time.Minute)
	done := event(c, claim.KindCompleted, end)
	save(t, j, ended(c, claim.EndCompleted, end), done)

	contested := event(c, claim.KindContested, end)
	contested.Count, contested.Names = 3, []string{"Merlin", "Sandman"}
	want := []outbox.Intent{due(remote, outbox.MeshEntry), due(done, outbox.TaskEntry), due(contested, outbox.MeshEntry)}
	same(t, "outbox", want, next(t, j, end, 0), cmpopts.IgnoreFields(claim.Fact{}, "ID"), cmpopts.IgnoreFields(outbox.Intent{}, "ID", "Seq"))
}

// An agent that asks for a held task again and again leaves one event, and many names
// leave a bounded number. All of them are counted.
func TestDenialsAreCounted(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	refuse := func(agent string, at time.Time) {
		t.Helper()
		refuse(t, j, attempt(agent, "a", at), at, 0)
	}
	for i := range 50 {
		refuse("Sandman", t0.Add(time.Duration(i)*time.Second))
	}
	list := events(t, j, journal.FactFilter{Agent: "Sandman"})
	if len(list) != 1 || list[0].Count != 50 || list[0].Kind != claim.KindDenied || !list[0].At.Equal(t0) {
		t.Errorf("events = %+v, want one of 50 denials", list)
	}
	for i := range 130 {
		refuse(fmt.Sprint("made up ", i), t0)
		refuse(fmt.Sprint("made up ", i), t0)
	}
	if n := len(events(t, j, journal.FactFilter{Task: "a"})); n > 110 {
		t.Errorf("%d events, want about 100", n)
	}
	end := t0.Add(time.Minute)
	save(t, j, ended(c, claim.EndCompleted, end), event(c, claim.KindCompleted, end))
	list = events(t, j, journal.FactFilter{Newest: true, Limit: 1})
	if e := list[0]; e.Kind != claim.KindContested || e.Count != 50+2*130 || len(e.Names) != 100 {
		t.Errorf("%s of %d denials with %d names, want contested, 310 and 100", e.Kind, e.Count, len(e.Names))
	}
}

// So does one that has as many tasks as it may, whichever it asks for.
func TestLimitsAreCounted(t *testing.T) {
	j := newJournal(t)
	grant(t, j, attempt("Oracle", "a", t0), t0)
	for i := range 20 {
		at := t0.Add(time.Duration(i) * 6 * time.Minute)
		_, refusal, err := j.Reserve(t.Context(), attempt("Oracle", "b", at), at, 1)
		if err != nil || refusal == nil || !refusal.Limit {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
	}
	var counts []int
	for _, e := range events(t, j, journal.FactFilter{Agent: "Oracle"}) {
		if e.Kind == claim.KindDenied {
			counts = append(counts, e.Count)
		}
	}
	same(t, "denials of two hours", []int{10, 10}, counts)
}

// Whatever the order of calls, the journal answers as the simulated ledger does.
func TestLedgerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, err := journaltest.Open(t.Context(), path)
		do(rt, err)
		defer func() {
			do(rt, j.Close())
			retire(rt, path)
		}()
		model := sim.NewLedger()
		known := func() []claim.Hold {
			holds, _, err := model.Live(t.Context())
			do(rt, err)
			return holds
		}
		now := t0
		states := []claim.State{
			claim.Writing, claim.Held, claim.Held, claim.Held, claim.Finishing, claim.Ended, claim.Ended,
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if diff := cmp.Diff(known(), live(t, j), anyFence); diff != "" {
					rt.Fatalf("live claims (-want +got):\n%s", diff)
				}
			},
			"time passes": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3_000_000).Draw(rt, "µs")) * time.Microsecond)
			},
			"reserve": func(rt *rapid.T) {
				agent := fmt.Sprint("agent-", rapid.IntRange(1, 3).Draw(rt, "agent"))
				id := task.ID(fmt.Sprint(rapid.IntRange(1, 4).Draw(rt, "task")))
				limit := rapid.IntRange(0, 2).Draw(rt, "limit")
				c := attempt(agent, id, now)
				_, got, err := j.Reserve(t.Context(), c, now, limit)
				if err != nil {
					rt.Fatal(err)
				}
				_, want, err := model.Reserve(t.Context(), c, now, limit)
				do(rt, err)
				if diff := cmp.Diff(want, got, anyFence); diff != "" {
					rt.Fatalf("refusal (-want +got):\n%s", diff)
				}
			},
			"save": func(rt *rapid.T) {
				known := known()
				if len(known) == 0 {
					rt.Skip("no claims")
				}
				c := rapid.SampledFrom(known).Draw(rt, "claim")
				c.State = rapid.SampledFrom(states).Draw(rt, "state")
				switch c.State {
				case claim.Held:
					c.StaleAt = now.Add(time.Duration(rapid.IntRange(-2, 4).Draw(rt, "s")) * time.Second).Truncate(time.Millisecond)
				case claim.Ended:
					c.Ending, c.Ended = claim.EndReleased, now
				}
				if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}}); err != nil {
					rt.Fatal(err)
				}
				do(rt, model.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}}))
			},
		})
	})
}
