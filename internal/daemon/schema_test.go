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
	"dibs/internal/claim"
	"dibs/internal/task"
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

// A missing property stops claims, and otherwise only what needs it.
func TestPropertiesThatAreGoneStopClaims(t *testing.T) {
	t.Parallel()
	of := func(kind string, config map[string]any) map[string]any { return map[string]any{kind: config} }
	tests := map[string]struct {
		property string
		is       any  // nil if removed
		was      any  // its type
		works    bool // live claims can be renewed and finished
		stale    bool // tasks cannot be read
	}{
		"claimed_by removed":            {property: "claimed_by", was: of("rich_text", nil)},
		"claimed_at of another type":    {property: "claimed_at", is: of("rich_text", nil), was: of("date", nil)},
		"claim_token removed":           {property: "claim_token", was: of("rich_text", nil)},
		"claim_timeout_minutes removed": {property: "claim_timeout_minutes", was: of("number", nil), works: true},
		"priority removed":              {property: "priority", was: of("select", nil), works: true},
		"depends_on removed":            {property: "depends_on", was: of("relation", map[string]any{"database_id": emptyTasks, "type": "single_property", "single_property": map[string]any{}}), works: true},
		"depends_on of another type":    {property: "depends_on", is: of("rich_text", nil), was: of("relation", map[string]any{"database_id": emptyTasks, "type": "single_property", "single_property": map[string]any{}}), works: true},
		"status of another type":        {property: "status", is: of("rich_text", nil), was: of("select", nil), stale: true},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		for j, noticed := range []string{"by a claim", "by its holder", "by a sync"} {
			if !inTurn(i, j, 3) && (testing.Short() || !tt.stale) {
				continue // each property once, and each way of noticing what stops, what goes on, and what cannot be read
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
					renew := func() {
						_, err := n.Renew(w.Context(), string(alive.ID), api.RenewRequest{}, "")
						if tt.works && err != nil || !tt.works && (code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), tt.property)) {
							w.Errorf("renew = %v", err)
						}
					}
					switch noticed {
					case "by its holder":
						renew()
					case "by a sync":
						if _, err := n.Sync(w.Context(), api.SyncRequest{}, ""); (err != nil) != tt.stale {
							w.Errorf("sync = %v", err)
						}
					}
					says := fmt.Sprintf("%q", tt.property)
					for range 2 {
						if _, err := n.claim("Eve", free); code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), says) {
							w.Errorf("claim = %v, want notion_refused and %s", err, says)
						}
					}
					if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], says) || !strings.Contains(s.Warnings[0], "claimed") {
						w.Errorf("warnings: %q, want one that says %s", s.Warnings, says)
					}

					// Nothing else stops.
					if !tt.stale {
						w.add("new", nil)
					}
					time.Sleep(20 * time.Second)
					if s := n.status(); s.Mirror.Stale != tt.stale || (s.Notion.LastError != "") != tt.stale {
						w.Errorf("mirror = %+v, notion = %+v", s.Mirror, s.Notion)
					}
					if tt.stale {
						w.add("new", nil)
					}
					for title, want := range map[string]bool{"held": true, "new": !tt.stale} {
						if slices.Contains(n.titles(), title) != want {
							w.Errorf("%q among %q: %v", title, n.titles(), !want)
						}
					}
					list, err := n.Tasks(w.Context(), api.TaskFilter{Ready: true})
					if err != nil || slices.ContainsFunc(list.Tasks, func(t api.Task) bool { return t.Title == "waits" || t.Title == "held" }) {
						w.Errorf("ready: %+v, %v; want none that waits or is held", list.Tasks, err)
					}
					for _, cl := range []api.Claim{done, alive} {
						if got, err := n.Lookup(w.Context(), string(cl.ID), ""); err != nil || got.State != claim.Held || got.ExpiresAt.Before(cl.ExpiresAt.Time) {
							w.Errorf("%s: %s until %v, %v; want it as it was until %v", cl.Task.Title, got.State, got.ExpiresAt, err, cl.ExpiresAt)
						}
					}
					renew()
					wantState, wantStatus := claim.Finishing, "IN_PROGRESS"
					if tt.works {
						wantState, wantStatus = claim.Ended, "COMPLETED"
					}
					ended, err := n.Complete(w.Context(), string(done.ID), api.CompleteRequest{}, "")
					if err != nil || ended.State != wantState {
						w.Errorf("complete: state = %q, err = %v, want it %s", ended.State, err, wantState)
					}
					if got := w.page(held).Select("status"); !tt.stale && got != wantStatus {
						w.Errorf("the task that was completed is %s, want %s", got, wantStatus)
					}

					// It is created again, without values.
					edit(tt.was)
					if tt.stale {
						w.edit(free, map[string]any{"status": option("select", "OPEN")})
					}
					time.Sleep(time.Minute)
					n.mustClaim("Eve", free)
					if s := n.status(); len(s.Warnings) != 0 && !tt.stale || s.Mirror.Stale {
						w.Errorf("once it is mended: warnings %q, mirror %+v", s.Warnings, s.Mirror)
					}
					if list, err = n.Tasks(w.Context(), api.TaskFilter{}); err != nil {
						w.Fatal(err)
					}
					for _, seen := range list.Tasks {
						if tt.is == nil && tt.property == "depends_on" && len(seen.DependsOn) != 0 || tt.property == "priority" && seen.Priority != task.None.String() {
							w.Errorf("%q waits for %v and is of priority %s as if nothing had been lost", seen.Title, seen.DependsOn, seen.Priority)
						}
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
		if _, err := n.Sweep(w.Context(), ""); code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), "claim_timeout_minutes") {
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
