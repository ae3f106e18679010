package relay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// run runs a test in a world with a few tasks and that many members, of which one leads.
func run(t *testing.T, members int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		for n := range 10 {
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Open})
		}
		time.Sleep(10 * time.Minute)
		for range members {
			w.start(0)
		}
		time.Sleep(5 * time.Second)
		if w.leader() == nil {
			t.Fatal("nobody leads")
		}
		w.board.requests()
		for _, m := range w.members {
			m.mu.Lock()
			m.told = nil
			m.mu.Unlock()
		}
		test(t, w)
	})
}

// However many members there are, one query an interval is made, and all know what it shows.
func TestIdleMembers(t *testing.T) {
	for _, n := range []int{1, 4, 16} {
		run(t, n, func(t *testing.T, w *world) {
			time.Sleep(10 * time.Minute)
			if asked := w.board.requests(); asked["query"] < 38 || asked["query"] > 41 || asked["list"]+asked["page"]+asked["check"] > 0 {
				t.Errorf("%d members asked %v in ten minutes", n, asked)
			}
			publications, bytes := w.room.Passed()
			if publications > 43 || bytes > publications*600 {
				t.Errorf("%d members: %d publications of %d bytes", n, publications, bytes)
			}
			w.board.edit(task.Task{ID: id(3), Title: "task 3", Status: task.Blocked})
			time.Sleep(interval + time.Second)
			if wrong := w.wrong(); len(wrong) > 0 {
				t.Errorf("%d members, after an edit: %v", n, wrong)
			}
			time.Sleep(2 * time.Minute)
			for _, m := range w.members {
				if !slices.Equal(m.changes(), []string{"task 3 BLOCKED"}) {
					t.Errorf("%s was told %q", m.name, m.changes())
				}
				if m.late() > 0 {
					t.Errorf("to %s something was overdue", m.name)
				}
				if s := m.Standing(); s.Old > interval+time.Second || s.Stale {
					t.Errorf("%s: %+v", m.name, s)
				}
			}
		})
	}
}

// When the leader is gone another one reads within ten seconds, no edit is missed, and none is
// told twice.
func TestLeaderIsGone(t *testing.T) {
	run(t, 4, func(t *testing.T, w *world) {
		gone := w.leader()
		for n := range 3 {
			time.Sleep(7 * time.Second)
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Blocked})
		}
		gone.kill()
		gone.over.Wait()
		w.board.edit(task.Task{ID: id(4), Title: "task 4", Status: task.Blocked})
		time.Sleep(10 * time.Second)
		if now := w.leader(); now == nil || now == gone {
			t.Fatal("nobody else leads")
		}
		if wrong := w.wrong(gone); len(wrong) > 0 {
			t.Errorf("after ten seconds: %v", wrong)
		}
		time.Sleep(5 * time.Minute)
		if asked := w.board.requests(); asked["query"] > 25 || asked["list"]+asked["page"] > 0 {
			t.Errorf("asked: %v", asked)
		}
		for _, m := range w.members {
			if m != gone && !slices.Equal(m.changes(), []string{"task 0 BLOCKED", "task 1 BLOCKED", "task 2 BLOCKED", "task 4 BLOCKED"}) {
				t.Errorf("%s was told %q", m.name, m.changes())
			}
		}
	})
}

// A leader that is stopped in an orderly way is succeeded at once.
func TestLeaderResigns(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		gone := w.leader()
		gone.kill()
		gone.over.Wait()
		if err := gone.election.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if now := w.leader(); now == nil || now == gone {
			t.Error("nobody else leads")
		}
	})
}

// A leader whose machine was suspended does not lead when it wakes up, before it has asked.
func TestLeaderIsSuspended(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		m := w.leader()
		m.mu.Lock()
		m.slept = time.Minute
		m.mu.Unlock()
		if m.election.Leads() {
			t.Error("it leads")
		}
	})
}

// A term begins where the one before ended, whatever its leader has read itself meanwhile: the
// others need not ask.
func TestTermBeginsWhereOneEnded(t *testing.T) {
	run(t, 3, func(t *testing.T, w *world) {
		time.Sleep(5 * time.Minute)
		for _, m := range w.members {
			m.way.Cut(true)
		}
		time.Sleep(20 * time.Second)
		w.board.edit(task.Task{ID: id(1), Title: "task 1", Status: task.Blocked})
		time.Sleep(10 * time.Minute)
		next := w.members[2]
		if _, err := next.Sync(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		next.way.Cut(false)
		time.Sleep(10 * time.Second)
		if w.leader() != next {
			t.Fatal("another one leads")
		}
		w.board.requests()
		for _, m := range w.members {
			m.way.Cut(false)
		}
		time.Sleep(2 * interval)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Error(wrong)
		}
		if asked := w.board.requests(); asked["query"] != asked[next.name+" query"] {
			t.Errorf("asked %v", asked)
		}
	})
}

// Who reads the board by a query that is behind hears all the same of what was passed on before:
// the leader may have known it from a page.
func TestReadByALateQuery(t *testing.T) {
	run(t, 1, func(t *testing.T, w *world) {
		w.board.slow(90 * time.Second)
		time.Sleep(5 * time.Minute)
		leader := w.leader()
		before := w.board.page(id(1))
		before.Title = "another title"
		w.board.edit(before)
		time.Sleep(100 * time.Second) // queries show it
		before.Status = task.Blocked
		leader.Observe(claim.Reading{Task: w.board.edit(before), At: time.Now()})
		time.Sleep(2*interval + 5*time.Second) // which is passed on, twice
		w.start(0)
		time.Sleep(3 * time.Minute)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// A member that was cut off asks nothing meanwhile, and nothing afterwards either, as long as
// what it missed is kept; if it is not, it asks once.
func TestMemberIsCutOff(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		run(t, 3, func(t *testing.T, w *world) {
			i := slices.IndexFunc(w.members, func(m *member) bool { return !m.election.Leads() })
			m := w.members[i]
			time.Sleep(5 * time.Minute)
			m.way.Cut(true)
			time.Sleep(20 * time.Second)
			w.board.requests()
			w.board.edit(task.Task{ID: id(1), Title: "task 1", Status: task.Blocked})
			time.Sleep(10 * time.Minute)
			asked := w.board.requests()
			if asked[m.name+" query"] > 0 {
				t.Errorf("while it is cut off it asks %v", asked)
			}
			if n := m.late(); n < 39 || n > 42 {
				t.Errorf("%d times something was overdue", n)
			}
			if _, lag := m.relay.Lag(); lag < 9*time.Minute {
				t.Errorf("lag %v", lag)
			}
			if forgotten {
				w.room.Forget()
			}
			m.way.Cut(false)
			time.Sleep(interval + 2*time.Second)
			if wrong := w.wrong(); len(wrong) > 0 {
				t.Error(wrong)
			}
			time.Sleep(5 * time.Minute)
			want := 0
			if forgotten {
				want = 1
			}
			asked = w.board.requests()
			if asked[m.name+" query"] != want || asked["list"]+asked["page"] > 0 {
				t.Errorf("forgotten: %v: asked %v", forgotten, asked)
			}
			if behind, lag := m.relay.Lag(); behind != 0 || lag != 0 {
				t.Errorf("lag %d, %v", behind, lag)
			}
			if !slices.Equal(m.changes(), []string{"task 1 BLOCKED"}) {
				t.Errorf("told %q", m.changes())
			}
		})
	}
}

// A leader that has read nothing yet, as after etcd was emptied while Notion cannot be reached, has
// no time to give for what it passes on: whoever waits behind that is late by what has really passed.
func TestLagBehindATermThatReadNothing(t *testing.T) {
	run(t, 3, func(t *testing.T, w *world) {
		w.board.mu.Lock()
		w.board.down = true
		w.board.mu.Unlock()
		began, most := time.Now(), 0
		for range 3 {
			leader := w.leader()
			leader.way.Cut(true)
			w.room.Empty()
			for range 30 {
				time.Sleep(time.Second)
				for _, m := range w.members {
					behind, lag := m.relay.Lag()
					if most = max(most, behind); lag > time.Since(began)+interval {
						t.Fatalf("%s is %v late after %v", m.name, lag, time.Since(began))
					}
				}
			}
			leader.way.Cut(false)
			time.Sleep(2 * time.Second)
		}
		if most == 0 {
			t.Error("nobody was behind")
		}
	})
}

// What a member has written itself counts, whatever a query from before shows, and costs it no
// requests; and what a person does after that is seen with the next sync.
func TestOwnPagesCount(t *testing.T) {
	for seed := range uint64(12) {
		run(t, 2, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 1))
			w.board.mu.Lock()
			w.board.took = 3 * time.Second
			w.board.mu.Unlock()
			m := w.members[slices.IndexFunc(w.members, func(m *member) bool { return !m.election.Leads() })]
			time.Sleep(time.Minute + time.Duration(random.Int64N(int64(interval))))
			for n := range 10 { // so that queries list them
				w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Open, Note: "edited"})
			}
			time.Sleep(2 * interval)
			for n := range 10 {
				own := task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.InProgress, ClaimedBy: "Sandman", Token: string(claim.NewID(time.Now()))}
				m.Observe(claim.Reading{Task: w.board.edit(own), At: time.Now()})
				for range 30 {
					time.Sleep(50 * time.Millisecond)
					if now, _ := m.Task(id(n)); now.Token != own.Token {
						t.Fatalf("seed %d: the mirror has %+v", seed, now)
					}
				}
			}
			time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
			if asked := w.board.requests(); asked["page"] > 0 {
				t.Errorf("seed %d: asked %v", seed, asked)
			}
			w.board.edit(task.Task{ID: id(3), Title: "task 3", Status: task.Open})
			time.Sleep(interval + 6*time.Second)
			if wrong := w.wrong(); len(wrong) > 0 {
				t.Errorf("seed %d: %v", seed, wrong)
			}
		})
	}
}
