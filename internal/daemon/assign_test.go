package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// ready returns the titles of the tasks that dibs ready lists for the agent.
func (n *node) ready(agent string) []string {
	n.w.Helper()
	list, err := n.Tasks(n.w.Context(), api.TaskFilter{Ready: true, Agent: agent})
	if err != nil {
		n.w.Fatal(err)
	}
	titles := []string{}
	for _, t := range list.Tasks {
		titles = append(titles, t.Title)
		if !t.Ready {
			n.w.Errorf("%q is listed as ready for %q and said not to be", t.Title, agent)
		}
	}
	return titles
}

// A name without a date is an assignment, for every type of claimed_by: that agent may claim the
// task, before all others on the list, and nobody else.
func TestAssignedTasks(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const sandman, oracle, maria = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02", "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a03", "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"
	user := func(id string) any { return map[string]any{"people": []any{map[string]any{"id": id}}} }
	for kind, by := range map[string]func(string) any{
		"rich_text": func(who string) any { return text("rich_text", who) },
		"select":    func(who string) any { return option("select", who) },
		"people": func(who string) any {
			return user(map[string]string{"Sandman": sandman, "Oracle": oracle, "Maria": maria}[who])
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"claimed_by": map[string]any{kind: map[string]any{}}}))
				w.add("urgent", map[string]any{"priority": option("select", "critical")})
				theirs := w.add("theirs", map[string]any{"claimed_by": by("Maria"), "priority": option("select", "critical")})
				later := w.add("later", map[string]any{"claimed_by": by("Sandman"), "priority": option("select", "low")})
				first := w.add("first", map[string]any{"claimed_by": by("Sandman"), "priority": option("select", "high")})
				begun := w.add("begun", map[string]any{"claimed_by": by("Sandman"), "status": option("status", "IN_PROGRESS"), "priority": option("select", "medium")})
				waits := w.add("waits", map[string]any{"claimed_by": by("Sandman"), "depends_on": relation(first)})
				n := w.daemon(func(c *config.Config) {
					if kind == "people" {
						c.Agents = dialectAgents
					}
				})
				for agent, want := range map[string][]string{
					"Sandman": {"first", "begun", "later", "urgent"}, "Oracle": {"urgent"}, "": {"urgent"},
				} {
					if got := n.ready(agent); !slices.Equal(got, want) {
						w.Errorf("ready for %q: %q, want %q", agent, got, want)
					}
				}
				for id, want := range map[string]string{theirs: "", first: "Sandman", begun: "Sandman", waits: "Sandman"} {
					if got := n.task(id); got.AssignedTo == "" || want != "" && got.AssignedTo != want || got.Ready || !got.ExpiresAt.IsZero() {
						w.Errorf("%+v, want it assigned to %q, and ready for nobody else", got, want)
					}
				}
				for _, id := range []string{first, begun, theirs} {
					_, err := n.claim("Oracle", id)
					if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "is assigned to") {
						w.Errorf("Oracle claims what is assigned to others: %v", err)
					}
				}
				if _, err := n.claim("Sandman", waits); code(err) != denied(claim.CodeBlockedByDependency) {
					w.Errorf("Sandman claims what waits: %v", err)
				}
				if cl := n.mustClaim("Oracle", ""); cl.Task.Title != "urgent" {
					w.Errorf("Oracle was offered %q, want what is nobody's", cl.Task.Title)
				}
				for _, id := range []string{first, begun, later} {
					cl := n.mustClaim("Sandman", "")
					if string(cl.Task.ID) != id || cl.Override {
						w.Errorf("Sandman was offered %q, override %v", cl.Task.Title, cl.Override)
					}
					if p := w.page(id); p.Select("status") != "IN_PROGRESS" || p.Date("claimed_at") == "" || p.Text("claim_token") != string(cl.ID) {
						w.Errorf("%q shows %s since %q, want the claim", cl.Task.Title, p.Select("status"), p.Date("claimed_at"))
					}
					if err := n.complete(cl); err != nil {
						w.Error(err)
					}
				}
				if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != waits {
					w.Errorf("Sandman was offered %q, want what waited", cl.Task.Title)
				}
				for _, agent := range []string{"Sandman", "Oracle"} {
					if _, err := n.claim(agent, ""); code(err) != denied(claim.CodeNothingReady) {
						w.Errorf("%s: %v, want nothing ready", agent, err)
					}
				}
				// A task without a date is never swept.
				time.Sleep(3 * time.Hour)
				if got := n.task(theirs); got.AssignedTo == "" || got.Agent == "" {
					w.Errorf("after three hours: %+v", got)
				}
			})
		})
	}
}

// Notion gives the time of creation to the minute. The unique id gives the order within it, under
// any property name, and after a restart without Notion, too.
func TestTasksOfOneMinuteAreOfferedInTheirOrder(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]map[string]any{
		"as it is":         {},
		"renamed":          {"ID": map[string]any{"name": "Nummer"}},
		"without a prefix": {"ID": map[string]any{"unique_id": map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				mustDo(w, w.notion.EditSchema(w.tasks, schema))
				var want []string
				for i := range 24 { // sorting by page id would give another order
					title := string(rune('a' + i))
					w.add(title, nil)
					want = append(want, title)
				}
				o := w.options(nil)
				n := w.start(o)
				if got := n.ready(""); !slices.Equal(got, want) {
					w.Errorf("ready %q, want %q", got, want)
				}
				n.stop()
				defer w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})()
				n = w.start(o)
				if got := n.ready(""); !slices.Equal(got, want) {
					w.Errorf("without Notion: ready %q, want %q", got, want)
				}
			})
		})
	}
}
