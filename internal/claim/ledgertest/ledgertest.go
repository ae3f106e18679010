// Package ledgertest is the conformance suite of claim.Ledger, which the journal and the simulated ledger
// pass. Tests alone import it.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Suite tests the contract of claim.Ledger. open returns a new, empty ledger and a
// function that lists its recorded facts, oldest first.
func Suite(t *testing.T, open func(*testing.T) (claim.Ledger, func() []claim.Fact)) {
	for name, test := range map[string]func(*ledgerTest){
		"claims are kept as they are saved":       (*ledgerTest).keeps,
		"unknown claims":                          (*ledgerTest).unknown,
		"one of many gets a task":                 (*ledgerTest).oneOfMany,
		"a refusal names the holder":              (*ledgerTest).refusal,
		"the most tasks an agent may have":        (*ledgerTest).limit,
		"which states reserve a task":             (*ledgerTest).states,
		"stale claims are taken over":             (*ledgerTest).takeOver,
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
	do(t, err)
	return refusal
}

func (t *ledgerTest) save(c claim.Hold, events ...claim.Fact) claim.Hold {
	t.Helper()
	do(t, t.Save(t.ctx, claim.Change{Holds: []claim.Hold{c}, Facts: events}))
	return c
}

func (t *ledgerTest) wants(want claim.Hold) {
	t.Helper()
	got, err := t.Hold(t.ctx, want.ID)
	do(t, err)
	same(t, "claim", want, got)
}

// free tries to reserve a task that must be free.
func (t *ledgerTest) free(c claim.Hold, now time.Time, limit int) {
	t.Helper()
	if refusal := t.try(c, now, limit); refusal != nil {
		t.Errorf("%s, task %s: refusal %+v, want the task to be free", c.Agent, c.Task.ID, refusal)
	}
}

// taken tries to reserve a task that must be refused for a holder, which is any claim if id is empty.
func (t *ledgerTest) taken(c claim.Hold, now time.Time, limit int, id claim.ID) {
	t.Helper()
	if refusal := t.try(c, now, limit); refusal == nil || refusal.Holder == nil || id != "" && refusal.Holder.ID != id {
		t.Errorf("%s, task %s: refusal %+v, want claim %s as holder", c.Agent, c.Task.ID, refusal, id)
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
	t.free(t.attempt("Oracle", 1), ledgerTime, 0)
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
	same(t, "event", released, events[n-2])
	got := events[n-1]
	want := claim.Contested(c, c.Ended, 30, []string{"Hypnos", "Morpheus", "Oracle"})
	want.ID = got.ID
	same(t, "sum", want, got)

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
	do(t, err)
	same(t, "live claims", want, got)
	same(t, "live marks", marks, left)
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
	do(t, t.Save(t.ctx, claim.Change{Marks: []claim.Mark{m}}))
	got, err := t.Mark(t.ctx, m.ID)
	do(t, err)
	same(t, "mark", m, got)
}

func (t *ledgerTest) marks() {
	if _, err := t.Mark(t.ctx, claim.NewID(ledgerTime)); !errors.Is(err, claim.ErrUnknownClaim) {
		t.Errorf("unknown mark: error %v, want %v", err, claim.ErrUnknownClaim)
	}
	// The mark of an attempt has its id, and does not reserve the task.
	c := t.reserve(t.attempt("Ghost", 1))
	m := t.mark(1)
	m.ID = c.ID
	do(t, t.Save(t.ctx, claim.Change{Holds: []claim.Hold{ended(c)}, Marks: []claim.Mark{m}}))
	t.wants(ended(c))
	t.saveMark(m)
	next := t.reserve(t.attempt("Oracle", 1))
	m.State, m.Due = claim.Voided, ledgerTime.Add(time.Hour)
	t.saveMark(m)
	t.taken(t.attempt("Hypnos", 1), ledgerTime, 0, next.ID)
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
		do(t, t.Save(t.ctx, claim.Change{Facts: events}))
	}
	same(t, "events", []claim.Fact{e, f}, t.events())
}

// crowd reserves for all claims at the same time, and returns the ids of those not refused.
func (t *ledgerTest) crowd(now time.Time, limit int, claims ...claim.Hold) []claim.ID {
	t.Helper()
	var mu sync.Mutex
	var won []claim.ID
	var wg sync.WaitGroup
	for _, c := range claims {
		wg.Go(func() {
			_, refusal, err := t.Reserve(t.ctx, c, now, limit)
			if err != nil {
				t.Error(err)
			} else if refusal == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, c.ID)
			}
		})
	}
	wg.Wait()
	return won
}

// oneOfMany has many come for a free task at once, and then for a stale one.
func (t *ledgerTest) oneOfMany() {
	for n := range 5 {
		for _, now := range []time.Time{ledgerTime, held(claim.Hold{}).StaleAt} {
			var claims []claim.Hold
			for i := range 20 {
				claims = append(claims, t.attempt(fmt.Sprint("agent ", i), n))
			}
			won := t.crowd(now, 0, claims...)
			if len(won) != 1 {
				t.Fatalf("%d of 20 got the task, want 1", len(won))
			}
			c, err := t.Hold(t.ctx, won[0])
			if err != nil || c.State != claim.Reserved {
				t.Errorf("the winner is %q, error %v; want it reserved", c.State, err)
			}
			t.save(held(c))
		}
	}
}

func (t *ledgerTest) refusal() {
	holder := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(holder)
	for _, agent := range []string{"Oracle", "Sandman"} {
		c := t.attempt(agent, 1)
		c.Task = task.Task{ID: c.Task.ID} // no more may be known
		refusal := t.try(c, c.Reserved, 0)
		if refusal == nil || refusal.Limit || refusal.Holder == nil {
			t.Fatalf("%s: refusal %+v, want one that names the holder", agent, refusal)
		}
		same(t, "holder", holder, *refusal.Holder)
		events := t.events()
		got := events[len(events)-1]
		want := claim.Fact{
			ID: got.ID, At: c.Reserved, Kind: claim.KindDenied, Code: claim.CodeHeld,
			Task: c.Task.ID, Title: "Task 1", URL: "https://notion.example/t",
			Agent: agent, Claim: c.ID, Holder: "Sandman", Against: holder.ID, Expires: holder.ExpiresAt(), Detail: got.Detail,
		}
		if same(t, "event", want, got); got.Detail == "" || got.ID == "" {
			t.Errorf("event %+v has no detail, or no id", got)
		}
	}
	t.wants(holder)
}

func (t *ledgerTest) limit() {
	first := t.reserve(t.attempt("Sandman", 1))
	second := t.reserve(t.attempt("Sandman", 2))
	others := t.reserve(t.attempt("Oracle", 3))

	third := t.attempt("Sandman", 4)
	refusal := t.try(third, third.Reserved, 2)
	if refusal == nil || !refusal.Limit || refusal.Holder != nil {
		t.Fatalf("refusal %+v, want the limit", refusal)
	}
	events := t.events()
	if got := events[len(events)-1]; got.Kind != claim.KindDenied || got.Code != claim.CodeLimitReached || got.Against != "" || got.Claim != third.ID {
		t.Errorf("event %+v, want a denial by the limit", got)
	}
	// A holder is the better reason, and a task that was refused counts for nobody's limit.
	t.taken(t.attempt("Sandman", 3), ledgerTime, 2, others.ID)
	t.free(t.attempt("Sandman", 4), ledgerTime, 3)

	// Ended claims do not count.
	t.save(ended(first))
	t.save(ended(second))
	t.free(t.attempt("Sandman", 5), ledgerTime, 2)
	// An agent's own stale claim does not count when it takes the task over.
	own := held(t.reserve(t.attempt("Hypnos", 6)))
	t.save(own)
	t.free(t.attempt("Hypnos", 6), own.StaleAt, 1)

	var claims []claim.Hold
	for n := range 10 {
		claims = append(claims, t.attempt("Morpheus", 10+n))
	}
	if won := t.crowd(ledgerTime, 3, claims...); len(won) != 3 {
		t.Errorf("an agent got %d tasks at once, want 3", len(won))
	}
}

func (t *ledgerTest) states() {
	for n, state := range []claim.State{claim.Reserved, claim.Writing, claim.Held, claim.Finishing} {
		c := held(t.reserve(t.attempt("Sandman", n)))
		c.State = state
		t.save(c)
		t.taken(t.attempt("Oracle", n), ledgerTime, 0, c.ID)
		if state != claim.Held { // those that are become stale
			t.taken(t.attempt("Oracle", n), c.StaleAt.Add(time.Hour), 0, c.ID)
		}
		t.save(ended(c))
		next := t.reserve(t.attempt("Oracle", n))
		t.taken(t.attempt("Hypnos", n), ledgerTime, 0, next.ID)
	}
}

func (t *ledgerTest) takeOver() {
	c := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(c)
	t.taken(t.attempt("Oracle", 1), c.StaleAt.Add(-time.Millisecond), 0, c.ID)
	// Renewed, it is stale later.
	before := c.StaleAt
	c.StaleAt = before.Add(10 * time.Minute)
	t.save(c)
	t.taken(t.attempt("Oracle", 1), before, 0, c.ID)
	t.free(t.attempt("Oracle", 1), c.StaleAt, 0)
	for n, never := range []time.Time{{}, c.StaleAt.Add(500)} { // half a microsecond later
		other := held(t.reserve(t.attempt("Sandman", 2+n)))
		other.StaleAt = never
		t.save(other)
		t.taken(t.attempt("Oracle", 2+n), c.StaleAt.Add(400), 0, other.ID)
	}
	t.wants(c) // only the protocol ends the record
}

func (t *ledgerTest) takenOver() {
	old := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(old)
	c := t.attempt("Oracle", 1)
	t.free(c, old.StaleAt, 0)
	// While the new claim has the task, the old one can neither get it back nor give it away.
	old.StaleAt = old.StaleAt.Add(time.Hour)
	t.save(old)
	t.taken(t.attempt("Hypnos", 1), ledgerTime, 0, c.ID)
	t.taken(t.attempt("Hypnos", 1), old.StaleAt, 0, c.ID)
	// When the new claim gives the task up, an old one that still lives has it again from its
	// next change on.
	t.save(ended(c))
	t.save(old)
	t.taken(t.attempt("Hypnos", 1), ledgerTime, 0, old.ID)
	newer := t.attempt("Oracle", 1)
	t.free(newer, old.StaleAt, 0)
	t.save(ended(old))
	t.taken(t.attempt("Hypnos", 1), ledgerTime, 0, newer.ID)
}

// tries checks that the tries at a task are kept until a fact says that they are over.
func (t *ledgerTest) tries() {
	wants := func(n int, want ...claim.Try) {
		t.Helper()
		got, err := t.Tries(t.ctx, pageID(n))
		if err != nil || len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
			t.Errorf("tries at task %d: %+v, %v; want %+v", n, got, err, want)
		}
	}
	made := 0
	event := func(n int, kind claim.Kind, tried claim.Tried) claim.Fact {
		made++
		at := ledgerTime.Add(time.Duration(made) * time.Minute)
		return claim.Fact{ID: claim.NewFactID(at), At: at, Kind: kind, Task: pageID(n), Agent: "Sandman", Holder: "Ghost", Summary: "no ladder", Tried: tried}
	}
	record := func(e claim.Fact) {
		t.Helper()
		do(t, t.Save(t.ctx, claim.Change{Facts: []claim.Fact{e}}))
	}
	wants(1)
	failed := event(1, claim.KindFailed, claim.TriedAgain)
	t.save(ended(held(t.reserve(t.attempt("Sandman", 1)))), failed)
	swept, overridden := event(1, claim.KindSwept, claim.TriedAgain), event(1, claim.KindOverridden, claim.TriedAgain)
	record(swept)
	record(overridden)
	record(overridden) // recorded twice, counted once
	record(event(2, claim.KindFailed, claim.TriedOver))
	record(event(1, claim.KindGranted, ""))
	wants(1,
		claim.Try{Agent: "Sandman", At: failed.At, Failed: true, Why: "no ladder"},
		claim.Try{Agent: "Ghost", At: swept.At, Why: "no ladder"},
		claim.Try{Agent: "Ghost", At: overridden.At, Why: "no ladder"})
	wants(2)
	record(event(1, claim.KindReopened, claim.TriedOver))
	wants(1)
}

// do fails the test at once if there was an error.
func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same checks what came of something.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
