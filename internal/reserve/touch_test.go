package reserve_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/reserve"
)

const (
	api, web = "origin:example.org/acme/api", "origin:example.org/acme/web"
	unborn   = "/work/repo/.git" // without an origin
)

// hold has an agent hold a task that touches the patterns, separated by commas.
func (w *world) hold(id claim.ID, agent, patterns, repository, member string) claim.Hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := claim.Hold{ID: id, Agent: agent, State: claim.Held, Repository: repository, Member: member, Touches: strings.Split(patterns, ",")}
	c.StaleAt = time.Now().Add(time.Hour)
	w.claims[id] = c
	return c
}

// Whether two tasks overlap depends on their patterns and on the repositories that they are worked on
// in: those of different origins never do, and where one is not known, the words count.
func TestTouches(t *testing.T) {
	for _, tt := range []struct{ has, in, at, asks, from, by, want string }{
		{"src/", api, "", "src/a.go", api, "", "src/"},
		{"src/a.go", api, "", "docs/,/src/", api, "", "src/a.go"},
		{"src/", api, "", "docs/", api, "", "src/"}, // docs/src/
		{"/src/", api, "", "/docs/", api, "", ""},
		{"src/a.go", api, "", "*.md", api, "", ""}, // means files
		{"src/", api, "", "src/", web, "", ""},
		{"src/", api, "", "src/", unborn, "", ""},
		{"src/", unborn, "", "src/", unborn, "", "src/"},
		{"src/", unborn, "vega", "src/", unborn, "spica", ""}, // of two machines
		{"src/", api, "vega", "src/", api, "spica", "src/"},
		{"src/", api, "", "src/a.go", "", "", "src/"},
		{"src/", "", "", "src/a.go", web, "", "src/"},
		{"/src/", "", "", "/docs/", "", "", ""},
		{"name:db", api, "", "name:db", web, "", "name:db"},
		{"db", "", "", "name:db", "", "", ""},
		{"!src,#src,/,..,src/", api, "", "/,a/../b,src/x.go", api, "", "src/"},
		{"!src", api, "", "src,!src", api, "", ""}, // touches nothing
	} {
		w := newWorld(t)
		w.hold("01A", "Sandman", tt.has, tt.in, tt.at)
		asking := claim.Hold{ID: "01B", Agent: "Oracle", Touches: strings.Split(tt.asks, ","), Repository: tt.from, Member: tt.by}
		got := ""
		if taken := w.Touch(t.Context(), asking); taken != nil {
			got = taken.Pattern
		}
		if got != tt.want {
			t.Errorf("%s in %s against %s in %s: %q, want %q", tt.asks, tt.from, tt.has, tt.in, got, tt.want)
		}
		w.Untouch(asking.ID)
		if asking.Agent = "Sandman"; w.Touch(t.Context(), asking) != nil {
			t.Errorf("%s is in the way of whoever has it", tt.has)
		}
	}
	if got := reserve.Unread([]string{"src/", "!x", "..", strings.Repeat("x", 600)}); len(got) != 3 {
		t.Errorf("not read: %v", got)
	}
}

// What a claim touches is reserved for it, and ends with it. Reservations are in the way of tasks.
func TestTouchesAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := func(pattern string) []reserve.Target {
			return []reserve.Target{{Text: pattern, At: []reserve.Spot{{Place: api, Path: "/" + pattern}}}}
		}
		asking := claim.Hold{ID: "01B", Agent: "Oracle", Touches: []string{"docs/"}, Repository: api}
		if taken := w.Touch(t.Context(), asking); taken != nil {
			t.Fatal(taken)
		}
		rival := claim.Hold{ID: "01C", Agent: "Merlin", Touches: []string{"docs/a.md"}, Repository: api}
		if w.Touch(t.Context(), rival) == nil {
			t.Error("two attempts have the same")
		}
		if _, err := w.Reserve(t.Context(), reserve.Request{Agent: "Merlin", Targets: at("docs/a.md")}); w.holder(err) != "Oracle" {
			t.Errorf("what an attempt has was reserved: %v", err)
		}
		w.Untouch("01B")

		c := w.hold("01A", "Sandman", "src/,name:db", api, "")
		if w.holder(w.Check(t.Context(), "Oracle", "", at("src/a.go"))) != "Sandman" || w.check("Oracle", "name:db") != "Sandman" {
			t.Error("what a claim touches may be touched")
		}
		if _, err := w.Reserve(t.Context(), reserve.Request{Agent: "Oracle", Targets: at("src/a.go")}); w.holder(err) != "Sandman" {
			t.Errorf("what a claim touches was reserved: %v", err)
		}
		if list := w.List(t.Context(), ""); len(list) != 1 || list[0].Says() != "src/, name:db" || list[0].Claim != c.ID {
			t.Errorf("reserved: %v", list)
		}
		if _, err := w.Unreserve(t.Context(), "01A", "Sandman"); err == nil {
			t.Error("what a claim touches was given back without the claim")
		}
		time.Sleep(2 * time.Hour) // and was not renewed
		if got := w.holder(w.Check(t.Context(), "Oracle", "", at("src/a.go"))); got != "" {
			t.Errorf("after its end it is %s's", got)
		}
		must, err := w.Reserve(t.Context(), reserve.Request{Agent: "Oracle", Targets: at("src/a.go")})
		if err != nil {
			t.Fatal(err)
		}
		taken := w.Touch(t.Context(), claim.Hold{ID: "01D", Agent: "Merlin", Touches: []string{"src/"}, Repository: api})
		if taken == nil || taken.By.ID != must.ID || taken.Pattern != "src/a.go" || taken.Asked != "src/" {
			t.Errorf("a reservation is not in the way: %v", taken)
		}
		if taken := w.Touch(t.Context(), claim.Hold{ID: "01E", Agent: "Merlin", Touches: []string{"src/"}}); taken != nil {
			t.Errorf("a reservation is in the way of work in no repository: %v", taken)
		}
	})
}
