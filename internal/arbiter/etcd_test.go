package arbiter_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/journal"
	"dibs/internal/task"
)

const (
	agentA, agentB = "Sandman", "Oracle"
	taskOne        = task.ID("11111111-1111-1111-1111-111111111111")
	taskTwo        = task.ID("22222222-2222-2222-2222-222222222222")
)

// member is a member of a cluster, with a journal of its own.
type member struct {
	*arbiter.Ledger
	journal *journal.Journal
	etcd    *arbiter.Etcd
	close   func()
}

// join makes a member with the journal of a folder.
func join(t *testing.T, endpoint, folder string, more ...string) *member {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(folder, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := arbiter.Open(t.Context(), arbiter.Cluster{Endpoints: append([]string{endpoint}, more...), Prefix: "/dibs", Workspace: "board", Name: "a"}, j, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	m := &member{journal: j, etcd: etcd}
	m.Ledger = arbiter.NewLedger(arbiter.Config{
		Ledger: j, Table: etcd, Member: etcd.Member(), Cluster: etcd.Marker, Stay: 10 * time.Second, Now: time.Now, Log: testLog(t),
	})
	m.close = sync.OnceFunc(func() {
		if err := errors.Join(etcd.Close(), j.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.close)
	return m
}

// attempt is a new claim of a task.
func attempt(agent string, id task.ID) claim.Claim {
	now := time.Now().Truncate(time.Millisecond).UTC()
	return claim.Claim{
		ID: claim.NewID(now), Agent: agent, State: claim.Reserved, Reserved: now,
		Lease: claim.Lease{Timeout: 30 * time.Minute}, Task: task.Task{ID: id, Title: "Mend the roof", Status: task.Open},
	}
}

// granted is c once it is held.
func granted(c claim.Claim) claim.Claim {
	c.State, c.Started, c.ClaimedAt, c.Heartbeat = claim.Held, c.Reserved, c.Reserved, c.Reserved
	c.StaleAt = c.ClaimedAt.Add(31 * time.Minute)
	return c
}

func (m *member) reserve(t *testing.T, c claim.Claim, limit int) *claim.Refusal {
	t.Helper()
	refusal, err := m.Reserve(t.Context(), c, c.Reserved, limit)
	if err != nil {
		t.Fatal(err)
	}
	return refusal
}

func (m *member) save(t *testing.T, c claim.Claim) claim.Claim {
	t.Helper()
	if err := m.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLedger(t *testing.T) {
	etcd := arbitertest.Start(t)
	n := 0
	claimtest.LedgerSuite(t, func(t *testing.T) (claim.Ledger, func() []claim.Event) {
		n++
		j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		c := arbiter.Cluster{Endpoints: []string{etcd.URL()}, Prefix: "/dibs", Workspace: fmt.Sprint("board ", n)}
		table, err := arbiter.Open(t.Context(), c, j, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(table.Close(), j.Close()); err != nil {
				t.Error(err)
			}
		})
		l := arbiter.NewLedger(arbiter.Config{
			Ledger: j, Table: table, Member: table.Member(), Cluster: table.Marker, Stay: 10 * time.Second,
			Now: func() time.Time { return time.Date(2026, 3, 1, 12, 40, 0, 0, time.UTC) },
		})
		return l, func() []claim.Event {
			events, err := j.Events(t.Context(), journal.EventFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return events
		}
	})
}

// What one member has the others are refused, with who has it and until when, and nothing is
// left of their attempts.
func TestHeldByAnotherMember(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())
	c := attempt(agentA, taskOne)
	if r := a.reserve(t, c, 0); r != nil {
		t.Fatalf("refused: %+v", r)
	}
	if r := b.reserve(t, attempt(agentB, taskOne), 0); r == nil || r.Holder == nil || r.Holder.Agent != agentA || r.Holder.State != claim.Reserved {
		t.Fatalf("while it is being claimed: %+v", r)
	}
	if err := a.Hold(t.Context(), &c); err != nil || c.Fence == 0 {
		t.Fatalf("fence %d, %v", c.Fence, err)
	}
	c = a.save(t, granted(c))
	rival := attempt(agentB, taskOne)
	r := b.reserve(t, rival, 0)
	if r == nil || r.Holder == nil || r.Holder.ID != c.ID || r.Holder.Agent != agentA || !r.Holder.ExpiresAt().Equal(c.ExpiresAt()) {
		t.Fatalf("refusal %+v, want the claim of %s", r, agentA)
	}
	live, err := b.Live(t.Context())
	if err != nil || len(live) != 0 {
		t.Errorf("left of a refused attempt: %+v, %v", live, err)
	}
	events, err := b.journal.Events(t.Context(), journal.EventFilter{Claim: rival.ID})
	if err != nil || len(events) != 1 || events[0].Code != claim.CodeHeld || events[0].Holder != agentA || events[0].Expires.IsZero() {
		t.Errorf("events %+v, %v", events, err)
	}

	done := c
	done.State, done.Ending, done.Ended = claim.Ended, claim.EndReleased, time.Now()
	a.save(t, done)
	next := attempt(agentB, taskOne)
	if r := b.reserve(t, next, 0); r != nil {
		t.Fatalf("once it was given back: %+v", r)
	}
	if err := b.Hold(t.Context(), &next); err != nil || next.Fence <= c.Fence {
		t.Errorf("fence %d after %d, %v", next.Fence, c.Fence, err)
	}
	// The old claim cannot touch what it lost.
	var elsewhere *claim.Elsewhere
	if err := a.Hold(t.Context(), &c); !errors.As(err, &elsewhere) || elsewhere.Holder.Agent != agentB {
		t.Errorf("the claim that was given back holds the task: %v", err)
	}
}

// Of many who come at the same time one gets the task.
func TestOneOfManyMembers(t *testing.T) {
	etcd := arbitertest.Start(t)
	members := []*member{join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())}
	for n := range 5 {
		id := task.ID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
		var mu sync.Mutex
		won := 0
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				c := attempt(fmt.Sprint("agent ", i), id)
				refusal, err := members[i%3].Reserve(t.Context(), c, c.Reserved, 0)
				if err != nil {
					t.Error(err)
				}
				if err == nil && refusal == nil {
					mu.Lock()
					defer mu.Unlock()
					won++
				}
			})
		}
		if wg.Wait(); won != 1 {
			t.Errorf("%d of 24 got the task, want 1", won)
		}
	}
}

// The most tasks that an agent may have are counted over all members.
func TestLimitOverMembers(t *testing.T) {
	etcd := arbitertest.Start(t)
	members := []*member{join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())}
	var mu sync.Mutex
	var won []claim.Claim
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			c := attempt("Sand/man", task.ID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
			refusal, err := members[i%2].Reserve(t.Context(), c, c.Reserved, 3)
			if err != nil || refusal != nil && !refusal.Limit {
				t.Error(refusal, err)
			}
			if err == nil && refusal == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, c)
			}
		})
	}
	if wg.Wait(); len(won) != 3 {
		t.Fatalf("%d tasks for one agent, want 3", len(won))
	}
	other := attempt("Sand/man", won[0].Task.ID)
	for _, m := range members {
		if r := m.reserve(t, other, 3); r == nil || r.Holder == nil {
			t.Errorf("who has the task is the better reason: %+v", r)
		}
		other = attempt("Sand/man", won[0].Task.ID)
	}
	if r := members[0].reserve(t, attempt("Sand", taskOne), 3); r != nil {
		t.Errorf("another agent: %+v", r)
	}
}

// A request that is repeated under its key at another member gets no second claim, unless
// nothing came of the first; the same member goes by its own journal.
func TestRepeatedAtAnotherMember(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())
	keyed := func(agent string, id task.ID) claim.Claim {
		c := attempt(agent, id)
		c.Key = "key/1"
		return c
	}
	first := keyed(agentA, taskOne)
	if r := a.reserve(t, first, 0); r != nil {
		t.Fatal(r)
	}
	repeated := func(limit int) {
		t.Helper()
		again := keyed(agentA, taskTwo)
		_, err := b.Reserve(t.Context(), again, again.Reserved, limit)
		var denied *claim.Denied
		if !errors.As(err, &denied) || !denied.Repeated || denied.Holder != agentA || !strings.Contains(denied.Detail, string(first.ID)) {
			t.Fatalf("repeated elsewhere: %v", err)
		}
	}
	repeated(0)
	repeated(5)
	if r := b.reserve(t, keyed(agentB, taskTwo), 0); r != nil {
		t.Errorf("the key of another agent: %+v", r)
	}
	if r := a.reserve(t, keyed(agentA, "33333333-3333-3333-3333-333333333333"), 0); r != nil {
		t.Errorf("at the same member: %+v", r)
	}

	// A claim that ended as it should is remembered, one that came to nothing is not.
	next := keyed(agentA, taskOne)
	next.Key, next.Task.ID = "key/2", "44444444-4444-4444-4444-444444444444"
	if r := a.reserve(t, next, 0); r != nil {
		t.Fatal(r)
	}
	next.State, next.Ending, next.Ended = claim.Ended, claim.EndNotGranted, time.Now()
	a.save(t, next)
	elsewhere := keyed(agentA, next.Task.ID)
	elsewhere.Key = next.Key
	if r := b.reserve(t, elsewhere, 0); r != nil {
		t.Fatalf("after the first one came to nothing: %+v", r)
	}
	elsewhere.State, elsewhere.Ending, elsewhere.Ended = claim.Ended, claim.EndCompleted, time.Now()
	b.save(t, elsewhere)
	again := keyed(agentA, next.Task.ID)
	again.Key = next.Key
	var denied *claim.Denied
	if _, err := a.Reserve(t.Context(), again, again.Reserved, 0); !errors.As(err, &denied) || !denied.Repeated {
		t.Errorf("after it was completed elsewhere: %v", err)
	}
}

// A row is gone by itself when its time is over, and its claim can have the task again if
// nobody took it.
func TestRowEnds(t *testing.T) {
	etcd := arbitertest.Start(t)
	a := join(t, etcd.URL(), t.TempDir())
	row := arbiter.Row{Member: "m", Claim: attempt(agentA, taskOne)}
	first, err := a.etcd.Take(t.Context(), row, time.Second, 0)
	if err != nil || first.Fence == 0 {
		t.Fatal(first, err)
	}
	again, err := a.etcd.Take(t.Context(), row, time.Second, 0)
	if err != nil || again.Fence != first.Fence {
		t.Errorf("the same claim asked twice: %+v, %v", again, err)
	}
	wait(t, "the row ends", func() bool {
		rows, err := a.etcd.Rows(t.Context())
		return err == nil && len(rows) == 0
	})
	if kept, now, err := a.etcd.Keep(t.Context(), row, first.Fence, time.Minute); kept || now != nil || err != nil {
		t.Errorf("kept %v, now %+v, %v", kept, now, err)
	}
	if next, err := a.etcd.Take(t.Context(), row, time.Minute, 0); err != nil || next.Fence <= first.Fence {
		t.Errorf("fence %d after %d, %v", next.Fence, first.Fence, err)
	}
}

// wait waits for what has to come to pass.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timed out: ", what)
		}
	}
}
