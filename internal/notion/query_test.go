package notion_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

func titles(rows []task.Task) []string {
	var list []string
	for _, row := range rows {
		list = append(list, row.Title)
	}
	return list
}

func TestQuery(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.page(props{"Name": title("old"), "status": status("COMPLETED")})
		for i, s := range task.Statuses {
			time.Sleep(time.Minute)
			w.page(props{"Name": title(string(s)), "status": status(string(s)), "priority": choice("high"), "Notes": richText(fmt.Sprint(i))})
		}
		must(w, w.emulator.TrashPage(string(w.page(props{"Name": title("trashed")}))))
		for _, tc := range []struct {
			q    notion.Query
			want string
		}{
			{notion.Query{}, "old OPEN IN_PROGRESS BLOCKED COMPLETED CANCELLED"},
			{notion.Query{UnfinishedOnly: true}, "OPEN IN_PROGRESS BLOCKED"},
			// Notion knows only in which minute a task was edited.
			{notion.Query{EditedSince: dawn.Add(3*time.Minute + 59*time.Second)}, "BLOCKED COMPLETED CANCELLED"},
			{notion.Query{UnfinishedOnly: true, EditedSince: dawn.Add(2 * time.Minute)}, "IN_PROGRESS BLOCKED"},
			{notion.Query{EditedSince: dawn.Add(time.Hour)}, ""},
			{notion.Query{UnfinishedOnly: true, FinishedSince: dawn.Add(5 * time.Minute)}, "OPEN IN_PROGRESS BLOCKED CANCELLED"},
		} {
			rows, at, err := tasks.Query(w.Context(), tc.q)
			must(w, err)
			same(w, strings.Fields(tc.want), titles(rows), "%+v", tc.q)
			same(w, time.Now().UTC().Truncate(time.Second), at.UTC(), "%+v as of", tc.q)
		}

		// A row is what Get reads.
		rows := w.rows(tasks, notion.Query{})
		same(w, w.get(tasks, rows[1].ID), rows[1], "a row")
		requests := w.emulator.Requests()
		sent := need(url.ParseQuery(requests[len(requests)-2].RawQuery))(w)
		if n := len(sent["filter_properties"]); n != 10 {
			w.Errorf("the query asked for %d properties: %v", n, sent)
		}
	})
}

func TestQueryReadsAllPages(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		var want []string
		for i := range 250 {
			want = append(want, fmt.Sprintf("Task %03d", i))
			w.page(props{"Name": title(want[i])})
		}
		time.Sleep(5 * time.Second)
		w.emulator.SetLatency(func(*http.Request) (before, after time.Duration) { return time.Second, 0 })
		w.sent()
		rows, at, err := tasks.Query(w.Context(), notion.Query{})
		must(w, err)
		same(w, want, slices.Sorted(slices.Values(titles(rows))), "rows")
		if n := w.sent(); n != 3 || !at.Equal(dawn.Add(6*time.Second)) {
			w.Errorf("as of %s, want the first answer's time; by %d requests, want 3", at, n)
		}
	})
}

// A query never returns less than there is without saying so.
func TestQueryIsNeverShort(t *testing.T) {
	for says, change := range map[string]func(body map[string]any){
		"query_result_limit_reached": func(body map[string]any) {
			body["request_status"] = props{"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
		},
		"incomplete": func(body map[string]any) { body["request_status"] = props{"type": "incomplete"} },
		"no cursor":  func(body map[string]any) { body["has_more"] = true },
		"cursor": func(body map[string]any) { // the same for ever
			body["has_more"], body["next_cursor"] = true, "11111111-2222-3333-8444-555555555555"
		},
		"not of Notion's form": func(body map[string]any) { body["results"] = []any{"row"} },
		"give the connection the capability to read content": func(body map[string]any) { // no page shows its properties
			for _, row := range body["results"].([]any) {
				delete(row.(map[string]any), "properties")
			}
		},
	} {
		inWorld(t, func(w *world) {
			w.page(props{})
			w.page(props{})
			w.answering("/query", change)
			rows, _, err := w.tasks(notion.TaskSchema{}).Query(w.Context(), notion.Query{})
			if err == nil || !strings.Contains(err.Error(), says) || rows != nil {
				w.Errorf("%d rows, err = %v, want none and %q", len(rows), err, says)
			}
		})
	}
}

// Rows of a query that are none of the tasks are skipped and named; the others are read, each once.
func TestRowsThatAreNoTasks(t *testing.T) {
	const other = "41111111-2222-4333-8444-555555555555"
	type row = map[string]any
	for _, tc := range []struct {
		change func(row row) // of a page
		says   string        // after the row's id
	}{
		{func(row row) { delete(row, "properties"); delete(row, "parent") }, "is shown without its properties"},
		{func(row row) { delete(row, "properties") }, "is shown without its properties"},
		{func(row row) { row["object"], row["title"] = "database", []any{props{"plain_text": "Wiki\n"}} }, "is a database"},
		{func(row row) { row["object"], row["title"] = "data_source", "odd"; delete(row, "properties") }, "is a database"},
		{func(row row) { row["parent"] = props{"type": "database_id", "database_id": other} }, "belongs to another database"},
		{func(row row) { row["parent"] = props{"type": "page_id", "page_id": other} }, "belongs to another database"},
		{func(row row) { row["parent"] = props{"type": "workspace", "workspace": true} }, "belongs to another database"},
	} {
		inWorld(t, func(w *world) {
			odd := w.page(props{"Name": title("odd")})
			w.page(props{"Name": title("task")})
			w.answering("/query", func(body map[string]any) {
				results := body["results"].([]any)
				for _, row := range results {
					if row := row.(map[string]any); row["id"] == string(odd) {
						tc.change(row)
					}
				}
				body["results"] = append(results, results...) // they moved between pages
			})
			tasks := w.tasks(notion.TaskSchema{})
			for range 2 {
				same(w, []string{"task"}, titles(w.rows(tasks, notion.Query{})), "rows")
			}
			w.rows(tasks, notion.Query{EditedSince: dawn})
			warnings := tasks.Warnings()
			if len(warnings) != 1 || strings.Contains(warnings[0], "\n") || tasks.Broken() != nil {
				w.Fatalf("warnings: %q, broken: %v", warnings, tasks.Broken())
			}
			contains(w, warnings[0], string(odd), tc.says)

			// Once it is a task again, nothing is said any more.
			tc.change = func(map[string]any) {}
			if rows := w.rows(tasks, notion.Query{}); len(rows) != 2 || len(tasks.Warnings()) != 0 {
				w.Errorf("%d rows, warnings: %q", len(rows), tasks.Warnings())
			}
		})
	}
	inWorld(t, func(w *world) { // many are not all named
		for i := range 8 {
			need(w.emulator.CreateRowDatabase(w.databases.Tasks, fmt.Sprint("Handbook ", i), props{"Name": of("title")}))(w)
		}
		tasks := w.tasks(notion.TaskSchema{})
		same(w, []string(nil), titles(w.rows(tasks, notion.Query{})), "rows")
		w.page(props{"Name": title("task")})
		same(w, []string{"task"}, titles(w.rows(tasks, notion.Query{})), "rows")
		warnings := tasks.Warnings()
		if len(warnings) != 6 || !strings.Contains(warnings[0], `row "Handbook 0" (`) || !strings.Contains(warnings[5], "3 more rows") {
			w.Errorf("warnings: %q", warnings)
		}
	})
}

// An id that is none of a database to work with is said to be what it is.
func TestIDsOfOtherThings(t *testing.T) {
	const noID, unknownID = "12345678-1234-1234-1234-123456789abc", "11111111-2222-4333-8444-555555555555"
	inWorld(t, func(w *world) {
		linked := need(w.emulator.LinkDatabase(w.databases.Tasks))(w)
		second := need(w.emulator.AddDataSource(w.databases.MeshLog, "Talk", props{"Name": of("title")}))(w)
		page := string(w.page(props{}))
		wiki := need(w.emulator.CreateRowDatabase(w.databases.Tasks, "Handbook", props{"Name": of("title")}))(w)
		for id, says := range map[string][]string{
			linked:    {"that is a linked view of another database", "open the original database in Notion"},
			second:    {second + ` is the id of the data source "Talk", not of a database: use that of its database, ` + w.databases.MeshLog, "set databases.x_source to"},
			page:      {page + " is the id of a page, not of a database", "copy the id from its URL"},
			noID:      {"that is no id of Notion's", "copy it anew"},
			unknownID: {"share the database with the connection"},
		} {
			client := w.another(notion.Options{})
			client.Choose(task.ID(id), "databases.x_source", "")
			_, err := client.Database(w.Context(), id)
			kind := claim.Refused
			if id == noID || id == unknownID {
				kind = claim.NotFound
			}
			failed(w, err, kind, claim.LandedNo, says...)
		}
		if db, err := w.client.Database(w.Context(), wiki); err != nil || db.Title != "Handbook" {
			w.Errorf("a database that is a row: %+v, %v", db, err)
		}
	})
}
