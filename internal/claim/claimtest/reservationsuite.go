package claimtest

import (
	"fmt"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

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

func (t *ledgerTest) oneOfMany() {
	for n := range 5 {
		var claims []claim.Hold
		for i := range 20 {
			claims = append(claims, t.attempt(fmt.Sprint("agent ", i), n))
		}
		won := t.crowd(ledgerTime, 0, claims...)
		if len(won) != 1 {
			t.Fatalf("%d of 20 got the task, want 1", len(won))
		}
		if c, err := t.Hold(t.ctx, won[0]); err != nil || c.State != claim.Reserved {
			t.Errorf("the winner is %q, error %v; want it reserved", c.State, err)
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
		if diff := cmp.Diff(holder, *refusal.Holder); diff != "" {
			t.Errorf("holder (-want +got):\n%s", diff)
		}
		events := t.events()
		got := events[len(events)-1]
		want := claim.Fact{
			ID: got.ID, At: c.Reserved, Kind: claim.KindDenied, Code: claim.CodeHeld,
			Task: c.Task.ID, Title: "Task 1", URL: "https://notion.example/t",
			Agent: agent, Claim: c.ID, Holder: "Sandman", Against: holder.ID, Expires: holder.ExpiresAt(), Detail: got.Detail,
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Detail == "" || got.ID == "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	t.wants(holder)
}

func (t *ledgerTest) limit() {
	first := t.reserve(t.attempt("Sandman", 1))
	second := t.reserve(t.attempt("Sandman", 2))
	t.reserve(t.attempt("Oracle", 3))

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
	again := t.attempt("Sandman", 3)
	if refusal := t.try(again, again.Reserved, 2); refusal == nil || refusal.Holder == nil || refusal.Holder.Agent != "Oracle" {
		t.Errorf("refusal %+v, want Oracle as holder", refusal)
	}
	if refusal := t.try(t.attempt("Sandman", 4), ledgerTime, 3); refusal != nil {
		t.Errorf("below the limit: refusal %+v", refusal)
	}

	// Ended claims do not count.
	t.save(ended(first))
	t.save(ended(second))
	if refusal := t.try(t.attempt("Sandman", 5), ledgerTime, 2); refusal != nil {
		t.Errorf("with one task left: refusal %+v", refusal)
	}
	// An agent's own stale claim does not count when it takes the task over.
	own := held(t.reserve(t.attempt("Hypnos", 6)))
	t.save(own)
	if refusal := t.try(t.attempt("Hypnos", 6), own.StaleAt, 1); refusal != nil {
		t.Errorf("instead of one's own stale claim: refusal %+v", refusal)
	}

	var claims []claim.Hold
	for n := range 10 {
		claims = append(claims, t.attempt("Morpheus", 10+n))
	}
	if won := t.crowd(ledgerTime, 3, claims...); len(won) != 3 {
		t.Errorf("an agent got %d tasks at once, want 3", len(won))
	}
}

func (t *ledgerTest) states() {
	for n, state := range []claim.State{
		claim.Reserved, claim.Writing, claim.Held, claim.Finishing, claim.Ended,
	} {
		c := held(t.reserve(t.attempt("Sandman", n)))
		c.State = state
		if state == claim.Ended {
			c = ended(c)
		}
		t.save(c)
		refusal := t.try(t.attempt("Oracle", n), ledgerTime, 0)
		if reserves, want := refusal != nil, state != claim.Ended; reserves != want {
			t.Errorf("a claim that is %s reserves its task: %v, want %v", state, reserves, want)
		}
		if state != claim.Ended {
			continue
		}
		if refusal := t.try(t.attempt("Hypnos", n), ledgerTime, 0); refusal == nil || refusal.Holder == nil || refusal.Holder.Agent != "Oracle" {
			t.Errorf("after a claim that is %s: refusal %+v, want Oracle as holder", state, refusal)
		}
	}
}

func (t *ledgerTest) takeOver() {
	c := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(c)
	if refusal := t.try(t.attempt("Oracle", 1), c.StaleAt.Add(-time.Millisecond), 0); refusal == nil {
		t.Fatal("taken over before it was stale")
	}
	// Renewed, it is stale later.
	before := c.StaleAt
	c.StaleAt = before.Add(10 * time.Minute)
	t.save(c)
	if refusal := t.try(t.attempt("Oracle", 1), before, 0); refusal == nil {
		t.Fatal("taken over although it was renewed")
	}
	for n, state := range []claim.State{claim.Reserved, claim.Writing, claim.Finishing} {
		other := held(t.reserve(t.attempt("Sandman", 10+n)))
		other.State = state
		t.save(other)
		if refusal := t.try(t.attempt("Oracle", 10+n), c.StaleAt.Add(time.Hour), 0); refusal == nil {
			t.Errorf("a claim that is %s was taken over", state)
		}
	}
	if refusal := t.try(t.attempt("Oracle", 1), c.StaleAt, 0); refusal != nil {
		t.Fatalf("at StaleAt: refusal %+v", refusal)
	}
	t.wants(c) // only the protocol ends the record
}

func (t *ledgerTest) oneTakesOver() {
	c := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(c)
	var claims []claim.Hold
	for i := range 20 {
		claims = append(claims, t.attempt(fmt.Sprint("agent ", i), 1))
	}
	if won := t.crowd(c.StaleAt, 0, claims...); len(won) != 1 {
		t.Errorf("%d of 20 took the task over, want 1", len(won))
	}
}

func (t *ledgerTest) takenOver() {
	old := held(t.reserve(t.attempt("Sandman", 1)))
	t.save(old)
	c := t.attempt("Oracle", 1)
	if refusal := t.try(c, old.StaleAt, 0); refusal != nil {
		t.Fatalf("at StaleAt: refusal %+v", refusal)
	}
	// While the new claim has the task, the old one can neither get it back nor give it away.
	old.StaleAt = old.StaleAt.Add(time.Hour)
	t.save(old)
	if refusal := t.try(t.attempt("Hypnos", 1), ledgerTime, 0); refusal == nil || refusal.Holder.ID != c.ID {
		t.Errorf("refusal %+v, want the new claim as holder", refusal)
	}
	// When the new claim gives the task up, an old one that still lives has it again from its
	// next change on.
	t.save(ended(c))
	t.save(old)
	if refusal := t.try(t.attempt("Hypnos", 1), ledgerTime, 0); refusal == nil || refusal.Holder.ID != old.ID {
		t.Errorf("refusal %+v, want the old claim as holder", refusal)
	}
	newer := t.attempt("Oracle", 1)
	if refusal := t.try(newer, old.StaleAt, 0); refusal != nil {
		t.Fatalf("at StaleAt: refusal %+v", refusal)
	}
	t.save(ended(old))
	if refusal := t.try(t.attempt("Hypnos", 1), ledgerTime, 0); refusal == nil || refusal.Holder.ID != newer.ID {
		t.Errorf("refusal %+v, want the newer claim as holder", refusal)
	}
}
