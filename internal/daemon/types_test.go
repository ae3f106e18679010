package daemon_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/notion/workspace"
	"dibs/internal/setup"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// Whatever daemons send to Notion and get from the emulator is of the types of Notion's SDK: on the
// usual board, on boards in a few dialects, and on one that dibs init made.
func TestTypes(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.RacedElsewhere(t)
	sdktypes.Clients(t)
	var recorder sdktypes.Recorder
	recorded := func(life func(w *world)) {
		inWorld(t, 0, func(w *world) {
			w.recorder = &recorder
			life(w)
		})
	}
	recorded(func(w *world) {
		w.withFields()
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{
			"Who": typed("people"), "Sub-item": map[string]any{"relation": map[string]any{"database_id": w.tasks, "single_property": map[string]any{}}},
			"Button": typed("button"), "Place": typed("place"), "Verified": typed("verification"),
		}))
		everything(w, map[string]any{"Sprint": 3, "Urgent": true, "Area": []string{"Web"}}, func(c *config.Config) {
			c.Tasks.Properties.Assignee, c.Tasks.Properties.SubItems = "Who", "Sub-item"
			c.Tasks.Fields = []string{"Sprint", "Urgent", "Area"}
			c.Agents = []config.Agent{{Name: "*"}, {Name: "Root", UIDs: []int{0}}}
		})
	})
	for _, d := range dialects()[:4] { // these have every choice
		recorded(func(w *world) { speaking(w, d).cycle() })
	}
	recorded(func(w *world) {
		w.withFields()
		inside := w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		n := w.daemon(func(c *config.Config) { c.Tasks.Only = []string{"Area=api", "Urgent = yes", "Sprint=3"} })
		_, err := n.claim("Sandman", inside)
		w.Logf("it is not of the sprint: %v", err)
	})
	recorded(func(w *world) { everything(w, nil, w.made(config.Databases{})) })
	recorded(func(w *world) { // it gets its columns and options from dibs init
		bare, err := w.notion.CreateDatabase("Ours", map[string]any{
			"Name": typed("title"), "status": typed("status", "OPEN"), "priority": typed("select", "high"),
		})
		mustDo(w, err)
		w.daemon(w.made(config.Databases{Tasks: bare}))
	})
	sdktypes.Check(t, recorder.Exchanges(), "createComment", "createDatabase", "createPage", "createView", "getDataSource", "getDatabase",
		"getPage", "getPageMarkdown", "getPageProperty", "getSelf", "getUser", "listBlockChildren", "listComments", "listDatabaseViews",
		"listUsers", "queryDataSource", "updateDataSource", "updatePage")
}

// everything asks a daemon for everything.
func everything(w *world, fields map[string]any, change func(*config.Config)) {
	g := &golden{node: w.daemon(change), seen: make(map[string]bool), names: make(map[string]string)}
	g.story()
	id := task.ID(g.add("With a page", nil))
	mustDo(w, w.notion.WriteMarkdown(string(id), "## Done when\n- [ ] it has a test\n"))
	mustDo(w, w.notion.AddComment(string(id), w.person("Tom"), "Ah"))
	many := make([]string, 26) // a page shows 25 relations
	for i := range many {
		many[i] = w.add(fmt.Sprint("Dependency ", i), nil)
	}
	w.add("Waits for them", map[string]any{"depends_on": relation(many...)})
	_, err := g.Content(w.Context(), id)
	mustDo(w, err)
	_, err = g.Comment(w.Context(), id, api.CommentRequest{Agent: "Sandman", Text: "hello", Mention: "Tom"}, "")
	mustDo(w, err)
	_, err = g.Add(w.Context(), api.AddRequest{
		Agent: "Sandman", Title: "Made", Body: "# One\n- [ ] two", Priority: "low", DependsOn: []string{string(id)}, Fields: fields,
	}, "")
	mustDo(w, err)
	_, err = g.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: string(id), TimeoutMinutes: 90}, "")
	mustDo(w, err)
	_, err = g.Complete(w.Context(), api.OnlyClaim, api.CompleteRequest{Agent: "Sandman", Summary: "it works", Evidence: []string{"commit 1"}}, "")
	mustDo(w, err)
	time.Sleep(time.Hour)
}

// made lets dibs init make the databases that are not given, and returns the configuration for them.
func (w *world) made(given config.Databases) func(*config.Config) {
	w.Helper()
	transport := w.recorder.Over(w.notion.Client().Transport)
	req, err := http.NewRequestWithContext(w.Context(), "POST", "https://api.notion.com/v1/pages", strings.NewReader(`{"parent":{"workspace":true},"properties":{"title":{"title":[{"text":{"content":"Team"}}]}}}`))
	mustDo(w, err)
	req.Header.Set("Authorization", "Bearer "+w.notion.Token())
	req.Header.Set("Notion-Version", "2025-09-03")
	resp, err := transport.RoundTrip(req)
	mustDo(w, err)
	var page struct{ ID task.ID }
	mustDo(w, json.NewDecoder(resp.Body).Decode(&page))
	c := config.Default()
	c.Notion.Token = config.Secret(w.notion.Token())
	client, err := workspace.Connect(c.Notion, transport, slog.New(slog.DiscardHandler))
	mustDo(w, err)
	var plan *setup.Plan
	for range 2 { // the second time it finds what it made
		plan, err = setup.New(w.Context(), setup.Options{
			Client: client, Config: c, Saved: config.Default(), File: filepath.Join(w.TempDir(), "config.yaml"), Parent: page.ID, Given: given,
		})
		mustDo(w, err)
		mustDo(w, plan.Apply(w.Context(), func(s setup.Step) { w.Log(s) }))
	}
	w.tasks = plan.Config.Databases.Tasks
	return func(c *config.Config) { c.Databases, c.Tasks = plan.Config.Databases, plan.Config.Tasks }
}
