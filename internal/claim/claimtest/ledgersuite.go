package claimtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// LedgerSuite tests the contract of claim.Ledger. open returns a new, empty ledger and a
// function that lists its recorded facts, oldest first.
func LedgerSuite(t *testing.T, open func(*testing.T) (claim.Ledger, func() []claim.Fact)) {
	for name, test := range map[string]func(*ledgerTest){
		"claims are kept as they are saved":       (*ledgerTest).keeps,
		"unknown claims":                          (*ledgerTest).unknown,
		"one of many gets a task":                 (*ledgerTest).oneOfMany,
		"a refusal names the holder":              (*ledgerTest).refusal,
		"the most tasks an agent may have":        (*ledgerTest).limit,
		"which states reserve a task":             (*ledgerTest).states,
		"stale claims are taken over":             (*ledgerTest).takeOver,
		"one of many takes over":                  (*ledgerTest).oneTakesOver,
		"what was taken over":                     (*ledgerTest).takenOver,
		"ended claims stay as they are":           (*ledgerTest).ended,
		"marks are kept as they are saved":        (*ledgerTest).marks,
		"all of a change, or nothing":             (*ledgerTest).whole,
		"refusals are summed up at a claim's end": (*ledgerTest).contested,
		"live claims, oldest first":               (*ledgerTest).live,
		"events without a claim":                  (*ledgerTest).record,
		"tries, until they are over":              (*ledgerTest).tries,
	} {
		t.Run(name, func(t *testing.T) {
			ledger, events := open(t)
			test(&ledgerTest{T: t, Ledger: ledger, events: events, ctx: t.Context()})
		})
	}
}

type ledgerTest struct {
	*testing.T
	claim.Ledger
	events func() []claim.Fact
	ctx    context.Context
	minted int
	fence  int64 // the last one
}

// ledgerTime is when the suite's claims begin: not on the minute, and with milliseconds, the
// precision of ids.
var ledgerTime = time.Date(2026, 3, 1, 12, 0, 42, 123_000_000, time.UTC)

func pageID(n int) task.ID { return task.ID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }

// attempt returns a new claim of the agent on page n, each a millisecond later than the last.
func (t *ledgerTest) attempt(agent string, n int) claim.Hold {
	t.minted++
	now := ledgerTime.Add(time.Duration(t.minted) * time.Millisecond)
	return claim.Hold{
		ID: claim.NewID(now), Agent: agent, State: claim.Reserved, Reserved: now, Lease: claim.Lease{Timeout: 30 * time.Minute},
		Task: task.Task{ID: pageID(n), Title: fmt.Sprintf("Task %d", n), URL: "https://notion.example/t", Status: task.Open},
	}
}

// held returns c as granted.
func held(c claim.Hold) claim.Hold {
	c.State, c.Started, c.ClaimedAt, c.Heartbeat = claim.Held, ledgerTime, ledgerTime, ledgerTime
	c.StaleAt = ledgerTime.Add(31 * time.Minute)
	c.Task.Status, c.Task.ClaimedBy, c.Task.ClaimedAt, c.Task.Token = task.InProgress, c.Agent, ledgerTime.Truncate(time.Minute), string(c.ID)
	return c
}

// ended returns c as released.
func ended(c claim.Hold) claim.Hold {
	c.State, c.Ending, c.Ended = claim.Ended, claim.EndReleased, ledgerTime.Add(time.Hour)
	return c
}

// reserve reserves the task of c, which must succeed.
func (t *ledgerTest) reserve(c claim.Hold) claim.Hold {
	t.Helper()
	fence, refusal, err := t.Reserve(t.ctx, c, c.Reserved, 0)
	if err != nil || refusal != nil {
		t.Fatalf("%s was refused task %s: %+v, %v", c.Agent, c.Task.ID, refusal, err)
	}
	if fence <= t.fence {
		t.Errorf("claim %s has fence %d, and one before it %d", c.ID, fence, t.fence)
	}
	t.fence, c.Fence = fence, fence
	return c
}

func (t *ledgerTest) try(c claim.Hold, now time.Time, limit int) *claim.Refusal {
	t.Helper()
	_, refusal, err := t.Reserve(t.ctx, c, now, limit)
	if err != nil {
		t.Fatal(err)
	}
	return refusal
}

func (t *ledgerTest) save(c claim.Hold, events ...claim.Fact) claim.Hold {
	t.Helper()
	if err := t.Save(t.ctx, claim.Change{Holds: []claim.Hold{c}, Facts: events}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (t *ledgerTest) wants(want claim.Hold) {
	t.Helper()
	got, err := t.Hold(t.ctx, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claim (-saved +kept):\n%s", diff)
	}
}

func (t *ledgerTest) keeps() {
	c := t.reserve(t.attempt("Sandman", 1))
	t.wants(c)
	full := func(c claim.Hold) claim.Hold {
		c = held(c)
		c.State, c.Requested, c.Former = claim.Finishing, 45*time.Minute, "Ghost"
		c.Task.Timeout, c.Task.DependsOn, c.Task.Priority = time.Hour, []task.ID{pageID(2), pageID(3)}, task.High
		c.Task.Created, c.Task.Edited = ledgerTime.Add(-time.Hour), ledgerTime.Truncate(time.Minute)
		c.Suspect, c.Due, c.Detail = ledgerTime, ledgerTime.Add(time.Minute), "somebody claimed the task over it"
		c.Finish = &claim.Finish{As: claim.EndFailed, Summary: "no\nladder", Reopen: true, At: ledgerTime.Add(time.Hour)}
		return c
	}
	want := full(c)
	handedIn := t.save(full(c))
	t.wants(want)

	// The ledger copies what it takes and what it returns.
	handedIn.Finish.Summary, handedIn.Task.DependsOn[0] = "ladder", pageID(9)
	t.wants(want)
	handedOut, _ := t.Hold(t.ctx, want.ID)
	handedOut.Finish.Summary, handedOut.Task.DependsOn[0] = "ladder", pageID(9)
	t.wants(want)
	t.wants(t.save(ended(want)))
}

func (t *ledgerTest) unknown() {
	for _, id := range []claim.ID{"", "x", claim.NewID(ledgerTime)} {
		if _, err := t.Hold(t.ctx, id); !errors.Is(err, claim.ErrUnknownClaim) {
			t.Errorf("claim %q: error %v, want %v", id, err, claim.ErrUnknownClaim)
		}
	}
	// An id stands for one claim.
	c := t.reserve(t.attempt("Sandman", 2))
	other := t.attempt("Oracle", 3)
	other.ID = c.ID
	if _, _, err := t.Reserve(t.ctx, other, ledgerTime, 0); err == nil {
		t.Error("two claims of one id were reserved")
	}
	t.wants(c)
	t.reserve(t.attempt("Oracle", 3))
	// An attempt that was refused is an event, not a claim.
	t.reserve(t.attempt("Sandman", 1))
	refused := t.attempt("Oracle", 1)
	t.try(refused, refused.Reserved, 0)
	if _, err := t.Hold(t.ctx, refused.ID); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("a refused attempt: error %v, want %v", err, claim.ErrUnknownClaim)
	}
}

func (t *ledgerTest) ended() {
	c := ended(held(t.reserve(t.attempt("Sandman", 1))))
	t.save(c)
	for _, state := range []claim.State{claim.Writing, claim.Held, claim.Finishing} {
		again := held(c)
		again.State = state
		if err := t.Save(t.ctx, claim.Change{
			Holds: []claim.Hold{again}, Facts: []claim.Fact{{ID: claim.NewFactID(ledgerTime), At: ledgerTime, Kind: claim.KindRenewed}},
		}); err == nil {
			t.Errorf("an ended claim was saved as %s", state)
		}
	}
	t.wants(c)
	if n := len(t.events()); n != 0 {
		t.Errorf("%d events were kept of changes that were refused", n)
	}
	if refusal := t.try(t.attempt("Oracle", 1), ledgerTime, 0); refusal != nil {
		t.Errorf("refusal %+v, want the task to be free", refusal)
	}
}

func (t *ledgerTest) contested() {
	c := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(c)
	var rivals []claim.Hold
	for i := range 30 {
		rivals = append(rivals, t.attempt([]string{"Oracle", "Hypnos", "Morpheus"}[i%3], 1))
	}
	t.crowd(ledgerTime, 0, rivals...)
	c = ended(c)
	released := claim.Fact{ID: claim.NewFactID(c.Ended), At: c.Ended, Kind: claim.KindReleased, Task: c.Task.ID, Agent: c.Agent, Claim: c.ID}
	t.save(c, released)
	events := t.events()
	denied, n := 0, len(events)
	for _, e := range events {
		if e.Kind == claim.KindDenied { // one each, or several of an agent in one
			denied += max(1, e.Count)
		}
	}
	if denied != 30 || n < 5 || events[n-2].Kind == claim.KindDenied {
		t.Fatalf("%d denials in %d events, want 30, then the end and its sum", denied, n)
	}
	if diff := cmp.Diff(released, events[n-2]); diff != "" {
		t.Errorf("event (-saved +kept):\n%s", diff)
	}
	got := events[n-1]
	want := claim.Contested(c, c.Ended, 30, []string{"Hypnos", "Morpheus", "Oracle"})
	want.ID = got.ID
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}

	// A claim that nobody contested has no such event.
	t.save(ended(t.reserve(t.attempt("Oracle", 1))))
	if got := len(t.events()); got != n {
		t.Errorf("%d events, want no more than %d", got, n)
	}
}

func (t *ledgerTest) live() {
	var want []claim.Hold
	for n := range 7 {
		c := t.reserve(t.attempt("Sandman", n))
		switch n {
		case 1:
			c = t.save(held(c))
		case 2:
			c.State = claim.Finishing
			t.save(c)
		case 3:
			t.save(ended(c))
			continue
		}
		want = append(want, c)
	}
	var marks []claim.Mark
	for n := range 4 {
		m := t.mark(n)
		if n == 2 {
			m.State, m.Ended = claim.Gone, ledgerTime
		} else {
			marks = append(marks, m)
		}
		t.saveMark(m)
	}
	got, left, err := t.Live(t.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live claims (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(marks, left); diff != "" {
		t.Errorf("live marks (-want +got):\n%s", diff)
	}
}

// mark returns a mark on page n with all fields set.
func (t *ledgerTest) mark(n int) claim.Mark {
	c := t.attempt("Ghost", n)
	return claim.Mark{
		ID: c.ID, Why: claim.Swept, Of: claim.NewID(ledgerTime), Agent: c.Agent, Task: c.Task, State: claim.Abandoned, Made: c.Reserved,
		Lease: claim.Lease{ClaimedAt: ledgerTime, Requested: time.Hour}, Assigned: true, Due: ledgerTime.Add(time.Minute),
		Reason: "its lease ran out", History: "tried twice", By: "user 1000",
	}
}

func (t *ledgerTest) saveMark(m claim.Mark) {
	t.Helper()
	if err := t.Save(t.ctx, claim.Change{Marks: []claim.Mark{m}}); err != nil {
		t.Fatal(err)
	}
	got, err := t.Mark(t.ctx, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("mark (-saved +kept):\n%s", diff)
	}
}

func (t *ledgerTest) marks() {
	if _, err := t.Mark(t.ctx, claim.NewID(ledgerTime)); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("unknown mark: error %v, want %v", err, claim.ErrUnknownClaim)
	}
	// The mark of an attempt has its id, and does not reserve the task.
	c := t.reserve(t.attempt("Ghost", 1))
	m := t.mark(1)
	m.ID = c.ID
	if err := t.Save(t.ctx, claim.Change{Holds: []claim.Hold{ended(c)}, Marks: []claim.Mark{m}}); err != nil {
		t.Fatal(err)
	}
	t.wants(ended(c))
	t.saveMark(m)
	if refusal := t.try(t.attempt("Oracle", 1), ledgerTime, 0); refusal != nil {
		t.Errorf("refusal %+v, want the task to be free", refusal)
	}
	m.State, m.Due = claim.Voided, ledgerTime.Add(time.Hour)
	t.saveMark(m)
	m.State, m.Due, m.Ended = claim.Gone, time.Time{}, ledgerTime.Add(time.Hour)
	t.saveMark(m)
	again := m
	again.State = claim.Voided
	if err := t.Save(t.ctx, claim.Change{Marks: []claim.Mark{again}}); err == nil {
		t.Error("a mark that had ended was saved in another state")
	}
}

func (t *ledgerTest) whole() {
	gone := ended(t.reserve(t.attempt("Sandman", 1)))
	t.save(gone)
	live := held(t.reserve(t.attempt("Sandman", 2)))
	m := t.mark(3)
	changed := live
	changed.Detail = "changed"
	fact := claim.Fact{ID: claim.NewFactID(ledgerTime), At: ledgerTime, Kind: claim.KindRenewed}
	t.save(live)
	if err := t.Save(t.ctx, claim.Change{
		Holds: []claim.Hold{changed, held(gone)}, Marks: []claim.Mark{m}, Facts: []claim.Fact{fact},
	}); err == nil {
		t.Fatal("an ended claim was saved as held")
	}
	t.wants(live)
	if _, err := t.Mark(t.ctx, m.ID); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("mark of a change that was refused: error %v, want %v", err, claim.ErrUnknownClaim)
	}
	if n := len(t.events()); n != 0 {
		t.Errorf("%d events were kept of a change that was refused", n)
	}
}

func (t *ledgerTest) record() {
	e := claim.Fact{
		ID: claim.NewFactID(ledgerTime), At: ledgerTime, Kind: claim.KindSwept, Task: pageID(1), Title: "Task 1", URL: "https://notion.example/t",
		Agent: "Ghost", Claim: claim.NewID(ledgerTime), Holder: "Ghost", Remote: true, Detail: "its lease ran out",
		Started: ledgerTime, Finished: ledgerTime.Add(time.Hour), Summary: "much", Count: 3, Names: []string{"a", "b"},
	}
	f := claim.Fact{ID: claim.NewFactID(ledgerTime.Add(time.Second)), At: ledgerTime.Add(time.Second), Kind: claim.KindConflict, Task: pageID(1)}
	for _, events := range [][]claim.Fact{nil, {e}, {e, f}} { // recorded facts do not change
		if err := t.Save(t.ctx, claim.Change{Facts: events}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]claim.Fact{e, f}, t.events()); diff != "" {
		t.Errorf("events (-recorded +kept):\n%s", diff)
	}
}
