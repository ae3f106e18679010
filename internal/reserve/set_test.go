package reserve_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/internal/reserve"

	"pgregory.net/rapid"
)

// TestSetMissesNoPath draws reservations and paths: each path is found by exactly the patterns that
// match it, no matter how many are compared at once.
func TestSetMissesNoPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []reserve.Reservation
		for i := range rapid.IntRange(0, 4).Draw(t, "reservations") {
			target := files(drawPattern(t, fmt.Sprintf("pattern %d", i)))[0]
			target.Files = rapid.Bool().Draw(t, "files")
			list = append(list, reserve.Reservation{Agent: fmt.Sprint("agent-", i), Targets: []reserve.Target{target}, Until: time.Unix(int64(i), 0)})
		}
		set, err := reserve.NewSet(list)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for range rapid.IntRange(1, 6).Draw(t, "paths") {
			paths = append(paths, drawPath(t)[1:])
		}
		paths = append(paths, "a", "a/b", "a-b/a", "a.b", "ab")
		taken, err := set.Taken("Sandman", files(paths...))
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range paths {
			want := ""
			for _, r := range list { // the last one lasts longest
				if covers(r.Targets[0].At[0].Path, r.Targets[0].Files, "/"+path) {
					want = r.Agent
				}
			}
			got := ""
			if taken[i] != nil {
				got = taken[i].By.Agent
			}
			if got != want {
				t.Errorf("%s is %q's, want %q, of %+v", path, got, want, list)
			}
		}
	})
}

// TestCompared: a Set of what a Book says finds what the Book's own check does.
func TestCompared(t *testing.T) {
	w := newWorld(t)
	shared := reserve.Request{Shared: true, For: time.Hour}
	w.must("Sandman", reserve.Request{For: time.Hour}, "src/", "name:db")
	w.must("Sandman", shared, "docs/*.md")
	w.must("Oracle", shared, "docs/a.md")
	set, err := reserve.NewSet(w.Compared(t.Context(), "", ""))
	if err != nil || set.Empty() {
		t.Fatal(err)
	}
	targets := files("src/a.go", "docs/a.md", "docs/b.md", "name:db", "name:other", "a.go")
	targets = append(targets, reserve.Target{Text: ".", Folder: true, At: []reserve.Spot{{Place: "/repo/.git", Path: "/"}}})
	for _, agent := range []string{"Sandman", "Oracle", "Merlin", ""} {
		taken, err := set.Taken(agent, targets)
		if err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			got := ""
			if taken[i] != nil {
				got = taken[i].By.Agent
			}
			if want := w.holder(w.Check(t.Context(), agent, "", targets[i:i+1])); got != want {
				t.Errorf("to %q, %s is %q's, want %q", agent, target.Text, got, want)
			}
		}
	}
	if _, err := set.Taken("", []reserve.Target{{Text: "nowhere"}}); err == nil {
		t.Error("what is nowhere was compared")
	}
	// What cannot be read hides nothing else.
	list := w.Compared(t.Context(), "", "")
	list[1].Targets = nil
	list[1].Targets = append(list[1].Targets, reserve.Target{Text: "x", At: []reserve.Spot{{Place: "/repo/.git", Path: "/[a"}}})
	set, err = reserve.NewSet(list)
	if taken, terr := set.Taken("Merlin", targets); err == nil || errors.Unwrap(err) != nil || terr != nil || taken[0] == nil || !slices.Contains(taken[0].By.Patterns(), "src/") {
		t.Errorf("%v, %v, %v", err, terr, taken)
	}
}

// BenchmarkTaken compares a large commit with as much as may be reserved.
func BenchmarkTaken(b *testing.B) {
	var list []reserve.Reservation
	for i := range 4096 {
		pattern := fmt.Sprintf("src/dir%d/*.go", i)
		if i%64 == 0 {
			pattern = fmt.Sprintf("**/file%d.go", i)
		}
		list = append(list, reserve.Reservation{Agent: "Oracle", Targets: files(pattern)})
	}
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("src/dir%d/file%d.txt", i%100, i))
	}
	targets := files(paths...)
	for b.Loop() {
		set, err := reserve.NewSet(list)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := set.Taken("Sandman", targets); err != nil {
			b.Fatal(err)
		}
	}
}
