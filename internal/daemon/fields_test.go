package daemon_test

import (
	"strings"
	"testing"
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
// request. Who waits for a task by its fields gets it.
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
		if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{"area=api", "Sprint=42.0"}}}); got != "Ship" || len(w.requests()) != 0 {
			w.Errorf("list: %s, and that took %v", got, w.requests())
		}
		cl := n.mustClaim("Sandman", "")
		want["claimed_until"] = cl.Task.Fields["claimed_until"]
		if diff := cmp.Diff(want, cl.Task.Fields); diff != "" || want["claimed_until"] == nil {
			w.Errorf("claim: -want +got\n%s", diff)
		}
		got := make(chan string, 1)
		go func() {
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Filter: api.Filter{Where: []string{"Sprint=43"}}, WaitSeconds: 600}))
			got <- cl.Task.Title + code(err)
		}()
		mustDo(w, n.complete(cl))
		w.edit(id, map[string]any{"Sprint": number(43), "status": option("status", "OPEN")})
		n.sync()
		if title := <-got; title != "Ship<nil>" {
			w.Errorf("who waited for the field got %q", title)
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

// Tasks show the titles of the pages that a field relates to: soon after the start, for one request a
// page, without making a claim wait; after a restart at once, also without Notion. Filters take titles
// and ids, and who waits for a title gets the task once it is known. A day later a title is read again.
func TestTitles(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		projects, err := w.notion.CreateDatabase("Projects", map[string]any{"Name": map[string]any{"title": map[string]any{}}})
		mustDo(w, err)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Project": map[string]any{"relation": map[string]any{"database_id": projects, "single_property": map[string]any{}}}}))
		named := func(title string) any {
			return map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": title}}}}
		}
		site, err := w.notion.CreatePage(projects, map[string]any{"Name": named("Website")})
		mustDo(w, err)
		related := map[string]any{"Project": map[string]any{"relation": []any{map[string]any{"id": site}}}}
		for _, title := range []string{"one", "two", "three"} {
			w.add(title, related)
		}
		o := w.options(fielded("Project"))
		mayRead := w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + site, Kind: emulator.Stop})
		n := w.start(o)
		got := make(chan string, 1)
		go func() {
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Filter: api.Filter{Where: []string{"Project=website"}}, WaitSeconds: 600}))
			got <- task.FieldText(cl.Task.Fields["Project"]) + code(err)
		}()
		time.Sleep(time.Second)
		began := time.Now()
		if cl := n.mustClaim("Sandman", ""); task.FieldText(cl.Task.Fields["Project"]) != site || time.Since(began) > 5*time.Second {
			w.Errorf("a claim while the title is read: %v after %v", cl.Task.Fields, time.Since(began))
		}
		mayRead()
		if shown := <-got; shown != "Website<nil>" {
			w.Errorf("who waited for the title got %q", shown)
		}
		for _, where := range []string{"Project=Website", "Project=" + site} {
			if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{where}}}); strings.Count(got, ",") != 2 {
				w.Errorf("%s selects %s", where, got)
			}
		}
		reads := func() (n int) {
			for _, r := range w.notion.Requests() {
				if r.Path == "/v1/pages/"+site {
					n++
				}
			}
			w.notion.ResetRequests()
			return n
		}
		if got := reads(); got != 1 {
			w.Errorf("the title took %d requests", got)
		}
		mustDo(w, w.notion.EditPage(site, map[string]any{"Name": named("Shop")}))
		time.Sleep(23 * time.Hour)
		if got := reads(); got != 0 {
			w.Errorf("the title was read %d times within a day", got)
		}
		time.Sleep(2 * time.Hour)
		if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{"Project=Shop"}}}); strings.Count(got, ",") != 2 || reads() != 1 {
			w.Errorf("a day later Shop selects %s", got)
		}
		n.stop()

		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		n = w.start(o)
		if got := n.selected(api.TaskFilter{Filter: api.Filter{Where: []string{"Project=Shop"}}}); strings.Count(got, ",") != 2 {
			w.Errorf("without Notion Shop selects %s", got)
		}
	})
}
