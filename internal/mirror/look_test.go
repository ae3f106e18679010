package mirror_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/mirror"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// One page that an event names is read by itself. Several cost one query, and those that it does not
// show yet one read each. A page that is not there leaves the mirror.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		titled := func(id task.ID, title string) { b.edit(task.Task{ID: id, Title: title}) }
		for _, id := range []task.ID{"a", "b", "c"} {
			titled(id, "old")
		}
		m := newMirror(t, b)
		time.Sleep(10 * time.Minute)
		pull(t, m)
		b.lag = time.Minute // queries are behind
		look := func(changed, gone []task.ID, want ...string) mirror.Result {
			t.Helper()
			b.reads = 0
			r, left, err := m.Look(t.Context(), changed, gone)
			if err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			var titles []string
			for _, c := range r.Changed {
				titles = append(titles, string(c.ID)+" "+c.Title)
			}
			if slices.Sort(titles); !cmp.Equal(want, titles) {
				t.Errorf("Look(%v, %v) found %q, want %q", changed, gone, titles, want)
			}
			return r
		}

		titled("a", "new")
		if r := look([]task.ID{"a"}, nil, "a new"); b.reads != 1 || r.Read != 0 {
			t.Errorf("one page took %d reads, and a query of %d rows; want one read", b.reads, r.Read)
		}
		if look([]task.ID{"a"}, nil); b.reads != 1 {
			t.Errorf("the same event again took %d reads, want 1", b.reads)
		}

		titled("b", "new")
		titled("d", "made")
		if look([]task.ID{"b", "d"}, nil, "b new", "d made"); b.reads != 2 {
			t.Errorf("%d pages were read, want the two that the query does not show", b.reads)
		}

		time.Sleep(5 * time.Minute)
		b.lag = 0
		titled("b", "newer")
		titled("c", "newer")
		if look([]task.ID{"b", "c"}, nil, "b newer", "c newer"); b.reads != 0 {
			t.Errorf("%d pages were read, want none: the query shows them", b.reads)
		}

		b.versions = slices.DeleteFunc(b.versions, func(v version) bool { return v.ID == "c" })
		if r := look(nil, []task.ID{"c"}); len(r.Gone) != 1 || r.Gone[0].ID != "c" {
			t.Errorf("gone: %v, want c", r.Gone)
		}
		if _, known := m.Task("c"); known {
			t.Error("the mirror still has the task that is gone")
		}
		look(nil, []task.ID{"nobody knows"})
	})
}

// More pages than one look reads are left for the next, and so is what Notion did not answer. Looks
// keep to their share of the rate.
func TestWhatALookLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		var all []task.ID
		for i := range 50 {
			all = append(all, task.ID(fmt.Sprint(i)))
			b.edit(task.Task{ID: all[i]})
		}
		m := newMirror(t, b)
		time.Sleep(10 * time.Minute)
		b.versions = nil // all of them go to the trash
		began, left, looks := time.Now(), all, 0
		for len(left) > 0 {
			var err error
			if _, left, err = m.Look(t.Context(), nil, left); err != nil {
				t.Fatal(err)
			}
			looks++
		}
		if m.Len() != 0 || looks != 3 || b.reads != 50 {
			t.Errorf("%d tasks are left after %d looks and %d reads, want none after 3 and 50", m.Len(), looks, b.reads)
		}
		// One request in three seconds, after five at once.
		if took, least := time.Since(began), 35*3*time.Second; took < least {
			t.Errorf("it took %v, want at least %v", took, least)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, left, err := m.Look(ctx, all[:1], all[1:]); err == nil || len(left) != 50 {
			t.Errorf("a look that ends early leaves %d pages, %v; want all 50", len(left), err)
		}
	})
}
