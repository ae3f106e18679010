package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit"
)

// Renamed columns keep their meaning, after a restart, too.
func TestRenamedPropertiesKeepWorking(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("task", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		rename := map[string]any{}
		for _, name := range []string{"status", "claimed_by", "claimed_at", "claim_token", "priority", "depends_on", "claim_timeout_minutes"} {
			rename[name] = map[string]any{"name": "My " + name}
		}
		mustDo(w, w.notion.EditSchema(w.tasks, rename))
		n.sync()
		mustDo(w, n.complete(cl))
		n.mustClaim("Oracle", w.add("another", nil))
		n.stop()

		n = w.start(o) // knows the properties by their ids
		n.mustClaim("Sandman", w.add("one more", nil))
		same(w, "warnings", "", strings.Join(n.status().Warnings, "\n"))
	})
}

// While a property in use is missing, nothing is claimed, judged, swept or read; once it is back, empty,
// held claims go on and what was finished is delivered. internal/notion has a row for each property.
func TestPropertiesThatAreGoneStopClaims(t *testing.T) {
	t.Parallel()
	byClaim := func(n *node, _ api.Claim, free string) error { return second(n.claim("Eve", free)) }
	for name, tt := range map[string]struct {
		property string
		is, was  any // its types; is: nil if removed
		noticed  func(n *node, held api.Claim, free string) error
	}{
		"claim_token removed, noticed by a claim": {"claim_token", nil, typed("rich_text"), byClaim},
		"claim_timeout_minutes removed, by its holder": {"claim_timeout_minutes", nil, typed("number"),
			func(n *node, held api.Claim, _ string) error { return second(n.renew(held)) }},
		"status of another type, by a sync": {"status", typed("rich_text"), typed("select"),
			func(n *node, _ api.Claim, _ string) error { return second(n.trySync(false)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				held, kept, free := w.add("held", nil), w.add("kept", map[string]any{"claim_timeout_minutes": number(40)}), w.add("free", nil)
				long := w.add("long", nil)
				w.add("waits", map[string]any{"depends_on": relation(held), "priority": option("select", "critical")})
				n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 5m" })
				done, alive := n.mustClaim("Sandman", held), n.mustClaim("Oracle", kept)
				time.Sleep(25 * time.Minute) // more than half of their leases
				w.edit(long, map[string]any{ // a lease that is not read in time here
					"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"), "claimed_at": date(time.Now()),
					"claim_token": text("rich_text", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), "claim_timeout_minutes": number(300),
				})
				edit := func(to any) { mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{tt.property: to})) }
				edit(tt.is)
				says := fmt.Sprintf("%q", tt.property)
				refused := func(what string, err error) {
					w.Helper()
					w.refused(what, err, string(claim.CodeNotionRefused), says)
				}
				refused("what noticed it", tt.noticed(n, alive, free))
				refused("a claim", byClaim(n, alive, free))
				time.Sleep(20 * time.Second)
				if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], says) || !strings.Contains(s.Warnings[0], "claimed") || !s.Mirror.Stale {
					w.Errorf("warnings: %q, mirror %+v; want one that says %s", s.Warnings, s.Mirror, says)
				}
				list := mustCall(n, api.OpListTasks, api.ListTasksInput{Ready: true}).Tasks
				if slices.ContainsFunc(list, func(t api.Task) bool { return t.Title == "waits" || t.Title == "held" }) {
					w.Errorf("ready: %+v; want none that waits or is held", list)
				}
				refused("a renewal", second(n.renew(alive)))
				refused("a sweep", second(call(n, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})))
				if ended, err := n.end(done); err != nil || ended.State != claim.Finishing {
					w.Errorf("complete: state = %q, err = %v, want it owed", ended.State, err)
				}
				if got := n.seen(alive); got.State != claim.Held || got.ExpiresAt.Before(alive.ExpiresAt.Time) {
					w.Errorf("%s until %v; want it held as it was until %v", got.State, got.ExpiresAt, alive.ExpiresAt)
				}

				// It is made again, without values.
				edit(tt.was)
				time.Sleep(time.Minute)
				same(w, "the task that was completed", "COMPLETED", w.page(held).Select("status"))
				same(w, "the other claim", claim.Held, n.seen(alive).State)
				if p := w.page(kept); shape(p) != "IN_PROGRESS Oracle" || p.Text("claim_token") != string(alive.ID) {
					w.Errorf("its page shows %s and the token %q", shape(p), p.Text("claim_token"))
				}
				mustDo(w, second(n.renew(alive)))
				if tt.property == "status" {
					w.edit(free, w.open("select"))
					n.sync()
				}
				n.mustClaim("Eve", free)
				if s := n.status(); len(s.Warnings) != 0 && tt.property != "status" || s.Mirror.Stale {
					w.Errorf("once it is mended: warnings %q, mirror %+v", s.Warnings, s.Mirror)
				}
			})
		})
	}
}

// Renaming or deleting an option of the status stops new claims, and ends none: nobody edited the
// tasks.
func TestStatusOptionsThatAreRenamedOrDeleted(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	rename := func(from, to string) func(w *world) error {
		return func(w *world) error { return w.notion.RenameOption(w.tasks, "status", from, to) }
	}
	remove := func(name string) func(w *world) error {
		return func(w *world) error { return w.notion.DeleteOption(w.tasks, "status", name) }
	}
	add := func(name string) func(w *world) error {
		return func(w *world) error { return w.notion.AddOption(w.tasks, "status", name) }
	}
	doing := func(c *config.Config) { c.Tasks.Statuses.InProgress = "Doing" }
	for name, tt := range map[string]struct {
		kind, noticed string
		change, mend  func(w *world) error
		config        func(*config.Config) // a reload that repairs it, if any
		says          string
	}{
		"in progress renamed, and back": {"status", "by a sync", rename("IN_PROGRESS", "Doing"), rename("Doing", "IN_PROGRESS"), nil,
			`was renamed to "Doing": set tasks.statuses.in_progress to "Doing", or rename it back`},
		"in progress renamed, and configured": {"select", "by its holder", rename("IN_PROGRESS", "Doing"), nil, doing, `was renamed to "Doing"`},
		"completed renamed, and configured": {"status", "by a finish", rename("COMPLETED", "Done"), nil,
			func(c *config.Config) { c.Tasks.Statuses.Completed = "Done" }, `was renamed to "Done": set tasks.statuses.completed to "Done"`},
		"in progress deleted, and made again": {"select", "by a finish", remove("IN_PROGRESS"), add("IN_PROGRESS"), nil,
			`option "IN_PROGRESS" of property "status" was deleted: add what was deleted again, or set tasks.statuses.in_progress`},
		"in progress deleted, and another one made": {"status", "by its holder", remove("IN_PROGRESS"), add("Doing"), doing,
			`option "IN_PROGRESS" of property "status" was deleted`},
		"blocked deleted, and made again": {"select", "by a sync", remove("BLOCKED"), add("BLOCKED"), nil, `option "BLOCKED" of property "status" was deleted`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				if tt.kind == "select" {
					w.selectStatus()
				}
				held, kept, free := w.add("held", w.open(tt.kind)), w.add("kept", w.open(tt.kind)), w.add("free", w.open(tt.kind))
				o := w.options(nil)
				n := w.start(o)
				done, alive := n.mustClaim("Sandman", held), n.mustClaim("Oracle", kept)
				time.Sleep(2 * time.Minute)
				n.sync()
				mustDo(w, tt.change(w))
				switch tt.noticed {
				case "by its holder":
					time.Sleep(14 * time.Minute)                                                              // half of the lease
					if _, err := n.renew(alive); err != nil && code(err) != string(claim.CodeNotionRefused) { // nothing on the page shows an option that it does not have
						w.Errorf("renew = %v", err)
					}
				case "by a finish":
					mustDo(w, n.complete(done))
				}
				time.Sleep(30 * time.Second)
				if _, err := n.trySync(true); err != nil && !strings.Contains(err.Error(), tt.says) {
					w.Errorf("sync = %v", err)
				}
				time.Sleep(3 * time.Minute)
				w.refused("a claim", second(n.claim("Eve", free)), string(claim.CodeNotionRefused), tt.says)
				if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], tt.says) {
					w.Errorf("warnings %q, want one that says %s", s.Warnings, tt.says)
				}
				same(w, "what is held", claim.Held, n.seen(alive).State)
				if tt.noticed != "by a finish" {
					mustDo(w, n.complete(done))
				}
				same(w, "what was completed", claim.EndCompleted, n.seen(done).Outcome)

				if tt.mend != nil {
					mustDo(w, tt.mend(w))
				}
				c := o.Config
				if tt.config != nil {
					tt.config(&c)
					mustDo(w, n.daemon.Reload(c))
				}
				time.Sleep(6 * time.Minute) // the outbox retries after five minutes at most
				if s := n.status(); len(s.Warnings) != 0 || s.Mirror.Stale {
					w.Errorf("once it is mended: %q, %+v", s.Warnings, s.Mirror)
				}
				same(w, "the task that was completed", c.Tasks.Statuses.Completed, w.page(held).Select("status"))
				if p := w.page(kept); p.Select("status") != c.Tasks.Statuses.InProgress || p.Text("claim_token") != string(alive.ID) {
					w.Errorf("the task that is held shows %s of %q, want it in progress", p.Select("status"), p.Text("claim_token"))
				}
				same(w, "what is held, in the end", claim.Held, n.seen(alive).State)
				mustDo(w, n.complete(alive))
				n.mustClaim("Eve", free)
			})
		})
	}
}

// The same while no daemon runs.
func TestStatusOptionsThatChangeWhileTheDaemonIsAway(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"status", "select"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				if kind == "select" {
					w.selectStatus()
				}
				id := w.add("held", w.open(kind))
				o := w.options(nil)
				n := w.start(o)
				cl := n.mustClaim("Sandman", id)
				n.sync()
				n.stop()
				mustDo(w, w.notion.RenameOption(w.tasks, "status", "IN_PROGRESS", "Doing"))
				w.mentions(second(w.begin(o)), `was renamed to "Doing": set tasks.statuses.in_progress to "Doing"`)
				o.Config.Tasks.Statuses.InProgress = "Doing"
				n = w.start(o)
				time.Sleep(time.Minute)
				n.sync()
				n.stop()

				mustDo(w, w.notion.DeleteOption(w.tasks, "status", "Doing"))
				w.mentions(second(w.begin(o)), `option "Doing" of property "status" was deleted`)
				mustDo(w, w.notion.AddOption(w.tasks, "status", "Doing"))
				n = w.start(o)
				time.Sleep(time.Minute)
				same(w, "the claim", claim.Held, n.seen(cl).State)
				same(w, "the task", "Doing", w.page(id).Select("status"))
			})
		})
	}
}

// A person's edit counts although a column was deleted and made again, within the minute in which it
// came back, and while no daemon ran; and although an option was, before or a while after.
func TestAPersonsEditOfWhatWasLost(t *testing.T) {
	t.Parallel()
	column := func(name string) func(*world) error {
		return func(w *world) error {
			return errors.Join(w.notion.EditSchema(w.tasks, map[string]any{name: nil}), w.notion.EditSchema(w.tasks, map[string]any{name: typed("rich_text")}))
		}
	}
	inProgress := func(w *world) error {
		err := w.notion.DeleteOption(w.tasks, "status", "IN_PROGRESS")
		time.Sleep(time.Minute)
		return errors.Join(err, w.notion.AddOption(w.tasks, "status", "IN_PROGRESS"))
	}
	open, nobody := map[string]any{"status": option("status", "OPEN")}, map[string]any{"claim_token": text("rich_text", "")}
	for name, tt := range map[string]struct {
		lose   func(*world) error
		person map[string]any
		before bool          // the person's edit comes a minute before
		later  time.Duration // or so much after it
		away   bool          // no daemon runs
	}{
		"name cleared":         {column("claimed_by"), map[string]any{"claimed_by": text("rich_text", "")}, false, 0, false},
		"handed out, away":     {column("claim_token"), open, false, 0, true},
		"token cleared":        {column("claim_token"), nobody, false, 0, false},
		"token cleared, away":  {column("claim_token"), nobody, false, 0, true},
		"opened before":        {inProgress, open, true, 0, false},
		"opened a while after": {inProgress, open, false, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("held", nil)
				o := w.options(nil)
				n := w.start(o)
				cl := n.mustClaim("Sandman", id)
				n.sync()
				if tt.away {
					n.stop()
				}
				if tt.before {
					w.edit(id, tt.person)
					time.Sleep(time.Minute)
				}
				mustDo(w, tt.lose(w))
				time.Sleep(tt.later)
				if !tt.before {
					w.edit(id, tt.person)
				}
				if tt.away {
					n = w.start(o)
				}
				time.Sleep(time.Minute)
				same(w, "how the claim ended", claim.EndLost, n.seen(cl).Outcome)
				if p := w.page(id); shape(p) == "IN_PROGRESS Sandman" && p.Text("claim_token") != "" {
					w.Error("the claim was written over the edit")
				}
			})
		})
	}
}

// selectStatus changes the board's status to a select with all its options.
func (w *world) selectStatus() {
	w.Helper()
	mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"status": typed("select", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED")}))
}

// open returns the properties of an open task.
func (w *world) open(kind string) map[string]any {
	return map[string]any{"status": option(kind, "OPEN")}
}
