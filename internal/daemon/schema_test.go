package daemon_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/testkit"
)

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
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		n.mustClaim("Oracle", w.add("another", nil))
		n.stop()

		n = w.start(o) // knows the properties by their ids
		n.mustClaim("Sandman", w.add("one more", nil))
		if s := n.status(); len(s.Warnings) != 0 {
			w.Errorf("warnings: %q", s.Warnings)
		}
	})
}

// While a property in use is missing, nothing is claimed, judged or read; once it is back, empty, held
// claims go on and what was finished is delivered.
func TestPropertiesThatAreGoneStopClaims(t *testing.T) {
	t.Parallel()
	related := map[string]any{"relation": map[string]any{"database_id": emptyTasks, "type": "single_property", "single_property": map[string]any{}}}
	tests := map[string]struct {
		property string
		is       any // nil if removed
		was      any // its type
	}{
		"claimed_by removed":            {property: "claimed_by", was: typed("rich_text")},
		"claimed_at of another type":    {property: "claimed_at", is: typed("rich_text"), was: typed("date")},
		"claim_token removed":           {property: "claim_token", was: typed("rich_text")},
		"claim_timeout_minutes removed": {property: "claim_timeout_minutes", was: typed("number")},
		"priority removed":              {property: "priority", was: typed("select")},
		"depends_on removed":            {property: "depends_on", was: related},
		"depends_on of another type":    {property: "depends_on", is: typed("rich_text"), was: related},
		"status removed":                {property: "status", was: typed("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED")},
		"status of another type":        {property: "status", is: typed("rich_text"), was: typed("select")},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		for j, noticed := range []string{"by a claim", "by its holder", "by a sync"} {
			if !inTurn(i, j, 3) && (testing.Short() || tt.property != "claim_token") {
				continue // each property once, and each way of noticing for the one that claims go by
			}
			t.Run(name+", noticed "+noticed, func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					held, kept, free := w.add("held", nil), w.add("kept", map[string]any{"claim_timeout_minutes": number(40)}), w.add("free", nil)
					w.add("waits", map[string]any{"depends_on": relation(held), "priority": option("select", "critical")})
					n := w.daemon(nil)
					done, alive := n.mustClaim("Sandman", held), n.mustClaim("Oracle", kept)
					time.Sleep(25 * time.Minute) // more than half of their leases
					edit := func(to any) {
						mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{tt.property: to}))
					}
					edit(tt.is)
					says := fmt.Sprintf("%q", tt.property)
					refused := func(what string, err error) {
						w.Helper()
						if code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), says) {
							w.Errorf("%s = %v, want notion_refused and %s", what, err, says)
						}
					}
					renew := func() error {
						_, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(alive.ID), "", api.RenewRequest{}))
						return err
					}
					switch noticed {
					case "by its holder":
						refused("renew", renew())
					case "by a sync":
						_, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{}))
						refused("sync", err)
					}
					for range 2 {
						_, err := n.claim("Eve", free)
						refused("claim", err)
					}
					time.Sleep(20 * time.Second)
					if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], says) || !strings.Contains(s.Warnings[0], "claimed") || !s.Mirror.Stale {
						w.Errorf("warnings: %q, mirror %+v; want one that says %s", s.Warnings, s.Mirror, says)
					}
					list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Ready: true})
					if err != nil || slices.ContainsFunc(list.Tasks, func(t api.Task) bool { return t.Title == "waits" || t.Title == "held" }) {
						w.Errorf("ready: %+v, %v; want none that waits or is held", list.Tasks, err)
					}
					refused("renew", renew())
					ended, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(done.ID), "", api.CompleteRequest{}))
					if err != nil || ended.State != claim.Finishing {
						w.Errorf("complete: state = %q, err = %v, want it owed", ended.State, err)
					}
					if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(alive.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held || got.ExpiresAt.Before(alive.ExpiresAt.Time) {
						w.Errorf("%s until %v, %v; want it held as it was until %v", got.State, got.ExpiresAt, err, alive.ExpiresAt)
					}

					// It is made again, without values.
					edit(tt.was)
					time.Sleep(time.Minute)
					if got := w.page(held); got.Select("status") != "COMPLETED" {
						w.Errorf("the task that was completed is %s", got.Select("status"))
					}
					if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(alive.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held {
						w.Errorf("the other is %s, %v (%s), want it held", got.State, err, got.Detail)
					}
					if p := w.page(kept); shape(p) != "IN_PROGRESS Oracle" || p.Text("claim_token") != string(alive.ID) {
						w.Errorf("its page shows %s and the token %q", shape(p), p.Text("claim_token"))
					}
					if err := renew(); err != nil {
						w.Errorf("renew: %v", err)
					}
					if tt.property == "status" {
						for kind := range tt.was.(map[string]any) {
							w.edit(free, map[string]any{"status": option(kind, "OPEN")})
						}
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
}

// A lease of unknown length does not count as ended.
func TestNothingIsSweptWhileALeaseIsUnknown(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("long", nil)
		n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 5m" })
		w.edit(id, map[string]any{ // not read in time here
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"), "claimed_at": date(time.Now()),
			"claim_token": text("rich_text", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), "claim_timeout_minutes": number(300),
		})
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"claim_timeout_minutes": nil}))
		time.Sleep(2 * time.Hour)
		if got := w.page(id).Select("status"); got != "IN_PROGRESS" {
			w.Errorf("the task is %s", got)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), "claim_timeout_minutes") {
			w.Errorf("sweep = %v, want notion_refused, and why", err)
		}
	})
}

// emptyTasks is the id of every world's tasks database.
const emptyTasks = "2f835e81-2bbb-81b6-9700-e18108a40b1f"

// Queries ask only for the properties in use.
func TestQueriesAskForWhatIsInUse(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("task", nil)
		w.daemon(nil)
		time.Sleep(time.Minute)
		for _, r := range w.notion.Requests() {
			if r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/query") {
				if got := strings.Count(r.RawQuery, "filter_properties="); got != 10 {
					w.Errorf("a query asks for %d properties: %s", got, r.RawQuery)
				}
			}
		}
	})
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
	tests := map[string]struct {
		change, mend func(w *world) error
		config       func(*config.Config) // a reload that repairs it, if any
		says         string
	}{
		"in progress renamed, and back": {
			change: rename("IN_PROGRESS", "Doing"), mend: rename("Doing", "IN_PROGRESS"),
			says: `was renamed to "Doing": set tasks.statuses.in_progress to "Doing", or rename it back`,
		},
		"in progress renamed, and configured": {
			change: rename("IN_PROGRESS", "Doing"), config: func(c *config.Config) { c.Tasks.Statuses.InProgress = "Doing" },
			says: `was renamed to "Doing"`,
		},
		"completed renamed, and configured": {
			change: rename("COMPLETED", "Done"), config: func(c *config.Config) { c.Tasks.Statuses.Completed = "Done" },
			says: `was renamed to "Done": set tasks.statuses.completed to "Done"`,
		},
		"in progress deleted, and made again": {
			change: remove("IN_PROGRESS"), mend: add("IN_PROGRESS"),
			says: `option "IN_PROGRESS" of property "status" was deleted: add what was deleted again, or set tasks.statuses.in_progress`,
		},
		"in progress deleted, and another one made": {
			change: remove("IN_PROGRESS"), mend: add("Doing"), config: func(c *config.Config) { c.Tasks.Statuses.InProgress = "Doing" },
			says: `option "IN_PROGRESS" of property "status" was deleted`,
		},
		"blocked deleted, and made again": {
			change: remove("BLOCKED"), mend: add("BLOCKED"), says: `option "BLOCKED" of property "status" was deleted`,
		},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		for j, noticed := range []string{"by a sync", "by its holder", "by a finish"} {
			for k, kind := range []string{"status", "select"} {
				if !inTurn(i+j, k, 2) {
					continue
				}
				if kind == "select" && noticed == "by a finish" && name == "completed renamed, and configured" {
					continue // the finish creates the option again, and nothing is missing
				}
				t.Run(fmt.Sprintf("%s, a %s, noticed %s", name, kind, noticed), func(t *testing.T) {
					t.Parallel()
					inWorld(t, 0, func(w *world) {
						if kind == "select" {
							w.selectStatus()
						}
						held, kept, free := w.add("held", w.open(kind)), w.add("kept", w.open(kind)), w.add("free", w.open(kind))
						o := w.options(nil)
						n := w.start(o)
						done, alive := n.mustClaim("Sandman", held), n.mustClaim("Oracle", kept)
						time.Sleep(2 * time.Minute)
						n.sync()
						mustDo(w, tt.change(w))
						switch noticed {
						case "by its holder":
							time.Sleep(14 * time.Minute) // half of the lease
							_, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(alive.ID), "", api.RenewRequest{}))
							if err != nil && code(err) != string(claim.CodeNotionRefused) { // nothing on the page shows an option that it does not have
								w.Errorf("renew = %v", err)
							}
						case "by a finish":
							if err := n.complete(done); err != nil {
								w.Error(err)
							}
						}
						time.Sleep(30 * time.Second)
						if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil && !strings.Contains(err.Error(), tt.says) {
							w.Errorf("sync = %v", err)
						}
						time.Sleep(3 * time.Minute)
						if _, err := n.claim("Eve", free); code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), tt.says) {
							w.Errorf("claim = %v, want notion_refused and %s", err, tt.says)
						}
						if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], tt.says) {
							w.Errorf("warnings %q, want one that says %s", s.Warnings, tt.says)
						}
						if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(alive.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held {
							w.Errorf("what is held: %s, %v (%s)", got.State, err, got.Detail)
						}
						if noticed != "by a finish" {
							if err := n.complete(done); err != nil {
								w.Error(err)
							}
						}
						if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(done.ID), After: api.EventsFuture}); err != nil || got.Outcome != claim.EndCompleted {
							w.Errorf("what was completed: %s, %s, %v (%s)", got.State, got.Outcome, err, got.Detail)
						}

						if tt.mend != nil {
							mustDo(w, tt.mend(w))
						}
						c, doing := o.Config, "IN_PROGRESS"
						if tt.config != nil {
							tt.config(&c)
							mustDo(w, n.daemon.Reload(c))
							doing = c.Tasks.Statuses.InProgress
						}
						time.Sleep(6 * time.Minute) // the outbox retries after five minutes at most
						if s := n.status(); len(s.Warnings) != 0 || s.Mirror.Stale {
							w.Errorf("once it is mended: %q, %+v", s.Warnings, s.Mirror)
						}
						if got := w.page(held).Select("status"); got != c.Tasks.Statuses.Completed {
							w.Errorf("the task that was completed shows %s", got)
						}
						if p := w.page(kept); p.Select("status") != doing || p.Text("claim_token") != string(alive.ID) {
							w.Errorf("the task that is held shows %s of %q, want it in progress", p.Select("status"), p.Text("claim_token"))
						}
						if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(alive.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held {
							w.Errorf("what is held, in the end: %s, %v (%s)", got.State, err, got.Detail)
						}
						if err := n.complete(alive); err != nil {
							w.Error(err)
						}
						n.mustClaim("Eve", free)
					})
				})
			}
		}
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
				refused := func(says string) {
					o := o
					o.Listener = server.NewPipe()
					if _, err := daemon.Start(w.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
						w.Errorf("start = %v, want %s", err, says)
					}
				}
				mustDo(w, w.notion.RenameOption(w.tasks, "status", "IN_PROGRESS", "Doing"))
				refused(`was renamed to "Doing": set tasks.statuses.in_progress to "Doing"`)
				o.Config.Tasks.Statuses.InProgress = "Doing"
				n = w.start(o)
				time.Sleep(time.Minute)
				n.sync()
				n.stop()

				mustDo(w, w.notion.DeleteOption(w.tasks, "status", "Doing"))
				refused(`option "Doing" of property "status" was deleted`)
				mustDo(w, w.notion.AddOption(w.tasks, "status", "Doing"))
				n = w.start(o)
				time.Sleep(time.Minute)
				if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held || w.page(id).Select("status") != "Doing" {
					w.Errorf("the claim: %s, %v (%s); the task shows %q", got.State, err, got.Detail, w.page(id).Select("status"))
				}
			})
		})
	}
}

// A person's change of a held task still counts as one if the option existed all the time, or has
// been back for a while.
func TestAPersonsStatusIsNotTakenForALostOne(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("first", nil), w.add("second", nil)
		n := w.daemon(nil)
		one, two := n.mustClaim("Sandman", first), n.mustClaim("Oracle", second)
		w.edit(first, map[string]any{"status": option("status", "OPEN")})
		time.Sleep(time.Minute)
		mustDo(w, w.notion.DeleteOption(w.tasks, "status", "IN_PROGRESS"))
		time.Sleep(time.Minute)
		mustDo(w, w.notion.AddOption(w.tasks, "status", "IN_PROGRESS"))
		time.Sleep(time.Minute)
		w.edit(second, map[string]any{"status": option("status", "OPEN")})
		time.Sleep(time.Minute)
		for _, cl := range []api.Claim{one, two} {
			if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.State != claim.Ended || got.Outcome != claim.EndLost {
				w.Errorf("%s: %s, %s, %v; want it lost", cl.Task.Title, got.State, got.Outcome, err)
			}
		}
	})
}

// A person's edit counts although a column was deleted and made again: within the minute in which it
// came back, and while no daemon ran.
func TestAPersonsEditOfALostColumn(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct {
		column string
		person map[string]any
	}{
		"name cleared":  {"claimed_by", map[string]any{"claimed_by": text("rich_text", "")}},
		"handed out":    {"claim_token", map[string]any{"status": option("status", "OPEN")}},
		"token cleared": {"claim_token", map[string]any{"claim_token": text("rich_text", "")}},
	} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, away: %v", name, away), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					id := w.add("held", nil)
					o := w.options(nil)
					n := w.start(o)
					cl := n.mustClaim("Sandman", id)
					n.sync()
					if away {
						n.stop()
					}
					for _, to := range []any{nil, typed("rich_text")} {
						mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{edit.column: to}))
					}
					w.edit(id, edit.person)
					if away {
						n = w.start(o)
					}
					time.Sleep(time.Minute)
					if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.State != claim.Ended || got.Outcome != claim.EndLost {
						w.Errorf("the claim is %s, %s, %v; want it lost", got.State, got.Outcome, err)
					}
					if p := w.page(id); shape(p) == "IN_PROGRESS Sandman" && p.Text("claim_token") != "" {
						w.Error("the claim was written over the edit")
					}
				})
			})
		}
	}
}

// selectStatus changes the board's status to a select with all its options.
func (w *world) selectStatus() {
	w.Helper()
	options := []any{}
	for _, name := range []string{"OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"} {
		options = append(options, map[string]any{"name": name})
	}
	mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"status": map[string]any{"select": map[string]any{"options": options}}}))
}

// open returns the properties of an open task.
func (w *world) open(kind string) map[string]any {
	return map[string]any{"status": option(kind, "OPEN")}
}
