package setup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup"
	"dibs/internal/task"
)

// newPage makes a further page.
func (w *world) newPage(title string) task.ID {
	w.Helper()
	var page struct {
		ID task.ID `json:"id"`
	}
	w.ask("POST", "/v1/pages", fmt.Sprintf(`{"parent":{"workspace":true},"properties":{"title":{"title":[{"text":{"content":%q}}]}}}`, title), &page)
	return page.ID
}

// With another page, databases are found or made there, whatever is configured; a configured one on
// that page is used, whatever its name.
func TestAnotherPage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		w.again(p)
		first := p.Config.Databases

		w.options.Parent = w.newPage("Another team")
		p = w.plan()
		if got := actions(p); !slices.Contains(got, "create tasks") || !slices.Contains(got, "create task_log") || !slices.Contains(got, "create mesh_log") {
			w.Errorf("plan: %v", got)
		}
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "databases.task_log is "+first.TaskLog+" so far, which does not lie on that page: give --task-log "+first.TaskLog+", or no --parent") {
			w.Errorf("notes: %q", p.Notes)
		}
		if len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "give --force") {
			w.Errorf("problems: %q", p.Problems)
		}
		w.options.Replace = true
		p = w.plan()
		w.apply(p)
		w.complete(p)
		w.again(p)
		if second := w.options.Config.Databases; second.Tasks == first.Tasks || second.TaskLog == first.TaskLog || second.MeshLog == first.MeshLog {
			w.Errorf("databases %+v, want none of %+v", second, first)
		}

		w.ask("PATCH", "/v1/databases/"+p.Config.Databases.Tasks, `{"title":[{"text":{"content":"Backlog"}}]}`, new(any))
		if again := w.plan(); len(again.Steps)+len(again.Problems)+len(again.Notes) > 0 {
			w.Errorf("a second run would %v, problems %q, notes %q", again.Steps, again.Problems, again.Notes)
		}
	})
}

// A parent that is not a page is an error, even if it is not needed.
func TestNoSuchPage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		w.again(p)
		w.options.Given = p.Config.Databases
		w.options.Parent = "11111111-1111-1111-1111-111111111111"
		w.options.Client = w.client()
		if _, err := setup.New(w.Context(), w.options); err == nil || !strings.Contains(err.Error(), "the page for the databases: ") {
			w.Errorf("err = %v", err)
		}
	})
}

// Databases in the environment override the written file.
func TestEnvironmentWithOtherDatabases(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Config.Databases.MeshLog = w.database("Mesh", map[string]any{"Name": of("title")}) // in the environment
		p := w.plan()
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "unset DIBS_DATABASES_MESH_LOG") || strings.Contains(notes, "DIBS_DATABASES_TASK") {
			w.Errorf("notes: %q", p.Notes)
		}
		w.options.Parent = ""
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title")})
		w.options.Given.TaskLog = w.database("Work", map[string]any{"Name": of("title")})
		p = w.plan()
		w.apply(p)
		if notes := strings.Join(p.Notes, "\n"); strings.Contains(notes, "DIBS_DATABASES") {
			w.Errorf("notes: %q", p.Notes)
		}
		c, err := config.Load(config.Options{File: p.File, FileOnly: true})
		if err != nil || c.Databases.MeshLog != w.options.Config.Databases.MeshLog {
			w.Errorf("the file says %+v, %v, want the database that was set up", c.Databases, err)
		}
	})
}

// A property of type people is used only if agents have Notion users.
func TestClaimedByOfPeople(t *testing.T) {
	for _, user := range []string{"", "6794760a-1f15-45cd-9c65-0dfe42f5135a"} {
		t.Run("user "+user, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.Config.Agents = []config.Agent{{Name: "Oracle"}, {Name: "Sandman", NotionUser: user}}
				w.options.Saved = w.options.Config
				w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title"), "Claimed By": of("people")})
				p := w.plan()
				w.apply(p)
				want := "claimed_by"
				if user != "" {
					want = "Claimed By"
				}
				if got := p.Config.Tasks.Properties.ClaimedBy; got != want {
					w.Errorf("claimed_by is %q, want %q", got, want)
				}
				if _, added := w.schemaOf(w.options.Given.Tasks)["claimed_by"]; added != (user == "") {
					w.Errorf("claimed_by was added: %v", added)
				}
				if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "agents[].notion_user") {
					w.Errorf("notes: %q", p.Notes)
				}
				w.again(p)
				if again := w.plan(); len(again.Steps)+len(again.Problems) > 0 {
					w.Errorf("a second run would %v, problems %q", again.Steps, again.Problems)
				}
			})
		})
	}
}

// A long pause that Notion asks for is reported instead of waited for.
func TestPausedPlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Hour})
		w.options.Client = w.client()
		start := time.Now()
		_, err := setup.New(w.Context(), w.options)
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.RetryAfter < 10*time.Minute || time.Since(start) > 5*time.Second {
			w.Errorf("err = %v, after %v", err, time.Since(start))
		}
	})
}
