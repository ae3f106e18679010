package notion_test

import (
	"errors"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// A relation to another database shows its pages' ids until their titles are told, in whatever is read
// then. A title is due again after a day, and a page that Notion does not show keeps its last one and
// is left alone for an hour. The scope goes by the titles and by the ids, and a later run recalls them.
func TestTitles(t *testing.T) {
	inWorld(t, func(w *world) {
		projects := w.database(props{"Name": of("title")})
		site, secret := w.pageIn(projects, props{"Name": title("Web\x1b[31msite")}), w.pageIn(projects, props{"Name": title("Secret")})
		w.edit(props{"Project": props{"relation": props{"database_id": projects, "single_property": props{}}}})
		id := w.page(props{"Name": title("Ship it"), "Project": relates(site, secret)})
		must(w, w.emulator.UnsharePage(string(secret)))
		only := func(values ...string) (all []task.Condition) {
			for _, v := range values {
				all = append(all, task.Condition{Field: "Project", Value: v})
			}
			return all
		}
		schema := notion.TaskSchema{Fields: []string{"Project"}, Only: only("website", string(site))}
		tasks := w.tasks(schema)
		shows := func(row task.Task, when string, want ...any) {
			w.Helper()
			same(w, task.Fields{"Project": want}, row.Fields, "%s", when)
		}
		before := w.get(tasks, id)
		shows(before, "at first", string(site), string(secret))
		same(w, "its Project is "+string(site)+", "+string(secret), before.Outside, "outside at first")
		same(w, []task.ID{site, secret}, tasks.Untitled(before), "due at first")

		w.sent()
		read := need(tasks.PageTitle(w.Context(), site))(w)
		w.took(1, "a title")
		same(w, []bool{true, false}, []bool{tasks.SetTitle(site, read, nil), tasks.SetTitle(site, read, nil)}, "news")
		_, err := tasks.PageTitle(w.Context(), secret)
		failed(w, err, claim.NotFound, claim.LandedNo)
		same(w, false, tasks.SetTitle(secret, "", err), "news of a page that is not shown")
		w.sent()
		shows(before, "a task that was read earlier", string(site), string(secret))
		for when, row := range map[string]task.Task{"titled": tasks.Titled(before), "page": w.get(tasks, id), "row": w.rows(tasks, notion.Query{})[0], "write": w.write(tasks, id, claimed("Sandman", time.Now()))} {
			shows(row, when, "Website", string(secret))
			same(w, "", row.Outside, "outside: %s", when)
			same(w, []task.ID(nil), tasks.Untitled(row), "due: %s", when)
		}

		time.Sleep(time.Hour)
		same(w, []task.ID{secret}, tasks.Untitled(before), "due after an hour")
		time.Sleep(23 * time.Hour)
		same(w, []task.ID{site, secret}, tasks.Untitled(before), "due after a day")
		same(w, []bool{false, true}, []bool{tasks.SetTitle(site, "", errors.New("not shown")), tasks.SetTitle(secret, "Public", nil)}, "news a day later")
		last := tasks.Titled(before)
		shows(last, "a page that is shown no more", "Website", "Public")

		again := w.tasks(notion.TaskSchema{Only: schema.Only})
		last.Fields, last.Scope = nil, last.Fields // where tasks do not show the property
		again.RecallTitles([]task.Task{last})
		if row := w.get(again, id); row.Outside != "" || row.Fields != nil {
			w.Errorf("the next run: outside %q, fields %v", row.Outside, row.Fields)
		}
		same(w, []task.ID{site, secret}, again.Untitled(before), "due in the next run")
		contains(w, w.get(w.tasks(notion.TaskSchema{Only: only("nobody's")}), id).Outside, "its Project is "+string(site))
	})
}
