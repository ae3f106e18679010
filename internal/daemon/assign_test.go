package daemon_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// ready returns the titles of the tasks that dibs ready lists for the agent.
func (n *node) ready(agent string) []string {
	n.w.Helper()
	list, err := client.Do(n.w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Ready: true, Agent: agent})
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

// A name without a date is an assignment: that agent may claim the task, before all others on the list, and nobody else.
func TestAssignedTasks(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("urgent", map[string]any{"priority": option("select", "critical")})
		theirs := w.add("theirs", map[string]any{"claimed_by": text("rich_text", "Maria"), "priority": option("select", "critical")})
		his := w.add("his", map[string]any{"claimed_by": text("rich_text", "Sandman"), "priority": option("select", "low")})
		n := w.daemon(nil)
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"his", "urgent"}) {
			w.Errorf("ready for Sandman: %q", got)
		}
		for _, id := range []string{his, theirs} {
			if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "is assigned to") {
				w.Errorf("Oracle claims what is assigned to others: %v", err)
			}
		}
		if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != his || cl.Override {
			w.Errorf("Sandman was offered %q, override %v", cl.Task.Title, cl.Override)
		}
		time.Sleep(3 * time.Hour) // a task without a date is never swept
		if got := n.task(theirs); got.AssignedTo != "Maria" || got.Ready || !got.ExpiresAt.IsZero() {
			w.Errorf("after three hours: %+v", got)
		}
	})
}

// Notion gives the time of creation to the minute. The unique id gives the order within it, under any property name,
// and after a restart without Notion, too.
func TestTasksOfOneMinuteAreOfferedInTheirOrder(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"ID": map[string]any{"name": "Nummer"}}))
		var want []string
		for i := range 24 { // sorting by page id would give another order
			want = append(want, string(rune('a'+i)))
			w.add(want[i], nil)
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
}

// inColumn is the value of a column of people.
func inColumn(users ...string) any {
	people := []any{}
	for _, id := range users {
		people = append(people, map[string]any{"id": id})
	}
	return map[string]any{"people": people}
}

// person adds a person to the workspace.
func (w *world) person(name string) (id string) {
	w.Helper()
	id, err := w.notion.AddPerson(name, "")
	mustDo(w, err)
	return id
}

// inTeam runs a test on a board with a column Who of people, which the daemons of the test read
// as the assignee.
func inTeam(t *testing.T, test func(w *world, use func(*config.Config))) {
	t.Helper()
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Who": typed("people")}))
		test(w, func(c *config.Config) { c.Tasks.Properties.Assignee = "Who" })
	})
}

// Whoever is in the column has the task. A bot that stands for an agent leaves it to that agent. dibs writes nothing
// into the column.
func TestWhoeverIsAssignedHasTheTask(t *testing.T) {
	testkit.RacedElsewhere(t)
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria, tom, bot := w.person("Maria"), w.person("Tom"), w.person("Sandman's bot")
		theirs := w.add("theirs", map[string]any{"Who": inColumn(maria, tom)})
		begun := w.add("begun", map[string]any{"Who": inColumn(maria), "status": option("status", "IN_PROGRESS")})
		his := w.add("his", map[string]any{"Who": inColumn(bot), "status": option("status", "IN_PROGRESS")})
		n := w.daemon(func(c *config.Config) {
			use(c)
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: bot}, {Name: "Oracle"}, {Name: "Maria"}}
		})
		for agent, want := range map[string][]string{"Sandman": {"his"}, "Oracle": {}, "Maria": {}} {
			if got := n.ready(agent); !slices.Equal(got, want) {
				w.Errorf("ready for %s: %q, want %q", agent, got, want)
			}
		}
		for id, who := range map[string]string{theirs: "Maria, Tom", begun: "Maria"} {
			_, err := n.claim("Maria", id) // a person has the name that the agent gives itself
			if p, ok := errors.AsType[*api.Problem](err); !ok || code(err) != denied(claim.CodeReserved) || p.Holder != who || n.task(id).AssignedTo != who {
				w.Errorf("Maria claims what %s has: %v", who, err)
			}
		}
		n.wantInbox("Maria", 0) // the agent of a person's name is not told of the person's tasks
		cl := n.mustClaim("Sandman", "")
		if _, err := n.claim("Oracle", his); code(err) != denied(claim.CodeHeld) {
			w.Errorf("Oracle: %v, want held by Sandman", err)
		}
		time.Sleep(5 * time.Minute)
		mustDo(w, n.release(string(cl.ID)))
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"his"}) {
			w.Errorf("ready for Sandman after the release: %q", got)
		}
		mustDo(w, n.complete(n.mustClaim("Sandman", his)))
		w.drag(his, task.Open)
		w.edit(theirs, map[string]any{"Who": inColumn()})
		time.Sleep(2 * interval)
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"his", "theirs"}) {
			w.Errorf("ready for Sandman, once it is open again: %q", got)
		}
		if w.page(his).Text("Who") != "Sandman's bot" || w.page(begun).Text("Who") != "Maria" {
			w.Error("somebody wrote into the column")
		}
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Who": nil})) // nobody knows what people have
		if _, err := n.claim("Sandman", theirs); err == nil {
			w.Error("a task was claimed without the column")
		}
	})
}

// Who is assigned to a task while an agent has it, or is about to, has it.
func TestAssignedWhileHeld(t *testing.T) {
	testkit.RacedElsewhere(t)
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria := w.person("Maria")
		n := w.daemon(use)
		assign := func(id string) { w.edit(id, map[string]any{"Who": inColumn(maria)}) }
		hers := func(id string) {
			w.Helper()
			if w.sees(id, openCard); w.page(id).Text("Who") != "Maria" {
				w.Errorf("the column has %q", w.page(id).Text("Who"))
			}
		}
		id := w.add("contested", nil)
		time.AfterFunc(config.Default().Claim.Settle/2, func() { assign(id) })
		if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "Maria") {
			w.Errorf("err = %v, want reserved for Maria", err)
		}
		time.Sleep(time.Minute)
		hers(id)
		id = w.add("held", nil)
		cl, after := n.mustClaim("Sandman", id), n.last()
		assign(id)
		time.Sleep(2 * interval)
		hers(id)
		if got := n.eventsAfter(after); !slices.Contains(got, `reassigned Sandman Maria "held"`) {
			w.Errorf("events %q, want that it was reassigned", got)
		}
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "assigned to Maria") {
			w.Errorf("completed what was given to Maria: %v, want claim_lost, and who has it", err)
		}
	})
}
