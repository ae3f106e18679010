package daemon_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

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
		if _, err := n.Release(w.Context(), string(second.ID), api.StopRequest{Agent: "Sandman"}, ""); err != nil {
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
		_, offered := n.Offer(w.Context(), task.ID(id), api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "yours"}, "")
		_, declined := n.Decline(w.Context(), task.ID(id), api.DeclineRequest{Agent: "Sandman"}, "")
		for _, err := range []error{offered, declined} {
			if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "dibs does not write there") {
				w.Errorf("%v, want reserved, and who can change it", err)
			}
		}
		_, err := n.Reopen(w.Context(), task.ID(hers), api.ReopenRequest{Was: "IN_PROGRESS"}, "")
		if code(err) != denied(claim.CodeReserved) || !strings.Contains(err.Error(), "Maria") {
			w.Errorf("reopened while Maria works on it: %v", err)
		}
		if sent := w.requests(); slices.Contains(sent, "PATCH page") {
			w.Errorf("requests: %q, want nothing written", sent)
		}
		n.wantInbox("Maria", 0) // the agent of a person's name is not told of the person's tasks
		list, err := n.Tasks(w.Context(), api.TaskFilter{Agent: "Maria"})
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
