package notion_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

func TestGet(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		before := w.page(props{"Name": title("Before")})
		id := w.page(props{
			"Name":   props{"title": []any{props{"text": props{"content": "Fix the "}}, props{"text": props{"content": "login"}}}},
			"status": status("IN_PROGRESS"), "claimed_by": richText("  Sandman "), "claimed_at": day("2000-01-01T01:02:03+01:00"),
			"claim_token": richText("01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"), "claim_timeout_minutes": number(90),
			"priority": choice("High"), "depends_on": relates(before),
		})
		time.Sleep(90*time.Second + 700*time.Millisecond)
		got := need(tasks.Get(w.Context(), id))(w)
		same(w, claim.Reading{
			At: dawn.Add(90 * time.Second), // by the Date header
			Task: task.Task{
				ID: id, Key: "TASK-2", Title: "Fix the login", URL: got.Task.URL, Status: task.InProgress, Priority: task.High, PriorityName: "High",
				ClaimedBy: "Sandman", ClaimedAt: dawn.Add(2 * time.Minute), Token: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K",
				Timeout: 90 * time.Minute, DependsOn: []task.ID{before}, Created: dawn, Edited: dawn, EditedBy: got.Task.EditedBy,
			},
		}, got, "read")
		if !strings.HasPrefix(got.Task.URL, "https://") {
			w.Errorf("URL = %q", got.Task.URL)
		}
	})
}

func TestValuesThatSayNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		empty := w.get(tasks, w.page(props{"Name": props{"title": []any{}}}))
		for name, p := range map[string]props{
			"blank name":         {"claimed_by": richText(" \t")},
			"no timeout":         {"claim_timeout_minutes": number(0)},
			"negative timeout":   {"claim_timeout_minutes": number(-5)},
			"absurd timeout":     {"claim_timeout_minutes": number(1e12)},
			"no such priority":   {"priority": choice("urgent!")},
			"priority of no use": {"priority": props{"select": nil}},
		} {
			got := w.get(tasks, w.page(p))
			got.ID, got.Key, got.URL = empty.ID, empty.Key, empty.URL
			if wrong := name == "no such priority"; (got.PriorityName == "urgent!") != wrong { // people are shown what they wrote
				w.Errorf("%s: the priority is called %q", name, got.PriorityName)
			}
			got.PriorityName = ""
			same(w, empty, got, "%s", name)
		}
		// A day without a time is not over before it is over everywhere.
		got := w.get(tasks, w.page(props{"claimed_by": richText("Oracle"), "claimed_at": day("2000-01-01")}))
		same(w, time.Date(2000, 1, 2, 11, 59, 0, 0, time.UTC), got.ClaimedAt, "claimed on a day")
	})
}

func TestWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Fix it"), "priority": choice("low"), "Notes": richText("keep")})
		time.Sleep(100 * time.Second)
		me := need(w.client.Me(w.Context()))(w)
		if by := w.get(tasks, id).EditedBy; by == "" || by == me.ID {
			w.Errorf("the page is made by %q, and this is %q", by, me.ID)
		}
		got := need(tasks.Write(w.Context(), id, claimed("Sandman", dawn.Add(100*time.Second+123*time.Millisecond))))(w)
		same(w, claim.Reading{At: dawn.Add(100 * time.Second), Task: task.Task{
			ID: id, Key: "TASK-1", Title: "Fix it", URL: got.Task.URL, Status: task.InProgress, Priority: task.Low, PriorityName: "low", ClaimedBy: "Sandman",
			ClaimedAt: dawn.Add(time.Minute), Token: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K", Timeout: 45 * time.Minute,
			Created: dawn, Edited: dawn.Add(time.Minute), EditedBy: me.ID,
		}}, got, "written")
		requests := w.emulator.Requests()
		if sent := string(requests[len(requests)-1].Body); !strings.Contains(sent, `"2000-01-01T00:01:40.123Z"`) || strings.Contains(sent, "archived") {
			w.Errorf("sent %s", sent)
		}

		// A write names what it changes, and nothing else changes. What is empty clears.
		w.write(tasks, id, claim.Write{Status: new(task.Blocked)})
		if page := w.look(id); page.Select("status") != "BLOCKED" || page.Text("claimed_by") != "Sandman" || page.Text("Notes") != "keep" {
			w.Errorf("the page has status %q, claimed_by %q, Notes %q", page.Select("status"), page.Text("claimed_by"), page.Text("Notes"))
		}
		cleared := w.write(tasks, id, claim.Write{Status: new(task.Open), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new(""), Timeout: new(time.Duration(0))})
		if cleared.ClaimedBy != "" || !cleared.ClaimedAt.IsZero() || cleared.Token != "" || cleared.Timeout != 0 || cleared.Status != task.Open {
			w.Errorf("after clearing: %+v", cleared)
		}
		if page := w.look(id); page.Value("claimed_at") != nil || page.Value("claim_timeout_minutes") != nil {
			w.Errorf("the page has claimed_at %v, claim_timeout_minutes %v", page.Value("claimed_at"), page.Value("claim_timeout_minutes"))
		}
		for d, want := range map[time.Duration]float64{-time.Minute: 0, time.Second: 1, time.Minute: 1, 61 * time.Second: 2, 90 * time.Minute: 90} { // in whole minutes
			w.write(tasks, id, claim.Write{Timeout: &d})
			same(w, want, w.look(id).Number("claim_timeout_minutes"), "%s in minutes", d)
		}

		for _, want := range []task.Task{
			{ClaimedBy: "Zoë ☂ 🦊", Token: "done 01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", ClaimedAt: time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC)},
			{ClaimedBy: strings.Repeat("🦊", 100), Token: strings.Repeat("x", 1999), ClaimedAt: time.Unix(0, 0).UTC()},
		} {
			w.write(tasks, id, claim.Write{ClaimedBy: &want.ClaimedBy, Token: new(want.Token + " "), ClaimedAt: new(want.ClaimedAt.Add(59 * time.Second))})
			got := w.get(tasks, id)
			same(w, want, task.Task{ClaimedBy: got.ClaimedBy, Token: got.Token, ClaimedAt: got.ClaimedAt}, "read back")
		}

		// What cannot be is refused without a request.
		w.sent()
		for _, s := range []task.Status{"", task.Unknown} {
			_, err := tasks.Write(w.Context(), id, claim.Write{Status: &s})
			failed(w, err, claim.Refused, claim.LandedNo)
		}
		if n := w.sent(); n != 0 {
			w.Errorf("%d requests", n)
		}
		// A write that Notion answers with the old values is for the caller to notice.
		w.emulator.Inject(emulator.Fault{Method: http.MethodPatch, Kind: emulator.NotApplied})
		if got := w.write(tasks, id, claimed("Sandman", dawn)); got.ClaimedBy == "Sandman" {
			w.Errorf("claimed by %q", got.ClaimedBy)
		}
	})
}

func TestTrashedTaskStaysTrashed(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id, archived := w.page(props{"Name": title("Gone")}), w.page(props{})
		must(w, w.emulator.TrashPage(string(id)))
		must(w, w.emulator.ArchivePage(string(archived), true))
		if !w.get(tasks, id).Trashed || !w.get(tasks, archived).Trashed {
			w.Error("a task that is trashed or archived does not look it")
		}
		_, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		failed(w, err, claim.Trashed, claim.LandedNo)
		if page := w.look(id); !page.Trashed || page.Text("claimed_by") != "" {
			w.Error("the write brought the task back")
		}
	})
}

func TestPagesThatAreNoTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		_, err := tasks.Get(w.Context(), w.pageIn(w.databases.MeshLog, props{}))
		failed(w, err, claim.NotFound, claim.LandedUnknown, "belongs to another database")
		_, err = tasks.Get(w.Context(), "11111111-2222-3333-8444-555555555555")
		failed(w, err, claim.NotFound, claim.LandedNo, "share the database with the connection")
		log := w.log(w.databases.MeshLog)
		must(w, w.emulator.Unshare(w.databases.Tasks))
		must(w, w.emulator.Unshare(w.databases.MeshLog))
		_, _, err = tasks.Query(w.Context(), notion.Query{})
		_, findErr := log.Find(w.Context(), wording.Entry{ID: entryID})
		failed(w, err, claim.NotFound, claim.LandedNo)
		failed(w, findErr, claim.NotFound, claim.LandedNo)
	})
}

// A property that is renamed while the daemon runs stays the same property.
func TestPropertiesSurviveRenaming(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"claimed_by": richText("Sandman")})
		w.edit(props{"claimed_by": props{"name": "Who"}, "status": props{"name": "State"}})
		if got := w.get(tasks, id); got.ClaimedBy != "Sandman" {
			w.Errorf("claimed by %q after renaming", got.ClaimedBy)
		}
		w.write(tasks, id, claimed("Oracle", dawn))
		if got := w.look(id).Text("Who"); got != "Oracle" {
			w.Errorf("the page has %q", got)
		}
		if rows := w.rows(tasks, notion.Query{UnfinishedOnly: true}); len(rows) != 1 {
			w.Errorf("query: %v", rows)
		}
	})
}

// drain uses up what may be sent at once.
func drain(w *world) {
	for start := time.Now(); time.Since(start) == 0; {
		need(w.client.Me(w.Context()))(w)
	}
}

func TestMoreRelatedTasksThanAnAnswerShows(t *testing.T) {
	inWorld(t, func(w *world) {
		// No task here can have enough of them for two answers of 100.
		w.through(func(req *http.Request) {
			if query := req.URL.Query(); query.Has("page_size") {
				query.Set("page_size", "40")
				req.URL.RawQuery = query.Encode()
			}
		})
		w.edit(props{"Sub-item": props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}})
		tasks := w.tasks(notion.TaskSchema{Properties: notion.Properties{SubItems: "Sub-item"}})
		var all []task.ID
		for i := range 90 {
			all = append(all, w.page(props{"Name": title(fmt.Sprint("Part ", i))}))
		}
		id := w.page(props{"Name": title("Whole"), "depends_on": relates(all...), "Sub-item": relates(all[10:]...)})
		related := func(t task.Task) [2][]task.ID { return [2][]task.ID{t.DependsOn, t.SubItems} }
		want := [2][]task.ID{all, all[10:]}
		ctx := need(tasks.Permit(w.Context(), 2))(w)
		drain(w)
		same(w, want, related(need(tasks.Get(ctx, id))(w).Task), "get")
		// The answer to a write shows 25; the rest is as read before, without a request.
		w.sent()
		read := time.Now()
		got := need(tasks.Write(ctx, id, claimed("Sandman", dawn)))(w)
		if waited, n := time.Since(read), w.sent(); waited != 0 || n != 1 {
			w.Errorf("the write waited %s: its permit went to another of %d requests", waited, n)
		}
		same(w, want, related(got.Task), "write")
		for _, row := range w.rows(tasks, notion.Query{}) {
			if row.ID == id {
				same(w, want, related(row), "query")
			}
		}
		// A reading whose dependencies cannot all be read is none.
		w.emulator.Inject(emulator.Fault{Path: "/v1/pages/*/properties/*", Kind: emulator.Conflict409})
		_, err := tasks.Get(w.Context(), id)
		failed(w, err, claim.Unavailable, claim.LandedUnknown, "/properties/")
		_, _, err = tasks.Query(w.Context(), notion.Query{})
		failed(w, err, claim.Unavailable, claim.LandedUnknown, "/properties/")
	})
}
