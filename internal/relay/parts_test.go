package relay_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/task"
)

// large runs a test with three members on a board that does not go in one publication, nor do
// the prints of its tasks. The first one leads, and has read the whole board once.
func large(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.most = 2000
		for n := range 600 {
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Open})
		}
		time.Sleep(10 * time.Minute)
		for range 3 {
			w.start(0)
			time.Sleep(5 * time.Second)
		}
		if w.leader() != w.members[0] {
			t.Fatal("another one leads")
		}
		test(t, w)
	})
}

// What does not go in one publication is passed on in several, all that it says, and nothing
// but that.
func TestLargeBoard(t *testing.T) {
	large(t, func(t *testing.T, w *world) {
		for n := range 500 {
			w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Blocked, Trashed: n%2 == 0})
		}
		time.Sleep(time.Minute)
		if _, err := w.leader().Sync(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.board.requests()
		time.Sleep(interval / 2)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Errorf("%d are wrong: %s", len(wrong), wrong[0])
		}
		time.Sleep(10 * time.Minute)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Errorf("later %d are wrong: %s", len(wrong), wrong[0])
		}
		if asked := w.board.requests(); asked["query"] != asked["m0 query"] || asked["list"]+asked["page"] > 0 {
			t.Errorf("asked %v", asked)
		}
	})
}

// Who has missed the beginning of what is passed on in parts does not take the rest for all.
func TestBeginningIsMissed(t *testing.T) {
	large(t, func(t *testing.T, w *world) {
		m := w.members[1]
		time.Sleep(10 * time.Minute)
		passed := func() int { n, _ := w.room.Passed(); return n }
		for before := passed(); passed() == before; { // until just after a sync
			time.Sleep(time.Second)
		}
		w.leader().way.Slow(time.Second)
		var read sync.WaitGroup
		read.Go(func() {
			if _, err := w.leader().Sync(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(1500 * time.Millisecond) // the first part has come
		m.way.Cut(true)
		time.Sleep(time.Second) // and so has the second one, for the others
		w.room.Forget()
		m.way.Cut(false)
		read.Wait()
		if passed() == 0 {
			t.Fatal("all was passed on before")
		}
		time.Sleep(10 * time.Minute)
		if wrong := w.wrong(); len(wrong) > 0 {
			t.Errorf("%d are wrong: %s", len(wrong), wrong[0])
		}
		if asked := w.board.requests(); asked[m.name+" query"] == 0 {
			t.Errorf("who has missed something has not asked: %v", asked)
		}
	})
}

// What a leader had passed on in part when it died is passed on whole by the next one, also
// if that one has read it for itself, and only a third one knows no more than the parts.
func TestLeaderDiesBetweenParts(t *testing.T) {
	for after := range 4 {
		large(t, func(t *testing.T, w *world) {
			for _, m := range w.members {
				m.way.Cut(true)
			}
			time.Sleep(20 * time.Second)
			for n := range 500 {
				w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Blocked})
			}
			time.Sleep(10 * time.Minute)
			gone, next := w.members[1], w.members[2]
			if _, err := next.Sync(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			gone.way.CutAfter(after + 1)
			gone.way.Cut(false)
			time.Sleep(30 * time.Second)
			gone.kill()
			gone.over.Wait()
			if n, _ := w.room.Passed(); n < after+1 {
				t.Fatalf("%d parts were passed on", n)
			}
			next.way.Cut(false)
			time.Sleep(10 * time.Second)
			w.members[0].way.Cut(false)
			time.Sleep(5 * time.Minute)
			if wrong := w.wrong(gone); len(wrong) > 0 {
				t.Errorf("after %d parts: %d are wrong: %s", after+1, len(wrong), wrong[0])
			}
		})
	}
}
