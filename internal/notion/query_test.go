package notion_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
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
		for i, s := range task.Statuses {
			time.Sleep(time.Minute)
			w.page(props{"Name": title(string(s)), "status": status(string(s)), "priority": choice("high"), "Notes": richText(fmt.Sprint(i))})
		}
		trashed := w.page(props{"Name": title("trashed")})
		if err := w.emulator.TrashPage(string(trashed)); err != nil {
			w.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			q    notion.Query
			want []string
		}{
			{"all", notion.Query{}, []string{"OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"}},
			{"unfinished", notion.Query{UnfinishedOnly: true}, []string{"OPEN", "IN_PROGRESS", "BLOCKED"}},
			// Notion knows only in which minute a task was edited.
			{"edited", notion.Query{EditedSince: dawn.Add(3*time.Minute + 59*time.Second)}, []string{"BLOCKED", "COMPLETED", "CANCELLED"}},
			{"both", notion.Query{UnfinishedOnly: true, EditedSince: dawn.Add(2 * time.Minute)}, []string{"IN_PROGRESS", "BLOCKED"}},
			{"none", notion.Query{EditedSince: dawn.Add(time.Hour)}, nil},
		} {
			rows, at, err := tasks.Query(w.Context(), tc.q)
			if err != nil {
				w.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, titles(rows)); diff != "" {
				w.Errorf("%s: -want +got\n%s", tc.name, diff)
			}
			if !at.Equal(time.Now().Truncate(time.Second)) {
				w.Errorf("%s: as of %s, want now, %s", tc.name, at, time.Now())
			}
		}

		// A row is what Get reads.
		rows, _, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(w.get(tasks, rows[1].ID), rows[1]); diff != "" {
			w.Errorf("get and query differ: -get +query\n%s", diff)
		}
		requests := w.emulator.Requests()
		sent, err := url.ParseQuery(requests[len(requests)-2].RawQuery)
		if err != nil {
			w.Fatal(err)
		}
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
			name := fmt.Sprint("Task ", i)
			w.page(props{"Name": title(name)})
			want = append(want, name)
		}
		time.Sleep(5 * time.Second)
		w.emulator.SetLatency(func(*http.Request) (before, after time.Duration) { return time.Second, 0 })
		w.emulator.ResetRequests()
		rows, at, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil {
			w.Fatal(err)
		}
		got := titles(rows)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
		if !at.Equal(dawn.Add(6 * time.Second)) {
			w.Errorf("as of %s, want the first answer's time", at)
		}
		if n := len(w.emulator.Requests()); n != 3 {
			w.Errorf("%d requests, want 3", n)
		}
	})
}

// A query never returns less than there is without saying so.
func TestQueryIsNeverShort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(body map[string]any)
		says   string
	}{
		{"incomplete", func(body map[string]any) {
			body["request_status"] = props{"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
		}, "query_result_limit_reached"},
		{"incomplete without a reason", func(body map[string]any) { body["request_status"] = props{"type": "incomplete"} }, "incomplete"},
		{"no cursor", func(body map[string]any) { body["has_more"] = true }, "no cursor"},
		{"one cursor for ever", func(body map[string]any) {
			body["has_more"], body["next_cursor"] = true, "11111111-2222-3333-8444-555555555555"
		}, "cursor"},
		{"a row of another form", func(body map[string]any) {
			body["results"] = []any{"row"}
		}, "not of Notion's form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.answering("/query", tc.change)
				w.page(props{})
				rows, _, err := w.tasks(notion.TaskSchema{}).Query(w.Context(), notion.Query{})
				_, isFailed := errors.AsType[*claim.StoreError](err)
				if !isFailed || !strings.Contains(err.Error(), tc.says) || rows != nil {
					w.Errorf("%d rows, err = %v, want none and %q", len(rows), err, tc.says)
				}
			})
		})
	}
}

// A row that is shown twice, because it moved between pages, counts once.
func TestQueryShowsEachTaskOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answering("/query", func(body map[string]any) {
			results := body["results"].([]any)
			body["results"] = append(results, results...)
		})
		w.page(props{"Name": title("one")})
		rows, _, err := w.tasks(notion.TaskSchema{}).Query(w.Context(), notion.Query{})
		if err != nil || len(rows) != 1 {
			w.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// Reads get over what passes by itself.
func TestQueryGetsOverFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.page(props{"Name": title("one")})
		for _, kind := range []emulator.FaultKind{emulator.HTML502, emulator.DropAnswer, emulator.RateLimited429} {
			w.emulator.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Times: 1, Kind: kind, RetryAfter: 20 * time.Second})
		}
		start := time.Now()
		rows, _, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil || len(rows) != 1 {
			w.Errorf("%d rows, %v", len(rows), err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 30*time.Second {
			w.Errorf("took %s, want the 20s that Notion asked for and some more", took)
		}
	})
}

// Rows of a query that are none of the tasks are skipped and named; the others are read.
func TestRowsThatAreNoTasks(t *testing.T) {
	other := "41111111-2222-4333-8444-555555555555"
	for _, tc := range []struct {
		name   string
		change func(row map[string]any) // of a page
		says   string                   // after the row's id
	}{
		{"partial", func(row map[string]any) { delete(row, "properties"); delete(row, "parent") }, "is shown without its properties"},
		{"without properties", func(row map[string]any) { delete(row, "properties") }, "is shown without its properties"},
		{"a database", func(row map[string]any) { row["object"], row["title"] = "database", spansOf("Wiki\n") }, "is a database"},
		{"a data source", func(row map[string]any) {
			row["object"], row["title"] = "data_source", "odd"
			delete(row, "properties")
		}, "is a database"},
		{"of another database", func(row map[string]any) { row["parent"] = props{"type": "database_id", "database_id": other} }, "belongs to another database"},
		{"below a page", func(row map[string]any) { row["parent"] = props{"type": "page_id", "page_id": other} }, "belongs to another database"},
		{"of the workspace", func(row map[string]any) { row["parent"] = props{"type": "workspace", "workspace": true} }, "belongs to another database"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				odd := w.page(props{"Name": title("odd")})
				w.page(props{"Name": title("task")})
				w.answering("/query", func(body map[string]any) {
					for _, row := range body["results"].([]any) {
						if row := row.(map[string]any); row["id"] == string(odd) {
							tc.change(row)
						}
					}
				})
				tasks := w.tasks(notion.TaskSchema{})
				for range 2 {
					rows, _, err := tasks.Query(w.Context(), notion.Query{})
					if diff := cmp.Diff([]string{"task"}, titles(rows)); err != nil || diff != "" {
						w.Fatalf("%v, rows (-want +got):\n%s", err, diff)
					}
				}
				if _, _, err := tasks.Query(w.Context(), notion.Query{EditedSince: dawn}); err != nil {
					w.Error(err)
				}
				warnings := tasks.Warnings()
				if len(warnings) != 1 || !strings.Contains(warnings[0], string(odd)) || !strings.Contains(warnings[0], tc.says) || strings.Contains(warnings[0], "\n") {
					w.Errorf("warnings: %q", warnings)
				}
				if err := tasks.Broken(); err != nil {
					w.Error(err)
				}

				// Once it is a task again, nothing is said any more.
				tc.change = func(map[string]any) {}
				if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 2 || len(tasks.Warnings()) != 0 {
					w.Errorf("%d rows, %v, warnings: %q", len(rows), err, tasks.Warnings())
				}
			})
		})
	}
}

func spansOf(s string) []any { return []any{props{"plain_text": s}} }

// Many rows that are no tasks are not all named.
func TestManyRowsThatAreNoTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 8 {
			if _, err := w.emulator.CreateRowDatabase(w.databases.Tasks, fmt.Sprint("Handbook ", i), props{"Name": of("title")}); err != nil {
				w.Fatal(err)
			}
		}
		tasks := w.tasks(notion.TaskSchema{})
		if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 0 {
			w.Fatalf("%d rows, %v", len(rows), err)
		}
		w.page(props{"Name": title("task")})
		if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 1 {
			w.Fatalf("%d rows, %v", len(rows), err)
		}
		warnings := tasks.Warnings()
		if len(warnings) != 6 || !strings.Contains(warnings[0], `row "Handbook 0" (`) || !strings.Contains(warnings[5], "3 more rows") {
			w.Errorf("warnings: %q", warnings)
		}
	})
}

// A list in which no page shows its properties is no empty board.
func TestPagesWithoutProperties(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page(props{"Name": title("one")})
		w.page(props{"Name": title("other")})
		w.answering("/query", func(body map[string]any) {
			for _, row := range body["results"].([]any) {
				delete(row.(map[string]any), "properties")
			}
		})
		rows, _, err := w.tasks(notion.TaskSchema{}).Query(w.Context(), notion.Query{})
		if err == nil || rows != nil || !strings.Contains(err.Error(), "give the connection the capability to read content") {
			w.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// An id that is none of a database to work with is said to be what it is.
func TestIDsOfOtherThings(t *testing.T) {
	inWorld(t, func(w *world) {
		linked, err := w.emulator.LinkDatabase(w.databases.Tasks)
		if err != nil {
			w.Fatal(err)
		}
		second, err := w.emulator.AddDataSource(w.databases.MeshLog, "Talk", props{"Name": of("title")})
		if err != nil {
			w.Fatal(err)
		}
		page := string(w.page(props{}))
		wiki, err := w.emulator.CreateRowDatabase(w.databases.Tasks, "Handbook", props{"Name": of("title")})
		if err != nil {
			w.Fatal(err)
		}
		for id, says := range map[string][]string{
			linked:                                 {"that is a linked view of another database", "open the original database in Notion"},
			second:                                 {second + ` is the id of the data source "Talk", not of a database: use that of its database, ` + w.databases.MeshLog, "set databases.x_source to"},
			page:                                   {page + " is the id of a page, not of a database", "copy the id from its URL"},
			"12345678-1234-1234-1234-123456789abc": {"that is no id of Notion's", "copy it anew"},
			"11111111-2222-4333-8444-555555555555": {"share the database with the connection"},
		} {
			client, err := notion.New(notion.Options{Token: w.emulator.Token(), Transport: w.transport, Jitter: halfway})
			if err != nil {
				w.Fatal(err)
			}
			client.Choose(task.ID(id), "databases.x_source", "")
			_, err = client.Database(w.Context(), id)
			failed, isFailed := errors.AsType[*claim.StoreError](err)
			if !isFailed || failed.Kind == claim.Unavailable || slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
				w.Errorf("%s: err = %v, want %q", id, err, says)
			}
		}
		if db, err := w.client.Database(w.Context(), wiki); err != nil || db.Title != "Handbook" {
			w.Errorf("a database that is a row: %+v, %v", db, err)
		}
	})
}
