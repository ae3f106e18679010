package relay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// follower is a member that does not lead.
func (w *world) follower() *member {
	return w.members[slices.IndexFunc(w.members, func(m *member) bool { return !m.election.Leads() })]
}

// A member with other settings reads for itself, until it has the same, and then asks once for
// what it did not take over.
func TestOtherSettings(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		m := w.follower()
		m.mu.Lock()
		m.settings = "others"
		m.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if asked := w.board.requests(); asked[m.name+" query"] < 35 || !m.relay.Apart() {
			t.Errorf("apart %v, asked %v", m.relay.Apart(), asked)
		}
		set := func(settings string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.settings = settings
		}
		for n := range 8 { // what is passed on may come before this one has read it, or after
			set("others")
			time.Sleep(4 * time.Minute)
			time.Sleep(time.Duration(n) * 2 * time.Second)
			if _, err := m.Sync(t.Context(), false); err != nil {
				t.Error(err)
			}
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Blocked})
			at := w.leader().Standing().SyncedAt
			for w.leader().Standing().SyncedAt.Equal(at) {
				time.Sleep(time.Second / 10)
			}
			set("the same")
			time.Sleep(interval + time.Second)
			if wrong := w.wrong(); len(wrong) > 0 {
				t.Error(wrong)
			}
		}
		w.board.requests()
		time.Sleep(10 * time.Minute)
		if asked := w.board.requests(); asked[m.name+" query"] > 0 || m.relay.Apart() {
			t.Errorf("apart %v, asked %v", m.relay.Apart(), asked)
		}
	})
}

// While the leader cannot read, the others know that what they have is out of date, and why,
// and ask nothing; when it can again, all is well.
func TestLeaderCannotRead(t *testing.T) {
	run(t, 3, func(t *testing.T, w *world) {
		m := w.follower()
		w.board.mu.Lock()
		w.board.down = true
		w.board.mu.Unlock()
		time.Sleep(interval + 2*time.Second)
		if s := m.Standing(); !s.Stale || s.Failure == nil || !strings.Contains(s.Failure.Error(), "Notion is down") {
			t.Errorf("standing %+v", s)
		}
		time.Sleep(5 * time.Minute)
		if asked := w.board.requests(); asked[m.name+" query"]+asked[m.name+" check"] > 0 {
			t.Errorf("asked %v", asked)
		}
		w.board.mu.Lock()
		w.board.down = false
		w.board.mu.Unlock()
		w.board.edit(task.Task{ID: id(1), Title: "task 1", Status: task.Blocked})
		time.Sleep(interval + 2*time.Second)
		if s := m.Standing(); s.Stale || s.Failure != nil {
			t.Errorf("standing afterwards %+v", s)
		}
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// A member that does not reach Notion takes over what it can, and what it would have asked about
// a little later.
func TestMemberWithoutNotion(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		m := w.follower()
		m.mu.Lock()
		m.down = true
		m.mu.Unlock()
		if _, err := m.Sync(t.Context(), false); err == nil {
			t.Fatal("it reaches Notion")
		}
		for n := range 5 { // which this member has just read
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Blocked})
			m.Observe(claim.Reading{Task: task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Open, Edited: time.Now().UTC().Truncate(time.Minute)}, At: time.Now()})
		}
		w.board.edit(task.Task{ID: id(20), Title: "new", Status: task.Open})
		time.Sleep(interval + time.Second)
		if got, _ := m.Task(id(20)); got.Title != "new" {
			t.Errorf("a new task: %+v", got)
		}
		time.Sleep(3 * time.Minute)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// What the leader finds out of the schema the others look at once.
func TestSchemaIsPassedOn(t *testing.T) {
	run(t, 3, func(t *testing.T, w *world) {
		leader, m := w.leader(), w.follower()
		leader.mu.Lock()
		leader.schema, leader.broken = "another", errors.New("a property is missing")
		leader.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if asked := w.board.requests(); asked[m.name+" check"] != 1 {
			t.Errorf("asked %v", asked)
		}
	})
}

// A board on which everything changes is passed on in parts.
func TestMuchIsPassedOn(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		const many = 2500
		for n := range many {
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("new ", n), Status: task.Open})
		}
		before, _ := w.room.Passed()
		time.Sleep(interval + 2*time.Second)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Errorf("%d differences, such as %s", len(wrong), wrong[0])
		}
		if after, bytes := w.room.Passed(); after-before < 3 || bytes > 500_000 {
			t.Errorf("%d publications, %d bytes in all", after-before, bytes)
		}
		if asked := w.board.requests(); asked["page"]+asked["list"] > 0 {
			t.Errorf("asked %v", asked)
		}
	})
}

// A task that leaves the board leaves it everywhere, with the next reading of the whole board,
// or, if it is claimed, with the next sync.
func TestGoneIsPassedOn(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		m := w.follower()
		w.board.edit(task.Task{ID: id(1), Title: "task 1", Status: task.InProgress, ClaimedBy: "Sandman", Token: "a"})
		time.Sleep(5 * time.Minute)
		for n := range 2 {
			gone := w.board.page(id(n))
			gone.Trashed = true
			w.board.edit(gone)
		}
		time.Sleep(interval + 2*time.Second)
		if _, there := m.Task(id(1)); there {
			t.Error("a claimed task that was trashed is there")
		}
		if _, err := w.leader().SyncAll(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if _, there := m.Task(id(0)); there {
			t.Error("a task that was trashed is there")
		}
		if asked := w.board.requests(); asked[m.name+" page"]+asked[m.name+" list"]+asked[m.name+" query"] > 0 {
			t.Errorf("asked %v", asked)
		}
	})
}

// A task that leaves the board and comes back as it was, since it was shared no longer and is
// again, comes back everywhere: what was published of it once is not taken to be known.
func TestBackAsItWas(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		m := w.follower()
		was := w.board.edit(task.Task{ID: id(1), Title: "task 1", Status: task.Blocked})
		time.Sleep(10 * time.Minute) // until that was told often enough
		for _, shared := range []bool{false, true} {
			now := was
			now.Trashed = !shared
			w.board.mu.Lock()
			w.board.history[now.ID] = append(w.board.history[now.ID], version{time.Now(), now})
			w.board.mu.Unlock()
			if _, err := w.leader().SyncAll(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if _, there := m.Task(was.ID); there != shared {
				t.Errorf("shared: %v; there: %v", shared, there)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}
