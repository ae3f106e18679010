package notion_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// A query goes on where Notion cuts it off, as often as it takes.
func TestQueryOfMoreThanNotionShows(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	inWorld(t, func(w *world) {
		var want []string
		for i := range 500 {
			if i%35 == 0 {
				time.Sleep(time.Minute)
			}
			name := fmt.Sprintf("Task %03d", i)
			w.page(props{"Name": title(name)})
			want = append(want, name)
		}
		must(w, w.emulator.SetQueryLimit(125))
		tasks := w.tasks(notion.TaskSchema{})
		for _, q := range []notion.Query{
			{}, {UnfinishedOnly: true}, {UnfinishedOnly: true, FinishedSince: dawn}, {EditedSince: dawn},
		} {
			last := 0
			q.Progress = func(n int) { last = n }
			same(w, want, slices.Sorted(slices.Values(titles(w.rows(tasks, q)))), "rows")
			same(w, len(want), last, "the last progress")
		}
	})
}

// More rows of one minute than a query shows cannot be told apart.
func TestQueryOfTooManyRowsOfOneMinute(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 300 {
			w.page(props{})
		}
		must(w, w.emulator.SetQueryLimit(250))
		rows, _, err := w.tasks(notion.TaskSchema{}).Query(w.Context(), notion.Query{})
		if err == nil || rows != nil || !strings.Contains(err.Error(), "same minute") {
			w.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// What is known of a schema is enough to begin with, and is checked before the
// first query.
func TestRecallTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.page(props{"Name": title("task")})
		schema := notion.TaskSchema{Known: w.tasks(notion.TaskSchema{}).Known()}
		remove := w.emulator.Inject(emulator.Fault{Kind: emulator.DropRequest})
		w.emulator.ResetRequests()
		tasks, err := w.client.RecallTasks(w.databases.Tasks, schema)
		if err != nil || len(w.emulator.Requests()) != 0 {
			w.Fatalf("%v, %d requests", err, len(w.emulator.Requests()))
		}
		if len(tasks.Warnings()) != 0 {
			w.Errorf("warnings: %q", tasks.Warnings())
		}
		remove()
		w.write(tasks, id, claimed("Sandman", dawn))
		if got := w.get(tasks, id); got.ClaimedBy != "Sandman" {
			w.Errorf("claimed by %q", got.ClaimedBy)
		}
		w.sent()
		for range 2 {
			w.rows(tasks, notion.Query{})
		}
		if n := w.sent(); n != 3 {
			w.Errorf("%d requests, want one for the schema and two queries", n)
		}

		for _, known := range []string{"", "{}", "nonsense"} {
			if _, err := w.client.RecallTasks(w.databases.Tasks, notion.TaskSchema{Known: known}); err == nil {
				w.Errorf("recalled a database from %q", known)
			}
		}
		if _, err := w.client.RecallTasks(w.databases.MeshLog, schema); err == nil {
			w.Error("recalled one database as another")
		}
	})
}

// An id is known for the configured name only: whoever names another property
// means that one.
func TestKnownPropertiesAndConfiguredNames(t *testing.T) {
	inWorld(t, func(w *world) {
		known := w.tasks(notion.TaskSchema{}).Known()
		if err := w.emulator.EditSchema(w.databases.Tasks, props{
			"claimed_by": props{"name": "who"}, "someone else": of("rich_text"),
		}); err != nil {
			w.Fatal(err)
		}
		id := w.page(props{"who": richText("Oracle"), "someone else": richText("Sandman")})
		for name, want := range map[string]string{"": "Oracle", "someone else": "Sandman"} {
			tasks := w.tasks(notion.TaskSchema{Known: known, Properties: notion.Properties{ClaimedBy: name}})
			if got := w.get(tasks, id).ClaimedBy; got != want {
				w.Errorf("with claimed_by: %q, claimed by %q, want %q", name, got, want)
			}
		}
		if _, err := w.client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{}); err == nil {
			w.Error("found a property of another name without knowing it")
		}
	})
}

func TestBrokenSchema(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.page(props{})
		tasks := w.tasks(notion.TaskSchema{})
		check := func(err error, says string) {
			w.Helper()
			if says == "" {
				must(w, err)
				must(w, permitted(tasks))
				return
			}
			failed(w, err, claim.Refused, claim.LandedNo, says)
			failed(w, permitted(tasks), claim.Refused, claim.LandedNo, says)
		}
		query := func() error { _, _, err := tasks.Query(w.Context(), notion.Query{}); return err }

		// An option that is gone shows when it is written.
		w.edit(props{"status": of("status", "OPEN", "BLOCKED", "COMPLETED", "CANCELLED")})
		must(w, permitted(tasks))
		if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err == nil {
			w.Error("wrote a status that does not exist")
		}
		check(query(), `"IN_PROGRESS"`)
		w.edit(props{"status": complete()["status"]})
		check(query(), "")

		// So does a property that is gone when a page is read.
		w.edit(props{"claim_token": nil})
		_, err := tasks.Get(w.Context(), id)
		check(err, `"claim_token"`)
		check(tasks.Check(w.Context()), `"claim_token"`)
		check(tasks.Broken(), `"claim_token"`)
		w.edit(props{"claim_token": of("rich_text")})
		check(tasks.Check(w.Context()), "")
		w.write(tasks, id, claimed("Sandman", dawn))
	})
}

// While a property in use is missing, nothing is read and nothing is written. Tasks show again what
// they have once it is back, whatever its id.
func TestLostProperties(t *testing.T) {
	for _, name := range []string{"status", "claimed_by", "claimed_at", "claim_token", "priority", "claim_timeout_minutes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				id := w.page(props{})
				tasks := w.tasks(notion.TaskSchema{})
				w.write(tasks, id, claimed("Sandman", dawn))
				before := w.get(tasks, id)
				ctx := need(tasks.Permit(w.Context(), 2))(w)
				time.Sleep(time.Minute)
				w.edit(props{name: nil})
				_, get := tasks.Get(ctx, id)
				_, write := tasks.Write(ctx, id, claimed("Oracle", dawn))
				_, _, query := tasks.Query(w.Context(), notion.Query{})
				for _, err := range []error{get, write, query, permitted(tasks), tasks.Broken()} {
					failed(w, err, claim.Refused, claim.LandedNo, strconv.Quote(name))
				}
				w.edit(props{name: complete()[name]})
				must(w, tasks.Check(w.Context()))
				if got := w.get(tasks, id); !got.Edited.Equal(before.Edited) || got.EditedBy != before.EditedBy || got.EditedBy == "" {
					w.Errorf("the task was edited at %s by %q, want as before: %s, %q", got.Edited, got.EditedBy, before.Edited, before.EditedBy)
				}
				w.write(tasks, id, claimed("Sandman", dawn))
			})
		})
	}
}
