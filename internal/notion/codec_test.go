package notion_test

import (
	"errors"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

func TestOtherNamesAndTypes(t *testing.T) {
	inWorld(t, func(w *world) {
		schema := notion.TaskSchema{
			Properties: notion.Properties{Status: "Stand", ClaimedBy: "Wer", ClaimedAt: "Seit", Priority: "Rang"},
			Statuses: map[task.Status]string{
				task.Open: "Offen", task.InProgress: "In Arbeit", task.Blocked: "Blockiert", task.Completed: "Fertig", task.Cancelled: "Verworfen",
			},
			Priorities: map[task.Priority][]string{task.Critical: {"Sofort", "Gleich"}, task.Low: {"Irgendwann"}},
		}
		w.databases.Tasks = w.database(props{
			"Aufgabe": of("title"), "Stand": of("select", "Offen"), "Wer": of("select"), "Seit": of("date"),
			"Rang": of("status", "gleich", "IRGENDWANN", "high"), "claim_token": of("rich_text"),
		})
		tasks := w.tasks(schema)
		id := w.page(props{"Aufgabe": title("Putzen"), "Stand": choice("Offen"), "Rang": status("gleich")})
		if got := w.get(tasks, id); got.Title != "Putzen" || got.Status != task.Open || got.Priority != task.Critical {
			w.Errorf("get: %+v", got)
		}
		got, err := tasks.Write(w.Context(), id, claimed("Sandmann", dawn))
		if err != nil {
			w.Fatal(err)
		}
		if got.Task.Status != task.InProgress || got.Task.ClaimedBy != "Sandmann" {
			w.Errorf("write: %+v", got.Task)
		}
		if page := w.look(id); page.Select("Stand") != "In Arbeit" || page.Select("Wer") != "Sandmann" {
			w.Errorf("the page has %q by %q", page.Select("Stand"), page.Select("Wer"))
		}
		if _, err := tasks.Write(w.Context(), id, claim.Write{ClaimedBy: new("")}); err != nil {
			w.Fatal(err)
		}
		if got := w.look(id).Value("Wer"); got != nil {
			w.Errorf("Wer is %v after clearing", got)
		}
		_, err = tasks.Write(w.Context(), id, claimed("Me, myself", dawn))
		refused, isRefused := errors.AsType[*claim.StoreError](err)
		if !isRefused || refused.Kind != claim.Refused || refused.Landed != claim.LandedNo || !strings.Contains(err.Error(), "comma") {
			w.Errorf("a name with a comma: %v", err)
		}
		// Notion makes the option now, too late for the filter to name it.
		done := w.page(props{"Stand": choice("Fertig"), "Rang": status("high")})
		rows, _, err := tasks.Query(w.Context(), notion.Query{UnfinishedOnly: true})
		if err != nil || len(rows) != 1 || rows[0].ID != id {
			w.Errorf("query: %+v, %v", rows, err)
		}
		if got := w.get(tasks, done); got.Status != task.Completed || got.Priority != task.High {
			w.Errorf("get: %+v, want a default name to hold where none is set", got)
		}
		strange := w.page(props{"Stand": choice("Vielleicht")})
		if got := w.get(tasks, strange); got.Status != task.Unknown || got.StatusName != "Vielleicht" {
			w.Errorf("status %s, %q, of an unknown name", got.Status, got.StatusName)
		}
	})
}

func TestClaimedByPeople(t *testing.T) {
	inWorld(t, func(w *world) {
		me, err := w.client.Me(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		w.databases.Tasks = w.database(props{
			"Name": of("title"), "status": of("select", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
			"claimed_by": of("people"), "claimed_at": of("date"), "claim_token": of("rich_text"),
		})
		tasks := w.tasks(notion.TaskSchema{NotionUsers: map[string]string{"Sandman": strings.ReplaceAll(me.ID, "-", "")}})
		if got := strings.Join(tasks.Warnings(), "\n"); !strings.Contains(got, "people") || !strings.Contains(got, "agents[].notion_user") {
			w.Errorf("warnings: %s", got)
		}
		id := w.page(props{})
		got, err := tasks.Write(w.Context(), id, claim.Write{ClaimedBy: new("Sandman")})
		if err != nil || got.Task.ClaimedBy != "Sandman" {
			w.Errorf("claimed by %q, %v", got.Task.ClaimedBy, err)
		}
		_, err = tasks.Write(w.Context(), id, claim.Write{ClaimedBy: new("Oracle")})
		if err == nil || !strings.Contains(err.Error(), `"Oracle"`) || !strings.Contains(err.Error(), `name one in agents[].notion_user, or make "claimed_by" a text`) {
			w.Errorf("an agent without a user: %v", err)
		}
		if got, err := tasks.Write(w.Context(), id, claim.Write{ClaimedBy: new("")}); err != nil || got.Task.ClaimedBy != "" {
			w.Errorf("cleared: claimed by %q, %v", got.Task.ClaimedBy, err)
		}

		// A user who stands for no agent goes by its own name.
		others := w.tasks(notion.TaskSchema{})
		if err := w.emulator.EditPage(string(id), props{"claimed_by": props{"people": []any{props{"id": me.ID}}}}); err != nil {
			w.Fatal(err)
		}
		if got := w.get(others, id); got.ClaimedBy != me.Name || me.Name == "" {
			w.Errorf("claimed by %q, want %q", got.ClaimedBy, me.Name)
		}
		// Where it was read it can be written back, as a sweep does, and nowhere else.
		if _, err := others.Write(w.Context(), id, claim.Write{ClaimedBy: &me.Name}); err != nil {
			w.Errorf("written back: %v", err)
		}
		if _, err := others.Write(w.Context(), w.page(props{}), claim.Write{ClaimedBy: &me.Name}); err == nil {
			w.Error("an agent took a person's name")
		}
		if err := w.emulator.EditPage(string(id), props{"claimed_by": props{"people": []any{}}}); err != nil {
			w.Fatal(err)
		}
		w.get(others, id)
		if _, err := others.Write(w.Context(), id, claim.Write{ClaimedBy: &me.Name}); err == nil {
			w.Error("an agent took the name of a person who had gone")
		}
		if err := w.emulator.EditPage(string(id), props{"claimed_by": props{"people": []any{props{"id": me.ID}}}}); err != nil {
			w.Fatal(err)
		}
		// One whom a page does not name is looked up, and is better known by id than not at all.
		w.answering(string(id), func(body map[string]any) {
			user := body["properties"].(props)["claimed_by"].(props)["people"].([]any)[0].(props)
			delete(user, "name")
		})
		nameless := w.tasks(notion.TaskSchema{})
		w.emulator.ResetRequests()
		for range 2 {
			if got := w.get(nameless, id); got.ClaimedBy != me.Name {
				w.Errorf("claimed by %q, want %q", got.ClaimedBy, me.Name)
			}
		}
		if n := len(w.emulator.Requests()); n != 3 {
			w.Errorf("%d requests, want one for the name, once", n)
		}
		w.answering("/users/"+me.ID, func(body map[string]any) { delete(body, "name") })
		if got := w.get(w.tasks(notion.TaskSchema{}), id); got.ClaimedBy != me.ID {
			w.Errorf("claimed by %q, want %q", got.ClaimedBy, me.ID)
		}
		_, err = w.client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{NotionUsers: map[string]string{"Sandman": "sandman@example.com"}})
		if err == nil || !strings.Contains(err.Error(), "not a user id") {
			w.Errorf("a user that is none: %v", err)
		}
	})
}
