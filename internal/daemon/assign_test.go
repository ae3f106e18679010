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

	"github.com/google/go-cmp/cmp"
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

func TestWhoeverIsAssignedHasTheTask(t *testing.T) {
	testkit.RacedElsewhere(t)
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria, team := w.person("Maria"), w.person("Tom")
		hers := w.add("hers", map[string]any{"Who": inColumn(maria)})
		theirs := w.add("theirs", map[string]any{"Who": inColumn(maria, team)})
		begun := w.add("begun", map[string]any{"Who": inColumn(maria), "status": option("status", "IN_PROGRESS")})
		n := w.daemon(use)
		if got := n.ready("Sandman"); len(got) > 0 {
			w.Errorf("ready: %q, want nothing", got)
		}
		w.notion.ResetRequests()
		// A person has the name that the agent gives itself.
		for _, agent := range []string{"Sandman", "Maria"} {
			if _, err := n.claim(agent, ""); code(err) != denied(claim.CodeNothingReady) || !strings.Contains(err.Error(), "assigned") {
				w.Errorf("%s asks for any task: %v, want nothing ready, and why", agent, err)
			}
			for id, who := range map[string]string{hers: "Maria", theirs: "Maria, Tom", begun: "Maria"} {
				_, err := n.claim(agent, id)
				if p, ok := errors.AsType[*api.Problem](err); !ok || code(err) != denied(claim.CodeReserved) || p.Holder != who {
					w.Errorf("%s claims what %s has: %v", agent, who, err)
				}
				if got := n.task(id); got.AssignedTo != who || got.Ready {
					w.Errorf("%+v, want it assigned to %s", got, who)
				}
			}
		}
		if sent := w.requests(); slices.Contains(sent, "PATCH page") {
			w.Errorf("requests: %q, want nothing written to what people have", sent)
		}
		w.edit(hers, map[string]any{"Who": inColumn()})
		time.Sleep(2 * interval)
		if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != hers {
			w.Errorf("Sandman got %q, want the task that nobody has any more", cl.Task.Title)
		}
		if got := w.page(theirs).Text("Who"); got != "Maria, Tom" {
			w.Errorf("the column shows %q, want what people wrote", got)
		}
	})
}

func TestAssignedWhileHeld(t *testing.T) {
	testkit.RacedElsewhere(t)
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria := w.person("Maria")
		seen, unseen := w.add("seen", nil), w.add("unseen", nil)
		n := w.daemon(use)
		first, second := n.mustClaim("Sandman", seen), n.mustClaim("Oracle", unseen)
		after := n.last()
		w.edit(seen, map[string]any{"Who": inColumn(maria)})
		time.Sleep(2 * interval)
		hers := func(id string) {
			w.Helper()
			if diff := cmp.Diff(openCard, show(w.page(id))); diff != "" || w.page(id).Text("Who") != "Maria" {
				w.Errorf("the card, with %q in its column (-want +got):\n%s", w.page(id).Text("Who"), diff)
			}
		}
		hers(seen)
		if got := n.eventsAfter(after); !slices.Contains(got, `reassigned Sandman Maria "seen"`) {
			w.Errorf("events %q, want that it was reassigned", got)
		}
		// The other one is found out by the finish.
		w.edit(unseen, map[string]any{"Who": inColumn(maria)})
		for _, cl := range []api.Claim{first, second} {
			if err := n.complete(cl); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "assigned to Maria") {
				w.Errorf("%s completes what was given to Maria: %v, want claim_lost, and who has it", cl.Agent, err)
			}
		}
		hers(unseen)
		if _, err := n.claim("Sandman", unseen); code(err) != denied(claim.CodeReserved) {
			w.Errorf("Sandman asks again: %v, want reserved", err)
		}
	})
}

// Somebody is assigned between the claim write and the read that verifies it.
func TestAssignedWhileAClaimSettles(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria := w.person("Maria")
		id := w.add("contested", nil)
		n := w.daemon(use)
		go func() {
			time.Sleep(config.Default().Claim.Settle / 2)
			w.edit(id, map[string]any{"Who": inColumn(maria)})
		}()
		_, err := n.claim("Sandman", id)
		if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "Maria") {
			w.Errorf("err = %v, want reserved for Maria", err)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff(openCard, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
	})
}

// The name in the column is not one that a claim leaves behind when it is taken off.
func TestBotsAttemptIsOverruled(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		sandman := w.person("Sandman's bot")
		id := w.add("for Sandman", map[string]any{"Who": inColumn(sandman)})
		n := w.daemon(func(c *config.Config) {
			use(c)
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}}
		})
		go func() {
			time.Sleep(config.Default().Claim.Settle / 2)
			w.drag(id, task.Blocked)
		}()
		if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeNotOpen) {
			w.Errorf("err = %v, want not_open", err)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff(shown{Status: "BLOCKED"}, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
	})
}

// A bot that stands for an agent leaves the task to that agent, and its claim lives.
func TestAgentsBotIsAssigned(t *testing.T) {
	testkit.RacedElsewhere(t)
	inTeam(t, func(w *world, use func(*config.Config)) {
		sandman, other := w.person("Sandman's bot"), w.person("Notion AI")
		id := w.add("for Sandman", map[string]any{"Who": inColumn(sandman)})
		begun := w.add("begun", map[string]any{"Who": inColumn(sandman), "status": option("status", "IN_PROGRESS")})
		w.add("for a bot of nobody", map[string]any{"Who": inColumn(other)})
		n := w.daemon(func(c *config.Config) {
			use(c)
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}, {Name: "Oracle"}}
		})
		if got := n.ready("Oracle"); len(got) > 0 {
			w.Errorf("ready for Oracle: %q, want nothing", got)
		}
		if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeReserved) {
			w.Errorf("Oracle: %v, want reserved", err)
		}
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"for Sandman", "begun"}) {
			w.Errorf("ready for Sandman: %q", got)
		}
		first, second := n.mustClaim("Sandman", ""), n.mustClaim("Sandman", "")
		if string(first.Task.ID) != id || string(second.Task.ID) != begun {
			w.Errorf("Sandman got %q and %q", first.Task.Title, second.Task.Title)
		}
		time.Sleep(5 * time.Minute)
		if err := n.complete(first); err != nil {
			w.Error(err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(second.ID), "", api.StopRequest{Agent: "Sandman"})); err != nil {
			w.Error(err)
		}
		if diff := cmp.Diff(openCard, show(w.page(begun))); diff != "" || w.page(begun).Text("Who") != "Sandman's bot" {
			w.Errorf("after the release, with %q in the column (-want +got):\n%s", w.page(begun).Text("Who"), diff)
		}
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"begun"}) {
			w.Errorf("ready for Sandman after the release: %q", got)
		}
	})
}

// Without the column nobody knows what people have: nothing is claimed.
func TestColumnOfAssigneesGoes(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria := w.person("Maria")
		w.add("hers", map[string]any{"Who": inColumn(maria)})
		free := w.add("free", nil)
		n := w.daemon(use)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Who": nil}))
		if _, err := n.claim("Sandman", free); err == nil {
			w.Error("a task was claimed without the column")
		}
		time.Sleep(2 * interval)
		if got := n.ready("Sandman"); slices.Contains(got, "hers") {
			w.Errorf("ready: %q", got)
		}
	})
}

// The column outlives what a claim leaves on the card: done and dragged to OPEN, or gone stale.
func TestColumnOutlivesAClaim(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		sandman := w.person("Sandman's bot")
		column := inColumn(sandman)
		done, stale := w.add("done", map[string]any{"Who": column}), w.add("stale", map[string]any{
			"Who": column, "status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Oracle"), "claimed_at": date(time.Now().Add(-2 * time.Hour)),
		})
		n := w.daemon(func(c *config.Config) {
			use(c)
			c.Schedule.Sweep = "@every 100h"
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}, {Name: "Oracle"}}
		})
		if err := n.complete(n.mustClaim("Sandman", done)); err != nil {
			w.Fatal(err)
		}
		n.react("Sandman", 0)
		w.drag(done, task.Open)
		time.Sleep(2 * interval)
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"done", "stale"}) {
			w.Errorf("ready for Sandman: %q", got)
		}
		if got := n.ready("Oracle"); len(got) > 0 {
			w.Errorf("ready for Oracle: %q, want nothing", got)
		}
		n.wantInbox("Sandman", 0, "task_assigned done")
		if cl := n.mustClaim("Sandman", stale); cl.Task.Title != "stale" {
			w.Errorf("%+v", cl)
		}
		// Who asks now learns that the very agent works on it.
		var p *api.Problem
		if _, err := n.claim("Oracle", stale); !errors.As(err, &p) || code(err) != denied(claim.CodeHeld) || p.Holder != "Sandman" {
			w.Errorf("Oracle: %v, want held by Sandman", err)
		}
	})
}

// dibs does not write into the column: what it gives to somebody is not handed on through dibs.
func TestColumnIsNotHandedOn(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		sandman, maria := w.person("Sandman's bot"), w.person("Maria")
		id := w.add("for Sandman", map[string]any{"Who": inColumn(sandman)})
		hers := w.add("hers", map[string]any{"Who": inColumn(maria), "status": option("status", "IN_PROGRESS")})
		n := w.daemon(func(c *config.Config) {
			use(c)
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}, {Name: "Oracle"}, {Name: "Maria"}}
		})
		_, offered := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(id), "", api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "yours"}))
		_, declined := client.Do(w.Context(), n.Client, api.OpDecline, api.OnTask(task.ID(id), "", api.DeclineRequest{Agent: "Sandman"}))
		for _, err := range []error{offered, declined} {
			if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "dibs does not write there") {
				w.Errorf("%v, want reserved, and who can change it", err)
			}
		}
		_, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: hers, Body: &api.ReopenRequest{Was: "IN_PROGRESS"}})
		if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "Maria") {
			w.Errorf("reopened while Maria works on it: %v", err)
		}
		if sent := w.requests(); slices.Contains(sent, "PATCH page") {
			w.Errorf("requests: %q, want nothing written", sent)
		}
		n.wantInbox("Maria", 0) // the agent of a person's name is not told of the person's tasks
		list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Agent: "Maria"})
		mustDo(w, err)
		if len(list.Tasks) != 1 || list.Tasks[0].AssignedTo != "Maria" {
			w.Errorf("the tasks of Maria: %+v", list.Tasks)
		}
	})
}

// The name is taken off in the same gesture that assigns somebody.
func TestAssignedInsteadOfTheName(t *testing.T) {
	inTeam(t, func(w *world, use func(*config.Config)) {
		maria := w.person("Maria")
		id := w.add("passed on", nil)
		n := w.daemon(use)
		cl := n.mustClaim("Sandman", id)
		w.edit(id, map[string]any{"Who": inColumn(maria), "claimed_by": text("rich_text", "")})
		time.Sleep(2 * interval)
		if diff := cmp.Diff(openCard, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "assigned to Maria") {
			w.Errorf("%v", err)
		}
	})
}
