package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
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

func TestOneOfManyGetsTheTask(t *testing.T) {
	j := newJournal(t)
	const agents = 40
	var refusals [agents]*claim.Refusal
	var claims [agents]claim.Hold
	race(agents, func(i int) {
		claims[i] = attempt(fmt.Sprintf("agent-%02d", i), "a", t0)
		var err error
		_, refusals[i], err = j.Reserve(t.Context(), claims[i], t0, 1)
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
		same(t, fmt.Sprintf("refusal of %s", claims[i].Agent), want, got, anyFence)
	}
	same(t, "live claims", []claim.Hold{claims[winner]}, live(t, j), anyFence)
	if n := len(events(t, j, journal.FactFilter{})); n != agents-1 {
		t.Errorf("%d denials recorded, want %d", n, agents-1)
	}
}

// Whatever state the attempt says that it is in, nothing was written for it yet.
func TestReserveStoresTheClaimAsReserved(t *testing.T) {
	j := newJournal(t)
	c := attempt("Sandman", "a", t0)
	c.State = claim.Held
	reserve(t, j, c, t0)
	c.State = claim.Reserved
	same(t, "live claims", []claim.Hold{c}, live(t, j), anyFence)
}

func TestLimitHoldsUnderConcurrency(t *testing.T) {
	j := newJournal(t)
	const tasks, limit = 20, 3
	var refusals [tasks]*claim.Refusal
	race(tasks, func(i int) {
		var err error
		_, refusals[i], err = j.Reserve(t.Context(), attempt("Sandman", task.ID(fmt.Sprint(i)), t0), t0, limit)
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
		same(t, "refusal", &claim.Refusal{Limit: true}, refusal, anyFence)
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

	try := func(c claim.Hold, now time.Time, limit int, want *claim.Refusal) {
		t.Helper()
		_, got, err := j.Reserve(t.Context(), c, now, limit)
		do(t, err)
		same(t, "refusal", want, got, anyFence)
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
	bare := func(c claim.Hold) claim.Hold {
		c.Task = task.Task{ID: c.Task.ID}
		return c
	}
	tests := map[string]struct {
		state  claim.State // of the holder
		c      claim.Hold
		limit  int
		want   claim.Fact
		detail string
	}{
		"reserved": {
			state: claim.Reserved, c: attempt("Sandman", "a", now),
			want:   claim.Fact{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "Oracle is claiming the task at this moment",
		},
		"held": {
			state: claim.Held, c: attempt("Sandman", "a", now),
			want:   claim.Fact{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle", Expires: t0.Add(30 * time.Minute)},
			detail: `Oracle holds "Task a"`,
		},
		"finishing": {
			state: claim.Finishing, c: attempt("Sandman", "a", now),
			want:   claim.Fact{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: `Oracle is done with "Task a" and Notion has yet to be told`,
		},
		"task known to the holder only": {
			state: claim.Writing, c: bare(attempt("Sandman", "a", now)),
			want:   claim.Fact{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "Oracle is claiming the task at this moment",
		},
		"the same name": {
			state: claim.Writing, c: attempt("Oracle", "a", now),
			want:   claim.Fact{Code: claim.CodeHeld, Title: "Task a", URL: "https://www.notion.so/a", Holder: "Oracle"},
			detail: "Oracle is claiming the task at this moment",
		},
		"limit": {
			state: claim.Held, c: attempt("Oracle", "b", now), limit: 1,
			want:   claim.Fact{Code: claim.CodeLimitReached, Title: "Task b", URL: "https://www.notion.so/b"},
			detail: "Oracle already holds as many tasks as it may (1)",
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
			_, refusal, err := j.Reserve(t.Context(), test.c, now, test.limit)
			if err != nil || refusal == nil {
				t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
			}
			want := test.want
			want.Kind, want.At, want.Task = claim.KindDenied, now, test.c.Task.ID
			want.Agent, want.Claim, want.Detail = test.c.Agent, test.c.ID, test.detail
			if want.Holder != "" {
				want.Against = holder.ID
			}
			got := events(t, j, journal.FactFilter{})
			same(t, "events", []claim.Fact{want}, got, cmpopts.IgnoreFields(claim.Fact{}, "ID"), anyFence)
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
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			first := grant(t, j, attempt("Oracle", "a", t0), t0)
			first.State, first.StaleAt = test.state, test.staleAt
			save(t, j, first)
			second := attempt("Sandman", "a", test.now)
			_, refusal, err := j.Reserve(t.Context(), second, test.now, 0)
			do(t, err)
			want, wantLive := &claim.Refusal{Holder: &first}, []claim.Hold{first}
			if test.want {
				want, wantLive = nil, append(wantLive, second)
			}
			same(t, "refusal", want, refusal, anyFence)
			same(t, "live claims", wantLive, live(t, j), anyFence)
		})
	}
}

func TestOneOfManyTakesOver(t *testing.T) {
	j := newJournal(t)
	stale := grant(t, j, attempt("Oracle", "a", t0), t0)
	var refusals [20]*claim.Refusal
	race(len(refusals), func(i int) {
		var err error
		_, refusals[i], err = j.Reserve(t.Context(), attempt(fmt.Sprint(i), "a", stale.StaleAt), stale.StaleAt, 0)
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
	holder := func(t *testing.T, j *journal.Journal, now time.Time) *claim.Hold {
		_, refusal, err := j.Reserve(t.Context(), attempt("probe", "a", now), now, 0)
		do(t, err)
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
	for _, at := range []time.Time{now, renewed.StaleAt} { // the second does not go stale with the first
		if got := holder(t, j, at); got == nil || got.ID != second.ID {
			t.Errorf("after the first was saved as held, the task is with %+v, want the second", got)
		}
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

// abandoned is what is left of the attempt c.
func abandoned(c claim.Hold) claim.Mark {
	return claim.Mark{
		ID: c.ID, Why: claim.Withdrawn, Of: c.ID, Agent: c.Agent, Task: c.Task, State: claim.Abandoned, Made: c.Reserved, Due: c.Reserved,
	}
}

// What is left of an abandoned attempt keeps nobody from its task.
func TestAbandonedAttemptsFreeTheTask(t *testing.T) {
	j := newJournal(t)
	first := attempt("Oracle", "a", t0)
	reserve(t, j, first, t0)
	if _, refusal, err := j.Reserve(t.Context(), attempt("Sandman", "a", t0), t0, 0); err != nil || refusal == nil {
		t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
	}
	m := abandoned(first)
	do(t, j.Save(t.Context(), claim.Change{Holds: []claim.Hold{ended(first, claim.EndNotGranted, t0)}, Marks: []claim.Mark{m}}))
	second := attempt("Sandman", "a", t0)
	reserve(t, j, second, t0)
	m.State = claim.Voided
	do(t, j.Save(t.Context(), claim.Change{Marks: []claim.Mark{m}})) // takes nothing from the second
	if _, refusal, err := j.Reserve(t.Context(), attempt("Merlin", "a", t0), t0, 0); err != nil || refusal == nil || refusal.Holder.ID != second.ID {
		t.Errorf("Reserve = %+v, %v, want a refusal because of the second", refusal, err)
	}
	holds, marks, err := j.Live(t.Context())
	do(t, err)
	same(t, "live claims", []claim.Hold{second}, holds, anyFence)
	same(t, "live marks", []claim.Mark{m}, marks)
	last := events(t, j, journal.FactFilter{Claim: first.ID})
	if len(last) != 1 || last[0].Kind != claim.KindContested || last[0].Count != 1 {
		t.Errorf("events = %+v, want its one denial summed up", last)
	}
}

// Renewing moves the moment at which others may take over.
func TestSaveMovesStaleAt(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Oracle", "a", t0), t0)
	renewed := c
	renewed.StaleAt = c.StaleAt.Add(time.Hour)
	save(t, j, renewed)
	_, refusal, err := j.Reserve(t.Context(), attempt("Sandman", "a", c.StaleAt), c.StaleAt, 0)
	do(t, err)
	same(t, "refusal", &claim.Refusal{Holder: &renewed}, refusal, anyFence)
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
		if _, refusal, err := j.Reserve(t.Context(), attempt(agent, "a", t0), t0, 0); err != nil || refusal == nil {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
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
		if _, refusal, err := j.Reserve(t.Context(), attempt(agent, "a", at), at, 0); err != nil || refusal == nil {
			t.Fatalf("Reserve = %v, %v, want a refusal", refusal, err)
		}
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

// model is what a ledger does, in the plainest way: the claims that live, and
// which of them has which task.
type model struct {
	live    map[claim.ID]claim.Hold
	holders map[task.ID]claim.ID
}

// free reports whether a new claim may have the task.
func (m *model) free(id task.ID, now time.Time) bool {
	holder, taken := m.live[m.holders[id]]
	return !taken || holder.State == claim.Held && !now.Before(holder.StaleAt)
}

func (m *model) reserve(c claim.Hold, now time.Time, limit int) *claim.Refusal {
	if !m.free(c.Task.ID, now) {
		holder := m.live[m.holders[c.Task.ID]]
		return &claim.Refusal{Holder: &holder}
	}
	others := 0
	for id, holder := range m.holders {
		if id != c.Task.ID && m.live[holder].Agent == c.Agent {
			others++
		}
	}
	if limit > 0 && others >= limit {
		return &claim.Refusal{Limit: true}
	}
	m.live[c.ID], m.holders[c.Task.ID] = c, c.ID
	return nil
}

func (m *model) save(c claim.Hold) {
	holder, taken := m.holders[c.Task.ID]
	m.live[c.ID] = c
	switch c.State {
	case claim.Writing, claim.Held, claim.Finishing:
		if !taken {
			m.holders[c.Task.ID] = c.ID
		}
		return
	case claim.Ended:
		delete(m.live, c.ID)
	}
	if holder == c.ID {
		delete(m.holders, c.Task.ID)
	}
}

// list is the live claims, oldest first.
func (m *model) list() []claim.Hold {
	var out []claim.Hold
	for _, c := range m.live {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b claim.Hold) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// Whatever the order of calls, the journal answers as the model does.
func TestLedgerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, err := journaltest.Open(t.Context(), path)
		do(rt, err)
		defer func() {
			do(rt, j.Close())
			retire(rt, path)
		}()
		m := model{live: map[claim.ID]claim.Hold{}, holders: map[task.ID]claim.ID{}}
		now := t0
		states := []claim.State{
			claim.Writing, claim.Held, claim.Held, claim.Held, claim.Finishing, claim.Ended, claim.Ended,
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if diff := cmp.Diff(m.list(), live(t, j), anyFence); diff != "" {
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
				do(rt, err)
				if diff := cmp.Diff(m.reserve(c, now, limit), got, anyFence); diff != "" {
					rt.Fatalf("refusal (-want +got):\n%s", diff)
				}
			},
			"save": func(rt *rapid.T) {
				known := m.list()
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
				do(rt, j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}}))
				m.save(c)
			},
		})
	})
}
