package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/testkit"
)

// meshQueries returns how often the mesh log was queried for entries.
func (w *world) meshQueries() (n int) {
	for _, r := range w.notion.Requests() {
		if strings.HasSuffix(r.Path, w.notion.Databases().MeshLog+"/query") {
			n++
		}
	}
	return n
}

// wantOthers fails the test unless the daemon warns of others with these words, and of nothing
// else; without words, of nothing at all.
func (n *node) wantOthers(when string, words ...string) {
	n.w.Helper()
	s, err := n.Status(n.w.Context())
	if err != nil {
		n.w.Fatal(err)
	}
	if len(words) == 0 {
		if len(s.Policy.Others) > 0 || len(s.Warnings) > 0 {
			n.w.Errorf("%s: others %q, warnings %q; want none", when, s.Policy.Others, s.Warnings)
		}
		return
	}
	if len(s.Policy.Others) != 1 || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], s.Policy.Others[0]) {
		n.w.Errorf("%s: others %q, warnings %q; want one", when, s.Policy.Others, s.Warnings)
		return
	}
	for _, word := range words {
		if !strings.Contains(s.Warnings[0], word) {
			n.w.Errorf("%s: the warning %q does not say %q", when, s.Warnings[0], word)
		}
	}
}

// calm reduces scheduled work in tests of hours.
func calm(c *config.Config) { c.Sync.Interval, c.Schedule.Sweep = 8*time.Minute, "@every 100h" }

// TestOtherSettingsAreNoticed runs two daemons with different settings on one board. Both notice,
// warn as long as this lasts, and ask rarely.
func TestOtherSettingsAreNoticed(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		change      func(*config.Config)
		atA, atB    []string
		withoutText bool // the mesh log lacks the property
	}{
		"the same": {func(*config.Config) {}, nil, nil, false},
		"harmless": {func(c *config.Config) { c.Claim.Settle = 4 * time.Second }, nil, nil, false},
		"another timeout": {
			func(c *config.Config) { c.Claim.Timeout = 45 * time.Minute },
			[]string{"the daemon of Oracle claims under claim.timeout 45m0s, and 30m0s here", "give all daemons"},
			[]string{"the daemon of Sandman claims under claim.timeout 30m0s, and 45m0s here", "give all daemons"}, false,
		},
		"times that do not go together": {
			func(c *config.Config) { c.Claim.WriteWindow, c.Claim.Settle = 4*time.Second, 6*time.Second },
			[]string{"the daemon of Oracle", "claim.write_window 4s, no shorter than claim.settle 1.6s here"},
			[]string{"the daemon of Sandman", "claim.settle 1.6s, no longer than claim.write_window 4s here"}, false,
		},
		"a log without a property": {func(c *config.Config) { c.Claim.Timeout = 45 * time.Minute }, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				if tt.withoutText {
					mustDo(w, w.notion.EditSchema(w.notion.Databases().MeshLog, map[string]any{"detail": nil, "message": nil}))
				}
				a := w.daemon(calm)
				o := w.options(calm)
				tt.change(&o.Config)
				b := w.start(o)
				work := func() { // for an hour
					for i := range 2 {
						ca, cb := a.mustClaim("Sandman", w.add(fmt.Sprint("a", i), nil)), b.mustClaim("Oracle", w.add(fmt.Sprint("b", i), nil))
						time.Sleep(10 * time.Minute)
						mustDo(w, a.complete(ca))
						mustDo(w, b.complete(cb))
						time.Sleep(20 * time.Minute)
					}
				}
				work()
				a.wantOthers("after an hour, at a", tt.atA...)
				b.wantOthers("after an hour, at b", tt.atB...)
				work()
				a.wantOthers("after two hours, at a", tt.atA...)
				if n := w.meshQueries(); n > 2*3 {
					w.Errorf("the mesh log was asked %d times in two hours by two daemons", n)
				}
				b.stop()
				o.Config.Claim = config.Default().Claim // repaired
				b = w.start(o)
				work()
				b.wantOthers("an hour after it was mended, at b, whose own old entries are there")
				work()
				work()
				work()
				a.wantOthers("four hours after it was mended, at a")
				b.wantOthers("four hours after it was mended, at b")
			})
		})
	}
}

// TestAloneNobodyIsAskedFor runs one daemon, and after it another with other settings. A daemon
// does not take its own past for another daemon, and alone it does not query.
func TestAloneNobodyIsAskedFor(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(calm)
		n := w.start(o)
		work := func(n *node, from int) {
			for i := range 6 {
				cl := n.mustClaim("Sandman", w.add(fmt.Sprint(from+i), nil))
				time.Sleep(10 * time.Minute)
				mustDo(w, n.complete(cl))
			}
		}
		work(n, 0)
		n.stop()
		o.Config.Claim.Timeout = time.Hour
		n = w.start(o)
		work(n, 6)
		time.Sleep(5 * time.Hour)
		n.wantOthers("alone")
		if got := w.meshQueries(); got > 0 {
			w.Errorf("the mesh log was asked %d times, want never", got)
		}
	})
}
