package daemon_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Queries and bodies take the board's words and dibs's, in any case. Answers keep dibs's beside the
// board's, and what people read has the board's.
func TestWords(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		b := speaking(w, dialectOf([]string{"status", "rich_text", "german", "german", "there", "missing", "there", "full"}))
		mustDo(w, w.notion.EditSchema(b.ids.Tasks, map[string]any{b.names.Priority: typed("select", "Später", "low", "Hoch", "Notfall")}))
		b.d.priority = "select"
		roof := b.task("Roof", task.Open, "Hoch")
		b.task("Fence", task.Open, "low", roof)
		b.task("Attic", task.Open, "Später")
		n := b.daemon(func(c *config.Config) {
			b.configure(c)
			c.Tasks.Priorities = config.Priorities{High: []string{"notfall", "hoch"}, Medium: []string{"low"}}
		})
		defer n.stop()
		titles := func(query string) string {
			w.Helper()
			var list api.Tasks
			mustDo(w, json.Unmarshal([]byte(n.get("/v1/tasks?"+query)), &list))
			var all []string
			for _, one := range list.Tasks {
				all = append(all, one.Title)
			}
			return strings.Join(all, " ")
		}
		for query, want := range map[string]string{
			"priority=hoch": "Roof", "priority=HIGH": "Roof", "priority=Notfall": "",
			"priority=Low": "Fence", "priority=low": "", // dibs's own spelling is dibs's word
			"priority=none": "Attic", "priority=" + url.QueryEscape("später"): "Attic", "priority=critical": "",
			"where=priority%3Dhoch": "Roof", "where=status%3Doffen&where=priority%3Dhigh": "Roof",
			"status=OPEN": "Roof Attic Fence", "status=oFFen&priority=High": "Roof", "status=in+arbeit": "", "status=review": "",
		} {
			if got := titles(query); got != want {
				w.Errorf("%s selects %q, want %q", query, got, want)
			}
		}
		for _, f := range []api.TaskFilter{{Status: "Offn"}, {Filter: api.Filter{Priority: "Wichtig"}}} {
			_, err := n.Tasks(w.Context(), f)
			want := `status: "Offn" is not a status: want one of Offen, In Arbeit, Blockiert, Erledigt, Gestrichen – für immer`
			if f.Status == "" {
				want = `priority: "Wichtig" is not a priority: want one of Später, low, Hoch, Notfall, none`
			}
			if code(err) != string(api.CodeInvalidRequest) || err.(*api.Problem).Detail != want {
				w.Errorf("%+v: %v, want %s", f, err, want)
			}
		}

		made := n.mustAdd(api.AddRequest{Title: "Gate", Priority: "notfall"}, "")
		if made.Priority != "high" || made.PriorityName != "Notfall" || made.Status != task.Open || made.StatusName != "Offen" {
			w.Errorf("made %+v", made.TaskRef)
		}
		if none := n.mustAdd(api.AddRequest{Title: "Shed", Priority: "none"}, ""); none.PriorityName != "" || none.Priority != "none" {
			w.Errorf("made %+v", none.TaskRef)
		}
		cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Priority: "HOCH"}}, "")
		mustDo(w, err)
		if cl.Task.Title != "Roof" || cl.Task.StatusWord() != "In Arbeit" {
			w.Errorf("claimed %+v, want Roof", cl.Task)
		}
		waits, err := n.Task(w.Context(), task.ID(b.find("Fence")))
		if err != nil || waits.Reason != "it waits for “Roof” (In Arbeit, Sandman)" {
			w.Errorf("waits: %q, %v", waits.Reason, err)
		}
		mustDo(w, n.complete(cl))
		synctest.Wait()
		if _, err := n.claim("Oracle", roof); err == nil || !strings.Contains(err.Error(), "it is Erledigt") {
			w.Errorf("a finished task: %v", err)
		}
		done, err := n.Reopen(w.Context(), task.ID(roof), api.ReopenRequest{Was: "erledigt"}, "")
		if err != nil || done.Was != task.Completed || done.WasName != "Erledigt" {
			w.Errorf("reopened %+v, %v", done, err)
		}
		status, err := n.Status(w.Context())
		mustDo(w, err)
		if diff := cmp.Diff(&api.Words{
			Statuses: map[task.Status]string{
				task.Open: "Offen", task.InProgress: "In Arbeit", task.Blocked: "Blockiert", task.Completed: "Erledigt", task.Cancelled: "Gestrichen – für immer",
			},
			Priorities: []string{"Später", "low", "Hoch", "Notfall"},
		}, status.Words); diff != "" {
			w.Errorf("words (-want +got):\n%s", diff)
		}
	})
}

// find returns the id of the task with that title.
func (b *board) find(title string) string {
	b.Helper()
	for _, p := range b.notion.Pages(b.ids.Tasks) {
		if p.Title() == title {
			return p.ID
		}
	}
	b.Fatalf("no task %q", title)
	return ""
}

// A name in another form of Unicode is the same name: on the page, and from whoever calls.
func TestNamesInAnotherForm(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		const composed, apart = "J\u00f6rg", "Jo\u0308rg"
		id := w.add("His", map[string]any{"claimed_by": text("rich_text", apart)})
		n := w.daemon(nil)
		defer n.stop()
		for _, name := range []string{composed, apart} {
			cl, err := n.claim(name, id)
			mustDo(w, err)
			if cl.Agent != composed {
				w.Errorf("%+q claimed as %+q", name, cl.Agent)
			}
			cl.Agent = apart
			mustDo(w, n.complete(cl))
			synctest.Wait()
			_, err = n.Reopen(w.Context(), task.ID(id), api.ReopenRequest{Was: "COMPLETED"}, "")
			mustDo(w, err)
		}

		added, err := n.Add(w.Context(), api.AddRequest{Title: "More", For: apart}, "")
		mustDo(w, err)
		if added.Task.AssignedTo != composed {
			w.Errorf("added for %+q", added.Task.AssignedTo)
		}
		cl, err := n.claim(composed, id)
		mustDo(w, err)
		_, err = n.Fail(w.Context(), string(cl.ID), api.FailRequest{Agent: composed}, "")
		mustDo(w, err)
		synctest.Wait()
		opened, err := n.ReopenFailed(w.Context(), api.ReopenFailedRequest{FailedBy: []string{apart}}, "")
		mustDo(w, err)
		if len(opened.Reopened) != 1 {
			w.Errorf("reopened: %v", opened.Reopened)
		}
	})
}
