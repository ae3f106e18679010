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
