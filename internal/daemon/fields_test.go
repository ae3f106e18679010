package daemon_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// withFields adds properties to the board.
func (w *world) withFields() {
	w.Helper()
	err := w.notion.EditSchema(w.tasks, map[string]any{
		"Sprint": map[string]any{"number": map[string]any{}}, "Urgent": map[string]any{"checkbox": map[string]any{}},
		"Area": map[string]any{"multi_select": map[string]any{"options": []any{map[string]any{"name": "Web"}, map[string]any{"name": "API"}}}},
	})
	if err != nil {
		w.Fatal(err)
	}
}

func areas(names ...string) any {
	list := []any{}
	for _, name := range names {
		list = append(list, map[string]any{"name": name})
	}
	return map[string]any{"multi_select": list}
}

func fielded(names ...string) func(*config.Config) {
	return func(c *config.Config) { quiet(c); c.Tasks.Fields = names }
}

// selected lists the tasks that the filter selects.
func (n *node) selected(f api.TaskFilter) string {
	n.w.Helper()
	list, err := client.Do(n.w.Context(), n.Client, api.OpListTasks, f.Input())
	if err != nil {
		n.w.Fatal(err)
	}
	var titles []string
	for _, t := range list.Tasks {
		titles = append(titles, t.Title)
	}
	return strings.Join(titles, ",")
}

// Fields are shown with every task, follow edits, survive a restart without Notion, and cost no
// request.
func TestFields(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		id := w.add("Ship", map[string]any{"Sprint": number(42), "Area": areas("Web", "API")})
		o := w.options(fielded("Sprint", "Area", "Urgent", "claimed_until"))
		n := w.start(o)
		want := task.Fields{"Sprint": 42.0, "Area": []any{"Web", "API"}, "Urgent": false, "claimed_until": nil}
		w.notion.ResetRequests()
		one, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: id})
		if diff := cmp.Diff(want, one.Fields); diff != "" || err != nil {
			w.Errorf("show: %v, -want +got\n%s", err, diff)
		}
		var listed struct {
			Tasks []struct{ Fields json.RawMessage }
		}
		if err := json.Unmarshal([]byte(n.get("/v1/tasks?where="+url.QueryEscape("area=api")+"&where="+url.QueryEscape("Sprint=42.0"))), &listed); err != nil || len(listed.Tasks) != 1 ||
			string(listed.Tasks[0].Fields) != `{"Area":["Web","API"],"Sprint":42,"Urgent":false,"claimed_until":null}` {
			w.Errorf("list: %v, %s", err, listed)
		}
		if got := w.requests(); len(got) != 0 {
			w.Errorf("that took %v", got)
		}
		cl := n.mustClaim("Sandman", "")
		want["claimed_until"] = cl.Task.Fields["claimed_until"]
		if diff := cmp.Diff(want, cl.Task.Fields); diff != "" || want["claimed_until"] == nil {
			w.Errorf("claim: -want +got\n%s", diff)
		}
		if held, err := client.Do(w.Context(), n.Client, api.OpListClaims, api.AgentFilter{}); err != nil || len(held.Claims) != 1 || held.Claims[0].Task.Fields["Sprint"] != 42.0 {
			w.Errorf("claims: %+v, %v", held, err)
		}
		w.edit(id, map[string]any{"Sprint": number(43)})
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Error(err)
		}
		if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{"Sprint=43"}}}); got != "Ship" {
			w.Errorf("after an edit: %q", got)
		}
		n.stop()

		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		n = w.start(o)
		if one, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: id}); err != nil || one.Fields["Sprint"] != 43.0 || len(one.Fields) != 4 {
			w.Errorf("without Notion: %+v, %v", one.Fields, err)
		}
	})
}

// A removed field is empty and reported as missing, and affects nothing else. Fields can be changed
// while the daemon runs.
func TestFieldsThatChange(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		id := w.add("Ship", map[string]any{"Sprint": number(42), "Area": areas("Web")})
		w.add("Rest", map[string]any{"Area": areas("API")})
		o := w.options(fielded("Sprint"))
		n := w.start(o)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Sprint": nil}))
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil {
			w.Fatal(err)
		}
		s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{})
		if err != nil || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], `property "Sprint" of tasks.fields is missing`) {
			w.Errorf("warnings %q, %v", s.Warnings, err)
		}
		if one, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: id}); err != nil || one.Fields["Sprint"] != nil || !one.Ready {
			w.Errorf("%+v, %v", one, err)
		}
		n.mustClaim("Sandman", id)
		time.Sleep(10 * time.Minute) // so that it was not edited recently
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Fatal(err)
		}

		c := o.Config
		c.Tasks.Fields = []string{"Area"}
		mustDo(w, n.daemon.Reload(c))
		if _, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Where: []string{"Sprint=42"}}); code(err) != "invalid_request" || !strings.Contains(err.Error(), `there is no field "Sprint": want one of Area, title, key,`) {
			w.Error(err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Fatal(err)
		}
		if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{"Area=api"}}}); got != "Rest" {
			w.Errorf("after the change: %q", got)
		}
		if s, err = client.Do(w.Context(), n.Client, api.OpStatus, struct{}{}); err != nil || len(s.Warnings) != 0 {
			w.Errorf("warnings %q, %v", s.Warnings, err)
		}
	})
}

// The next task is the most urgent one that matches the filter by its page.
func TestNextByFilter(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		w.add("Urgent", map[string]any{"priority": option("select", "critical")})
		moved := w.add("Moved", map[string]any{"priority": option("select", "high"), "Sprint": number(42)})
		w.add("Login form", map[string]any{"Sprint": number(42)})
		n := w.daemon(fielded("Sprint"))
		next := func(f api.Filter) (api.Claim, error) {
			return client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Filter: f}))
		}
		w.edit(moved, map[string]any{"Sprint": number(43)}) // before the next sync
		if cl, err := next(api.Filter{Where: []string{"Sprint=42"}}); err != nil || cl.Task.Title != "Login form" {
			w.Errorf("%+v, %v", cl.Task, err)
		}
		if p := w.page(moved); p.Text("claimed_by") != "" {
			w.Errorf("the one that was moved is %s's", p.Text("claimed_by"))
		}
		_, err := next(api.Filter{Where: []string{"Sprint=42"}})
		p, ok := errors.AsType[*api.Problem](err)
		if !ok || p.Code != "nothing_ready" || p.Summary == nil || p.Summary.Held != 1 || p.Summary.Filtered != 2 || p.Summary.NextLeaseEndsAt.IsZero() ||
			p.Detail != "no task that matches is ready: 1 is held; 2 others are ready; try again later, or wait for one" {
			w.Errorf("%+v", err)
		}
		if cl, err := next(api.Filter{Text: "urg"}); err != nil || cl.Task.Title != "Urgent" {
			w.Errorf("%+v, %v", cl.Task, err)
		}
		but := api.ClaimRequest{Agent: "Sandman", Except: []string{moved}}
		if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", but)); code(err) != "nothing_ready" {
			w.Errorf("all but what is left: %v", err)
		}
		if cl, err := next(api.Filter{Priority: "high"}); err != nil || cl.Task.Title != "Moved" {
			w.Errorf("%+v, %v", cl.Task, err)
		}
		for _, f := range []api.Filter{{Priority: "urgent"}, {Where: []string{"Sprnt=1"}}, {Where: []string{"Sprint"}}} {
			if _, err := next(f); code(err) != "invalid_request" {
				w.Errorf("%+v: %v", f, err)
			}
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: moved, Filter: api.Filter{Text: "x"}})); code(err) != "invalid_request" {
			w.Error(err)
		}
	})
}

// Two waiters for different tasks each get theirs at once, and other tasks cost no request.
func TestWaitByFilter(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		first := w.add("First", map[string]any{"Sprint": number(1)})
		second := w.add("Second", map[string]any{"Sprint": number(2), "depends_on": relation(first)})
		n := w.daemon(fielded("Sprint"))
		held := n.mustClaim("Anna", first)
		type got struct {
			agent, title, err string
			after             time.Duration
		}
		answers := make(chan got, 4)
		began := time.Now()
		wait := func(agent, key string, f api.Filter) {
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: agent, Filter: f, WaitSeconds: 600}))
			answers <- got{agent, cl.Task.Title, code(err), time.Since(began)}
		}
		go wait("Sandman", "key 1", api.Filter{Where: []string{"Sprint=2"}})
		go wait("Oracle", "", api.Filter{Text: "third"})
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		w.add("Fourth", map[string]any{"Sprint": number(4)})
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"POST query"}, w.requests()); diff != "" || len(answers) != 0 {
			w.Errorf("for a task that neither waits for (-want +got):\n%s", diff)
		}
		third := w.add("Not yet", nil)
		if err := n.complete(held); err != nil { // makes the second ready
			w.Fatal(err)
		}
		one := <-answers
		if one.agent != "Sandman" || one.title != "Second" || one.after > 10*time.Second {
			w.Errorf("%+v", one)
		}
		again, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("key 1", api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Where: []string{"Sprint=2"}}, WaitSeconds: 600}))
		if err != nil || string(again.Task.ID) != second {
			w.Errorf("asked again: %+v, %v", again, err)
		}
		w.edit(third, map[string]any{"Name": text("title", "The third")}) // it was ready before
		began = time.Now()
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Fatal(err)
		}
		if one = <-answers; one.agent != "Oracle" || one.title != "The third" || one.after > 10*time.Second {
			w.Errorf("%+v", one)
		}
	})
}

// The reasons why tasks are not ready.
func TestReadyWhy(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		for _, name := range []string{"REVIEW", "FAILED"} {
			mustDo(w, w.notion.AddOption(w.tasks, "status", name))
		}
		held := w.add("Held", map[string]any{"Sprint": number(42)})
		w.add("After", map[string]any{"depends_on": relation(held)})
		w.add("Blocked", map[string]any{"status": option("status", "BLOCKED")})
		w.add("Hers", map[string]any{"claimed_by": text("rich_text", "Anna")})
		w.add("Over", map[string]any{"status": option("status", "COMPLETED")})
		w.add("Odd", map[string]any{"status": option("status", "IN_PROGRESS")})
		w.add("Free", map[string]any{"Sprint": number(42)})
		w.add("Other", nil)
		n := w.daemon(func(c *config.Config) {
			fielded("Sprint")(c)
			c.Claim.MaxPerAgent, c.Tasks.Statuses.Review, c.Tasks.Statuses.Failed = 1, "REVIEW", "FAILED"
		})
		cl := n.mustClaim("Sandman", held)
		time.Sleep(10 * time.Second) // the log entry follows
		why := func(agent string, f api.Filter) map[string]string {
			w.Helper()
			w.notion.ResetRequests()
			list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.TaskFilter{Ready: true, Why: true, Agent: agent, Filter: f}.Input())
			if err != nil || len(w.requests()) != 0 {
				w.Fatal(err, w.requests())
			}
			out := make(map[string]string)
			for _, t := range list.Tasks {
				out[t.Title] = t.Code + ": " + t.Reason
				if t.Ready != (t.Code == "") {
					w.Errorf("%s: ready is %v, and the code %q", t.Title, t.Ready, t.Code)
				}
				if t.Title == "Held" && (t.Agent != "Sandman" || !t.ExpiresAt.Equal(cl.ExpiresAt.Time)) {
					w.Errorf("held by %s until %v", t.Agent, t.ExpiresAt)
				}
			}
			return out
		}
		want := map[string]string{
			"Free": ": ", "Other": ": ", "Held": "held: Sandman has it", "After": "blocked_by_dependency: it waits for “Held” (IN_PROGRESS, Sandman)",
			"Blocked": "not_open: it is BLOCKED", "Hers": "reserved: it is assigned to Anna, and only an agent of that name may claim it",
			"Odd": "not_open: it is IN_PROGRESS without a holder; set it to OPEN to hand it out",
		}
		if diff := cmp.Diff(want, why("", api.Filter{})); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		want["Other"] = "filtered: it is not what was asked for: its Sprint is empty"
		if diff := cmp.Diff(want, why("", api.Filter{Where: []string{"Sprint=42"}})); diff != "" {
			w.Errorf("filtered: -want +got\n%s", diff)
		}
		got := why("Sandman", api.Filter{})
		if limit := "limit_reached: Sandman holds as many tasks as it may (max_per_agent, 1)"; got["Free"] != limit || got["Other"] != limit || got["Held"] != want["Held"] {
			w.Errorf("at the limit: %v", got)
		}
		if list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Ready: true, Agent: "Sandman"}); err != nil || len(list.Tasks) != 0 || !list.LimitReached {
			w.Errorf("%+v, %v", list, err)
		}

		_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Filter: api.Filter{Priority: "low"}}))
		p, _ := errors.AsType[*api.Problem](err)
		if diff := cmp.Diff(&api.Summary{Filtered: 2}, p.Summary); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		n.mustClaim("Oracle", "")
		n.mustClaim("Anna", "")
		n.mustClaim("Bob", "")
		w.add("Done", map[string]any{"status": option("status", "REVIEW")})
		w.add("Missed", map[string]any{"status": option("status", "FAILED")})
		w.add("Carol's", map[string]any{"claimed_by": text("rich_text", "Carol"), "depends_on": relation(held)})
		w.add("Dora's", map[string]any{"claimed_by": text("rich_text", "Dora"), "depends_on": relation(held)})
		for range 2 { // the second is answered from memory
			_, err = n.claim("Eve", "")
		}
		if p, _ = errors.AsType[*api.Problem](err); p == nil || p.Summary.Assigned != 0 {
			w.Fatalf("what was made is not known yet: %+v", p.Summary)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
			w.Fatal(err)
		}
		_, err = n.claim("Carol", "")
		if p, _ = errors.AsType[*api.Problem](err); p == nil || p.Summary == nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(&api.Summary{Held: 4, Blocked: 1, Dependencies: 2, Assigned: 1, Review: 1, Failed: 1, Other: 1, NextLeaseEndsAt: cl.ExpiresAt}, p.Summary); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		if p.Detail != "no task is ready: 4 are held, 1 is blocked, 2 wait for others, 1 is assigned to somebody else, 1 is to be reviewed, 1 has failed, 1 cannot be claimed as it is; try again later, or wait for one" {
			w.Error(p.Detail)
		}
	})
}
