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
						_, err := n.Renew(w.Context(), string(alive.ID), api.RenewRequest{}, "")
						return err
					}
					switch noticed {
					case "by its holder":
						refused("renew", renew())
					case "by a sync":
						_, err := n.Sync(w.Context(), api.SyncRequest{}, "")
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
					list, err := n.Tasks(w.Context(), api.TaskFilter{Ready: true})
					if err != nil || slices.ContainsFunc(list.Tasks, func(t api.Task) bool { return t.Title == "waits" || t.Title == "held" }) {
						w.Errorf("ready: %+v, %v; want none that waits or is held", list.Tasks, err)
					}
					refused("renew", renew())
					ended, err := n.Complete(w.Context(), string(done.ID), api.CompleteRequest{}, "")
					if err != nil || ended.State != claim.Finishing {
						w.Errorf("complete: state = %q, err = %v, want it owed", ended.State, err)
					}
					if got, err := n.Lookup(w.Context(), string(alive.ID), ""); err != nil || got.State != claim.Held || got.ExpiresAt.Before(alive.ExpiresAt.Time) {
						w.Errorf("%s until %v, %v; want it held as it was until %v", got.State, got.ExpiresAt, err, alive.ExpiresAt)
					}

					// It is made again, without values.
					edit(tt.was)
					time.Sleep(time.Minute)
					if got := w.page(held); got.Select("status") != "COMPLETED" {
						w.Errorf("the task that was completed is %s", got.Select("status"))
					}
					if got, err := n.Lookup(w.Context(), string(alive.ID), ""); err != nil || got.State != claim.Held {
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
