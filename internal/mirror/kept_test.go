package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// filtered is a database whose listing has no task that was finished before kept, as Notion's has not,
// and whose pages are slow to read, or listings fail.
type filtered struct {
	board
	fails error
}

func (f *filtered) List(_ context.Context, kept time.Time, _ func(int)) ([]task.Task, error) {
	old := func(t task.Task) bool { return t.Status.Finished() && t.Edited.Before(kept) }
	return slices.DeleteFunc(f.seen(), old), f.fails
}

// mirror returns a mirror of f that keeps finished tasks for a day.
func (f *filtered) mirror(t *testing.T) *mirror.Mirror {
	t.Helper()
	return mirrorOf(t, f, func(c *mirror.Config) { c.Keep = 24 * time.Hour })
}

// has checks which tasks the mirror has.
func has(t *testing.T, when string, m *mirror.Mirror, want ...string) {
	t.Helper()
	var got []string
	for one := range m.Tasks() {
		got = append(got, string(one.ID))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s: it has %q, want %q", when, got, want)
	}
}

// Finished tasks stay for a while, and as long as an unfinished task depends on them.
func TestFinishedTasksAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &filtered{}
		sync := func(m *mirror.Mirror) {
			t.Helper()
			if _, err := m.Sync(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		f.edit(task.Task{ID: "long ago", Status: task.Completed})
		f.edit(task.Task{ID: "cancelled long ago", Status: task.Cancelled})
		f.edit(task.Task{ID: "needed", Status: task.Completed})
		time.Sleep(48 * time.Hour)
		f.edit(task.Task{ID: "today", Status: task.Completed})
		waits := task.Task{ID: "waits", Status: task.Open, DependsOn: []task.ID{"needed", "nowhere"}}
		f.edit(waits)
		m := f.mirror(t)
		sync(m)
		has(t, "at first", m, "needed", "today", "waits")
		if f.reads != 2 {
			t.Errorf("%d pages were read, want the two that are waited for", f.reads)
		}
		sync(m)
		if left, err := m.Blockers(t.Context(), waits); err != nil || !slices.Equal(left, []task.ID{"nowhere"}) || f.reads != 3 {
			t.Errorf("it waits for %q, %v, after %d reads; want what is not there, which each full sync looks for once", left, err, f.reads)
		}
		waits.Status = task.Completed
		f.edit(waits)
		time.Sleep(23 * time.Hour)
		sync(m)
		has(t, "a day later", m, "today", "waits")
		time.Sleep(4 * time.Hour)
		sync(m)
		has(t, "in the end", m)
	})
}

// A listing that fails half way changes nothing.
func TestListingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &filtered{}
		f.edit(task.Task{ID: "a", Title: "before", Status: task.Open})
		f.edit(task.Task{ID: "b", Status: task.Open})
		m := f.mirror(t)
		pull(t, m)
		time.Sleep(time.Hour)
		f.edit(task.Task{ID: "a", Title: "after", Status: task.Open})
		f.versions = slices.DeleteFunc(f.versions, func(v version) bool { return v.ID == "b" })
		f.fails = errors.New("502")
		if _, err := m.Sync(t.Context(), true); !errors.Is(err, f.fails) {
			t.Errorf("err = %v", err)
		}
		has(t, "then", m, "a", "b")
		if got, _ := m.Task("a"); got.Title != "before" {
			t.Errorf("it shows %q", got.Title)
		}
		f.fails = nil
		time.Sleep(time.Minute)
		if r, err := m.Sync(t.Context(), true); err != nil || len(r.Changed) != 1 || len(r.Gone) != 1 {
			t.Errorf("%+v, %v; want a change, and one that is gone", r, err)
		}
	})
}

// A held task that no query lists is looked for, and a sync that cannot read it has failed.
func TestHeldTaskThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{}
		s.edit(task.Task{ID: "held", Status: task.InProgress, ClaimedBy: "Sandman", Token: "01JAAAAAAAAAAAAAAAAAAAAAAA"})
		time.Sleep(10 * time.Minute)
		m := mirrorOf(t, s, nil)
		for _, s.broken = range []error{nil, errors.New("502"), nil} {
			if _, err := m.RunOnce(t.Context()); !errors.Is(err, s.broken) {
				t.Errorf("the page fails with %v, and the sync with %v", s.broken, err)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// slowly is a database whose pages take a second each to read, or fail.
type slowly struct {
	filtered
	broken error
}

func (s *slowly) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	time.Sleep(time.Second)
	if s.broken != nil {
		return claim.Reading{}, s.broken
	}
	return s.filtered.Get(ctx, id)
}

// What a sync has read can be used at once, while what tasks wait for is still being looked up.
func TestReadyDuringLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{}
		waits := task.Task{ID: "waits", Status: task.Open}
		for i := range 20 {
			waits.DependsOn = append(waits.DependsOn, s.edit(task.Task{ID: task.ID(fmt.Sprint(i)), Status: task.Completed}).ID)
		}
		time.Sleep(48 * time.Hour)
		s.edit(waits)
		m := mirrorOf(t, s, nil)
		if err := m.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if !m.Listed() || m.Standing().Stale || m.Knows(waits) {
			t.Errorf("listed: %v, %+v, knows what it waits for: %v", m.Listed(), m.Standing(), m.Knows(waits))
		}
		time.Sleep(20 * time.Second)
		if !m.Knows(waits) {
			t.Error("it does not know what it waits for")
		}
	})
}
