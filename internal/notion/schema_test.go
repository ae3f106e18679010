package notion_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// complete is a schema that lacks nothing.
func complete() props {
	return props{
		"Name": of("title"), "status": of("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
		"claimed_by": of("rich_text"), "claimed_at": of("date"), "claim_token": of("rich_text"),
		"claim_timeout_minutes": of("number"), "priority": of("select", "critical", "high", "medium", "low"),
	}
}

// changed is a complete schema with that change; nil removes.
func changed(change props) props {
	columns := complete()
	maps.Copy(columns, change)
	maps.DeleteFunc(columns, func(_ string, v any) bool { return v == nil })
	return columns
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for _, tc := range []struct {
		change props
		schema notion.TaskSchema
		says   []string
	}{
		{change: props{"claimed_by": nil, "claimed_at": nil}, says: []string{
			`"Chores"`, `"claimed_by" is missing: add it with type rich_text, select or people`, "tasks.properties.claimed_by", `"claimed_at" is missing: add it with type date`,
		}},
		{change: props{"claim_token": nil}, says: []string{
			`"claim_token" is missing: `, "run dibs init, which adds it, or name the right one in tasks.properties.claim_token",
		}},
		{change: props{"status": of("place"), "claimed_at": of("rich_text")}, says: []string{
			`"status" is of type place, want status or select`, "tasks.properties.status", `"claimed_at" is of type rich_text, want date`,
		}},
		{change: props{"claimed_by": nil, "Claimed By": of("rich_text")}, says: []string{`there is "Claimed By"`}},
		{schema: notion.TaskSchema{Properties: notion.Properties{Status: "Stand"}}, says: []string{`"Stand" is missing`}},
		{change: props{"status": of("status", "OPEN", "Doing", "BLOCKED", "COMPLETED")}, says: []string{`"status" has no option "IN_PROGRESS", "CANCELLED"`, "tasks.statuses"}},
		{schema: notion.TaskSchema{Statuses: map[task.Status]string{task.Cancelled: "COMPLETED"}}, says: []string{`COMPLETED and CANCELLED are both named "COMPLETED"`}},
	} {
		inWorld(t, func(w *world) {
			_, err := w.client.Tasks(w.Context(), w.database(changed(tc.change)), tc.schema)
			failed(w, err, claim.Refused, claim.LandedNo, tc.says...)
			if n := w.sent(); n != 2 { // the data source is found first
				w.Errorf("it took %d requests", n)
			}
		})
	}
}

func TestSchemasThatLackSomething(t *testing.T) {
	for _, tc := range []struct {
		change props
		warns  []string // in every warning, one of these
	}{
		{props{}, []string{`"depends_on" is missing: add it with type relation, or name the right one in tasks.properties.depends_on; until then no task is known to wait for another`}},
		{props{"claim_timeout_minutes": nil, "priority": of("number")}, []string{
			"all claims last as long as claim.timeout says", `"priority" is of type number, want select, status or rich_text`, "no task is known to wait for another",
		}},
		{props{"status": of("select", "OPEN", "IN_PROGRESS", "BLOCKED")}, []string{
			`"status" has no option "COMPLETED", "CANCELLED": Notion adds an option when a task is first given it`, `"depends_on" is missing`,
		}},
		{nil, nil}, // the databases of the emulator
	} {
		inWorld(t, func(w *world) {
			if tc.change != nil {
				w.databases.Tasks = w.database(changed(tc.change))
			}
			tasks := w.tasks(notion.TaskSchema{})
			if warnings := tasks.Warnings(); len(warnings) != len(tc.warns) {
				w.Errorf("warnings %q, want %d", warnings, len(tc.warns))
			}
			contains(w, strings.Join(tasks.Warnings(), "\n"), tc.warns...)
			w.write(tasks, w.page(props{}), claimed("Sandman", dawn)) // without what is missing
		})
	}
	inWorld(t, func(w *world) {
		columns := changed(props{"depends_on": props{"relation": props{"database_id": w.databases.MeshLog, "single_property": props{}}}})
		w.databases.Tasks = w.database(columns)
		contains(w, strings.Join(w.tasks(notion.TaskSchema{}).Warnings(), "\n"), "depends_on relates to another database")
	})
}

func TestDatabasesThatCannotBeOpened(t *testing.T) {
	for name, tc := range map[string]struct {
		id   func(w *world) string
		kind claim.StoreErrorKind
		says string
	}{
		"no id":   {func(*world) string { return "Tasks" }, claim.Refused, "is not the id of a database"},
		"unknown": {func(*world) string { return "11111111-2222-3333-8444-555555555555" }, claim.NotFound, "share the database with the connection"},
		"not shared": {func(w *world) string {
			must(w, w.emulator.Unshare(w.databases.Tasks))
			return w.databases.Tasks
		}, claim.NotFound, "share the database with the connection"},
		"in the trash": {func(w *world) string {
			w.answering(w.databases.Tasks, func(body map[string]any) { body["in_trash"] = true })
			return w.databases.Tasks
		}, claim.Refused, "is in the trash"},
		"several sources": {func(w *world) string {
			need(w.emulator.AddDataSource(w.databases.Tasks, "More", props{"Name": of("title")}))(w)
			return w.databases.Tasks
		}, claim.Refused, "several data sources"},
	} {
		inWorld(t, func(w *world) {
			id := tc.id(w)
			_, err := w.client.Tasks(w.Context(), id, notion.TaskSchema{})
			failed(w, err, tc.kind, claim.LandedNo, tc.says)
			_, err = w.client.Log(w.Context(), id)
			if failed(w, err, tc.kind, claim.LandedNo, tc.says); w.Failed() {
				w.Log(name)
			}
		})
	}
	inWorld(t, func(w *world) { // an id can be given in any of its forms
		w.databases.Tasks = "https://www.notion.so/team/Tasks-" + strings.ReplaceAll(w.databases.Tasks, "-", "") + "?v=1"
		w.rows(w.tasks(notion.TaskSchema{}), notion.Query{})
	})
}

// What a task touches is in the lines of a text, or in the options of a multi-select. Of too long a
// line enough is kept to tell that.
func TestTouchesOfATask(t *testing.T) {
	for kind, value := range map[string]any{
		"rich_text":    richText(" /src/ \n\n\tdocs/*.md\n" + strings.Repeat("x", 1900)),
		"multi_select": props{"multi_select": []any{props{"name": "/src/"}, props{"name": "docs/*.md"}, props{"name": strings.Repeat("x", 100)}}},
	} {
		inWorld(t, func(w *world) {
			w.edit(map[string]any{"Files": of(kind)})
			tasks := w.tasks(notion.TaskSchema{Properties: notion.Properties{Touches: "Files"}})
			got := w.get(tasks, w.page(map[string]any{"Files": value})).Touches
			if len(got) != 3 || got[0] != "/src/" || got[1] != "docs/*.md" || kind == "rich_text" && len(got[2]) <= 512 {
				w.Errorf("%s: %q", kind, got)
			}
			if got := w.get(tasks, w.page(map[string]any{"Name": title("Ship it")})).Touches; got != nil {
				w.Errorf("%s: nothing is %q", kind, got)
			}
		})
	}
}

// Fields of every type are read from a page, from a query and from the answer to a write,
// and are what JSON makes of them.
func TestFields(t *testing.T) {
	inWorld(t, func(w *world) {
		schema := map[string]any{
			"Sprint": of("number"), "Area": of("multi_select", "Web", "API"), "Done when": of("rich_text"), "Team": of("select", "Blue"), "Due": of("date"), "Span": of("date"),
			"Urgent": of("checkbox"), "Spec": of("url"), "Mail": of("email"), "Part of": props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}},
			"Who": of("people"), "Made": of("created_time"), "Push": of("button"),
		}
		w.edit(schema)
		names := []string{"Sprint", "Area", "Done when", "Team", "Due", "Span", "Urgent", "Spec", "Mail", "Part of", "Who", "Made", "claimed_until", "Name", "ID", "Push", "Nonsense"}
		tasks := w.tasks(notion.TaskSchema{Fields: names})
		other := w.page(props{"Name": title("Other")})
		id := w.page(props{
			"Name": title("Ship it"), "Sprint": number(42), "Area": props{"multi_select": []any{props{"name": "Web"}, props{"name": "API"}}},
			"Done when": props{"rich_text": []any{spans(strings.Repeat("x", 1999))[0], spans("\x1b[31myy")[0]}}, "Team": choice("Blue"), "Due": day("2026-03-01"),
			"Span":   props{"date": props{"start": "2026-03-01T10:00:00Z", "end": "2026-03-02T10:00:00Z"}},
			"Urgent": props{"checkbox": true}, "Spec": props{"url": "https://example.org/spec"}, "Part of": relates(other),
		})
		want := task.Fields{
			"Sprint": 42.0, "Area": []any{"Web", "API"}, "Done when": strings.Repeat("x", 1999) + "…", "Team": "Blue", "Due": "2026-03-01",
			"Span":   map[string]any{"start": "2026-03-01T10:00:00.000+00:00", "end": "2026-03-02T10:00:00.000+00:00"},
			"Urgent": true, "Spec": "https://example.org/spec", "Mail": nil, "Part of": []any{string(other)}, "Who": nil, "Made": "2000-01-01T00:00:00.000Z",
			"claimed_until": nil, "Name": "Ship it", "ID": "TASK-2", "Push": nil, "Nonsense": nil,
		}
		got := w.get(tasks, id).Fields
		same(w, want, got, "page")
		data, err := json.Marshal(got)
		var again task.Fields
		if err != nil || json.Unmarshal(data, &again) != nil || !reflect.DeepEqual(again, got) {
			w.Errorf("after JSON: %v, %v", again, err)
		}
		rows := w.rows(tasks, notion.Query{})
		if rows[0].ID == id { // made in the same minute
			slices.Reverse(rows)
		}
		same(w, want, rows[1].Fields, "row")
		if f := rows[0].Fields; f["Urgent"] != false || f["Sprint"] != nil || f["Area"] != nil || len(f) != len(names) {
			w.Errorf("a task without values shows %v", f)
		}
		want["claimed_until"] = "2000-01-01T00:45:00.000+00:00"
		same(w, want, w.write(tasks, id, claimed("Sandman", time.Now())).Fields, "write")
		contains(w, strings.Join(tasks.Warnings(), "\n"),
			`property "Push" of tasks.fields is of type button, which has no value that can be shown: take it out of tasks.fields; until then it is empty in every task`,
			`property "Nonsense" of tasks.fields is missing: add it, or take it out of tasks.fields; until then it is empty in every task`)
		if plain := w.get(w.tasks(notion.TaskSchema{}), id); plain.Fields != nil {
			w.Errorf("nothing is configured, and the task shows %v", plain.Fields)
		}
	})
}

// A field that is renamed is followed, one that is removed is empty, and nothing else
// depends on it; it is used again once it is back.
func TestFieldsThatChange(t *testing.T) {
	inWorld(t, func(w *world) {
		w.edit(props{"Sprint": of("number")})
		schema := notion.TaskSchema{Fields: []string{"Sprint"}}
		tasks := w.tasks(schema)
		id := w.page(props{"Name": title("Ship it"), "Sprint": number(42)})
		shows := func(want any, when string) {
			w.Helper()
			rows := w.rows(tasks, notion.Query{})
			must(w, tasks.Broken())
			same(w, want, rows[0].Fields["Sprint"], "%s", when)
		}
		checked := func() {
			w.Helper()
			must(w, tasks.Check(w.Context()))
			same(w, []string(nil), tasks.Warnings(), "warnings")
		}
		w.edit(props{"Sprint": props{"name": "Iteration"}})
		for range 2 {
			shows(42.0, "renamed")
			checked()
		}
		schema.Known = tasks.Known()
		tasks = need(w.client.RecallTasks(w.databases.Tasks, schema))(w)
		shows(42.0, "after a restart")

		w.edit(props{"Iteration": nil})
		for range 3 { // a row tells, then the schema is read, once
			w.sent()
			shows(nil, "removed")
		}
		if n := w.sent(); n != 1 {
			w.Errorf("%d requests for a query, long after a field was removed", n)
		}
		if len(tasks.Warnings()) != 1 {
			w.Errorf("warnings %q", tasks.Warnings())
		}
		contains(w, tasks.Warnings()[0], `property "Sprint" of tasks.fields is missing`)
		if got := w.get(tasks, id); got.Fields["Sprint"] != nil || got.Title == "" {
			w.Errorf("removed: %+v", got)
		}

		w.edit(props{"Sprint": of("number")})
		checked()
		must(w, w.emulator.EditPage(string(id), props{"Sprint": number(43)}))
		shows(43.0, "made anew")
		w.edit(props{"Sprint": of("rich_text")}) // which empties it
		must(w, w.emulator.EditPage(string(id), props{"Sprint": richText("44")}))
		shows("44", "of another type")
		must(w, tasks.SetFields(w.Context(), []string{"priority", "Sprint"}))
		if got := w.get(tasks, id).Fields; len(got) != 2 || got["Sprint"] != "44" {
			w.Errorf("with another field: %v", got)
		}

		// Rows that never show a field have the schema read once, not again and again.
		w.answering("/query", func(body map[string]any) {
			for _, row := range body["results"].([]any) {
				delete(row.(map[string]any)["properties"].(map[string]any), "Sprint")
			}
		})
		tasks = w.tasks(notion.TaskSchema{Fields: []string{"Sprint"}})
		w.sent()
		for range 5 {
			shows(nil, "never shown")
		}
		if n := w.sent(); n != 6 {
			w.Errorf("%d requests for five queries, want one for the schema beside them", n)
		}
	})
}

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
		if got := w.write(tasks, id, claimed("Sandmann", dawn)); got.Status != task.InProgress || got.ClaimedBy != "Sandmann" {
			w.Errorf("write: %+v", got)
		}
		if page := w.look(id); page.Select("Stand") != "In Arbeit" || page.Select("Wer") != "Sandmann" {
			w.Errorf("the page has %q by %q", page.Select("Stand"), page.Select("Wer"))
		}
		w.write(tasks, id, claim.Write{ClaimedBy: new("")})
		if got := w.look(id).Value("Wer"); got != nil {
			w.Errorf("Wer is %v after clearing", got)
		}
		for agent, says := range map[string]string{"Me, myself": "comma", strings.Repeat("🦊", 51): ""} { // no option can have that name
			_, err := tasks.Write(w.Context(), id, claimed(agent, dawn))
			failed(w, err, claim.Refused, claim.LandedNo, says)
		}
		// Notion makes the option now, too late for the filter to name it.
		done := w.page(props{"Stand": choice("Fertig"), "Rang": status("high")})
		if rows := w.rows(tasks, notion.Query{UnfinishedOnly: true}); len(rows) != 1 || rows[0].ID != id {
			w.Errorf("query: %+v", rows)
		}
		if got := w.get(tasks, done); got.Status != task.Completed || got.Priority != task.High {
			w.Errorf("get: %+v, want a default name to hold where none is set", got)
		}
		if got := w.get(tasks, w.page(props{"Stand": choice("Vielleicht")})); got.Status != task.Unknown || got.StatusName != "Vielleicht" {
			w.Errorf("status %s, %q, of an unknown name", got.Status, got.StatusName)
		}
	})
}

func TestClaimedByPeople(t *testing.T) {
	inWorld(t, func(w *world) {
		me := need(w.client.Me(w.Context()))(w)
		w.databases.Tasks = w.database(props{
			"Name": of("title"), "status": of("select", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
			"claimed_by": of("people"), "claimed_at": of("date"), "claim_token": of("rich_text"),
		})
		tasks := w.tasks(notion.TaskSchema{NotionUsers: map[string]string{"Sandman": strings.ReplaceAll(me.ID, "-", "")}})
		contains(w, strings.Join(tasks.Warnings(), "\n"), "people", "agents[].notion_user")
		id := w.page(props{})
		by := func(want string, got task.Task) {
			w.Helper()
			same(w, want, got.ClaimedBy, "claimed by")
		}
		refused := func(tasks *notion.Tasks, id task.ID, agent string, says ...string) {
			w.Helper()
			_, err := tasks.Write(w.Context(), id, claim.Write{ClaimedBy: &agent})
			failed(w, err, claim.Refused, claim.LandedNo, says...)
		}
		name := func(people ...any) {
			w.Helper()
			must(w, w.emulator.EditPage(string(id), props{"claimed_by": props{"people": append([]any{}, people...)}}))
		}
		by("Sandman", w.write(tasks, id, claim.Write{ClaimedBy: new("Sandman")}))
		refused(tasks, id, "Oracle", `"Oracle"`, `name one in agents[].notion_user, or make "claimed_by" a text`)
		by("", w.write(tasks, id, claim.Write{ClaimedBy: new("")}))

		// A user who stands for no agent goes by its own name. Where it was read it can be written back, as
		// a sweep does, and nowhere else.
		others := w.tasks(notion.TaskSchema{})
		name(props{"id": me.ID})
		by(me.Name, w.get(others, id))
		w.write(others, id, claim.Write{ClaimedBy: &me.Name})
		refused(others, w.page(props{}), me.Name)
		name()
		w.get(others, id)
		refused(others, id, me.Name) // who has gone
		name(props{"id": me.ID})
		// One whom a page does not name is looked up, and is better known by id than not at all.
		w.answering(string(id), func(body map[string]any) {
			delete(body["properties"].(props)["claimed_by"].(props)["people"].([]any)[0].(props), "name")
		})
		nameless := w.tasks(notion.TaskSchema{})
		w.sent()
		for range 2 {
			by(me.Name, w.get(nameless, id))
		}
		if n := w.sent(); n != 3 {
			w.Errorf("%d requests, want one for the name, once", n)
		}
		w.answering("/users/"+me.ID, func(body map[string]any) { delete(body, "name") })
		by(me.ID, w.get(w.tasks(notion.TaskSchema{}), id))
		_, err := w.client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{NotionUsers: map[string]string{"Sandman": "sandman@example.com"}})
		failed(w, err, claim.Refused, claim.LandedNo, "not a user id")
	})
}
