package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// inScope runs a test on a company's board, of which agents may have the tasks of one area that are
// ready.
func inScope(t *testing.T, test func(w *world, use func(*config.Config))) {
	t.Helper()
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		test(w, func(c *config.Config) { c.Tasks.Only = []string{"Area=api", "Urgent = yes"} })
	})
}

func checked(is bool) any { return map[string]any{"checkbox": is} }

func TestOnlyTasksOfTheScope(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		inside := w.add("inside", map[string]any{"Area": areas("API", "Web"), "Urgent": checked(true)})
		half := w.add("half", map[string]any{"Area": areas("API")})
		bare := w.add("bare", nil)
		named := w.add("named", map[string]any{"claimed_by": text("rich_text", "Sandman")})
		dependent := w.add("dependent", map[string]any{"Area": areas("API"), "Urgent": checked(true), "depends_on": relation(bare)})
		n := w.daemon(use)
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"inside"}) {
			w.Errorf("ready: %q", got)
		}
		w.notion.ResetRequests()
		for id, lacks := range map[string]string{half: "its Urgent is no", bare: "its Area is empty, its Urgent is no", named: "its Area is empty"} {
			if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeNotOffered) || !strings.Contains(err.Error(), lacks) {
				w.Errorf("%v, want not_offered, and %q", err, lacks)
			}
			if got := n.task(id); id != named && got.Code != string(claim.CodeNotOffered) {
				w.Errorf("%+v, want it not offered", got)
			}
		}
		if _, err := n.Offer(w.Context(), task.ID(half), api.OfferRequest{Agent: "Sandman", To: "Oracle"}, ""); code(err) != denied(claim.CodeNotOffered) {
			w.Errorf("offered: %v, want not_offered", err)
		}
		if sent := w.requests(); slices.Contains(sent, "PATCH page") {
			w.Errorf("requests %q: want nothing written outside of the scope", sent)
		}
		if got := n.task(dependent); got.Code != string(claim.CodeBlockedByDependency) {
			w.Errorf("%+v, want it to wait for a task of the others", got)
		}

		// What leaves the scope while it is held stays with its agent.
		cl := n.mustClaim("Sandman", "")
		w.edit(inside, map[string]any{"Area": areas("Web")})
		time.Sleep(2 * interval)
		if got := n.task(inside); got.ClaimID != cl.ID {
			w.Errorf("%+v, want it to be Sandman's still", got)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		if _, err := n.claim("Sandman", ""); code(err) != denied(claim.CodeNothingReady) || !strings.Contains(err.Error(), "3 are not for agents") {
			w.Errorf("%v, want nothing ready, and why", err)
		}
		// And what comes into it can be claimed.
		after := n.last()
		w.edit(bare, map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		time.Sleep(2 * interval)
		n.wantEvents(after, `ready "bare"`)
		n.mustClaim("Oracle", bare)
	})
}

// The board is asked for the tasks of the scope alone. What was edited lately is seen all the same.
func TestScopeIsAFilter(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		for i := range 5 {
			w.add(fmt.Sprint("old ", i), nil)
		}
		stranger := w.add("asked for", nil)
		w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true), "depends_on": relation(stranger)})
		time.Sleep(48 * time.Hour) // so that nobody edited them lately
		n := w.daemon(func(c *config.Config) { use(c); c.Sync.KeepFinished = time.Hour })
		if got := n.titles(); !slices.Equal(got, []string{"asked for", "inside"}) {
			w.Errorf("the daemon read %q", got)
		}
		if got := n.task(stranger); got.Code != string(claim.CodeNotOffered) {
			w.Errorf("%+v, want what a task depends on to be looked up", got)
		}
		w.add("new", nil)
		time.Sleep(2 * interval)
		if got := n.titles(); !slices.Contains(got, "new") {
			w.Errorf("%q, want what was added since", got)
		}
		time.Sleep(3 * time.Hour)
		if got := n.titles(); slices.Contains(got, "new") {
			w.Errorf("%q, want the others' task forgotten once it is old", got)
		}
	})
}

func TestAddedInScope(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		n := w.daemon(use)
		added := n.mustAdd(api.AddRequest{Title: "new"}, "")
		if got := w.page(string(added.ID)); got.Text("Area") != "API" {
			w.Errorf("the page shows Area %q", got.Text("Area"))
		}
		if !added.Ready {
			w.Errorf("%+v, want it ready", added)
		}
		other := n.mustAdd(api.AddRequest{Title: "theirs", Fields: map[string]any{"Area": "Web"}}, "")
		if got := w.page(string(other.ID)).Text("Area"); got != "Web" || other.Code != string(claim.CodeNotOffered) {
			w.Errorf("Area %q, %+v, want what was asked for", got, other)
		}
	})
}

// Without the property nobody knows what is for agents.
func TestScopeWithoutItsProperty(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		inside := w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		n := w.daemon(use)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Area": nil}))
		if _, err := n.claim("Sandman", inside); err == nil {
			w.Error("a task was claimed without the property that says what is for agents")
		}
		if _, err := w.begin(w.options(use)); err == nil || !strings.Contains(err.Error(), `property "Area" of tasks.only is missing`) {
			w.Errorf("the start without the property: %v", err)
		}
	})
}
