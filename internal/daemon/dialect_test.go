package daemon_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/notion/workspace"
	"dibs/internal/setup"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// A dialect is a way in which a workspace has what dibs needs. Each part is chosen from its own
// list.
type dialect struct {
	status   string // the type of the status
	holder   string // the type of claimed_by
	names    string // the names of the properties
	statuses string // the names of the statuses
	timeout  string // whether there is a claim_timeout_minutes
	priority string
	depends  string
	logs     string
}

// dialects have every choice of every part between them. Each property is opened by itself, so pairs
// of choices are nothing that the program distinguishes.
func dialects() []dialect {
	return []dialect{
		{"status", "rich_text", "default", "other", "there", "select", "there", "full"},
		{"select", "select", "other", "german", "missing", "status", "missing", "title"},
		{"select", "people", "german", "default", "denied", "rich_text", "there", "useful"}, // denied: it exists, but the configuration says that it does not
		{"status", "rich_text", "other", "default", "there", "missing", "there", "other types"},
	}
}

// naming maps each choice of names to the properties' names.
var naming = map[string]config.Properties{
	"default": config.Default().Tasks.Properties,
	"other": {
		Status: "Stage", ClaimedBy: "Owner (agent)", ClaimedAt: "Since", ClaimTimeoutMinutes: "Lease/min",
		ClaimToken: "%token", Priority: "P", DependsOn: "Blocked by",
	},
	"german": {
		Status: "Zustand der Aufgabe", ClaimedBy: "Übernommen von", ClaimedAt: "Übernommen um", ClaimTimeoutMinutes: "Frist in Minuten",
		ClaimToken: "Schlüssel", Priority: "Dringlichkeit", DependsOn: "Hängt ab von",
	},
}

var statusNaming = map[string]config.Statuses{
	"default": config.Default().Tasks.Statuses,
	"other":   {Open: "To do", InProgress: "Doing", Blocked: "Stuck", Completed: "Done", Cancelled: "Won't do"},
	"german":  {Open: "Offen", InProgress: "In Arbeit", Blocked: "Blockiert", Completed: "Erledigt", Cancelled: "Gestrichen – für immer"},
}

// dialectAgents are the agents' Notion users if claimed_by takes people.
var dialectAgents = []config.Agent{
	{Name: "Sandman", NotionUser: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02"},
	{Name: "Oracle", NotionUser: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a03"},
}

func (d dialect) String() string {
	return strings.Join([]string{d.status, d.holder, d.names, d.statuses, d.timeout, d.priority, d.depends, d.logs}, "/")
}

func dialectOf(p []string) dialect {
	return dialect{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}
}

// board is a workspace in a dialect.
type board struct {
	*world
	d     dialect
	names config.Properties
	stati config.Statuses
	ids   config.Databases
}

func speaking(w *world, d dialect) *board {
	w.Helper()
	b := &board{world: w, d: d, names: naming[d.names], stati: statusNaming[d.statuses]}
	s := b.stati
	schema := map[string]any{
		"Aufgabe/Task": typed("title"),
		b.names.Status: typed(d.status, s.Open, s.InProgress, s.Blocked, s.Completed, s.Cancelled),
		// These are ignored and must not cause errors.
		"Place": typed("place"), "Button": typed("button"), "Number": typed("number"),
		b.names.ClaimedBy: typed(d.holder),
		b.names.ClaimedAt: typed("date"), b.names.ClaimToken: typed("rich_text"),
	}
	if d.status == "select" {
		schema[b.names.Status] = typed("select") // writing an option creates it
	}
	if d.timeout != "missing" {
		schema[b.names.ClaimTimeoutMinutes] = typed("number")
	}
	switch d.priority {
	case "select", "status":
		schema[b.names.Priority] = typed(d.priority, "critical", "high", "medium", "low")
	case "rich_text":
		schema[b.names.Priority] = typed("rich_text")
	}
	b.ids.Tasks = b.create("Tasks", schema)
	if d.depends == "there" {
		relation := map[string]any{"database_id": b.ids.Tasks, "single_property": map[string]any{}}
		mustDo(w, w.notion.EditSchema(b.ids.Tasks, map[string]any{b.names.DependsOn: map[string]any{"relation": relation}}))
	}
	w.tasks = b.ids.Tasks
	b.ids.TaskLog, b.ids.MeshLog = b.log("outcome"), b.log("event")
	return b
}

// log makes a log database of the dialect; event is the name of its event property.
func (b *board) log(event string) string {
	b.Helper()
	schema := map[string]any{"Eintrag": typed("title")}
	switch b.d.logs {
	case "full":
		standard := b.notion.Databases().MeshLog
		if event == "outcome" {
			standard = b.notion.Databases().TaskLog
		}
		return standard
	case "useful":
		maps.Copy(schema, map[string]any{"Agent": typed("select"), "Entry ID": typed("rich_text"), event: typed("select"), "Time": typed("date")})
	case "other types":
		maps.Copy(schema, map[string]any{
			"entry_id": typed("number"), "agent": typed("people"), event: typed("status", "completed", "granted"), "task_id": typed("checkbox"), "at": typed("rich_text"),
			"claim_id": typed("multi_select"), "started": typed("number"), "summary": typed("formula"), "task": map[string]any{"relation": map[string]any{"database_id": b.ids.Tasks, "single_property": map[string]any{}}},
		})
	}
	return b.create(event, schema)
}

func (b *board) create(title string, schema map[string]any) string {
	b.Helper()
	id, err := b.notion.CreateDatabase(title, schema)
	mustDo(b.world, err)
	return id
}

func typed(kind string, options ...string) any {
	config := map[string]any{}
	if len(options) > 0 {
		list := []any{}
		for _, name := range options {
			list = append(list, map[string]any{"name": name})
		}
		config["options"] = list
	}
	if kind == "formula" {
		config["expression"] = "1"
	}
	return map[string]any{kind: config}
}

// configure sets a daemon up for the dialect.
func (b *board) configure(c *config.Config) {
	c.Databases, c.Tasks.Properties, c.Tasks.Statuses = b.ids, b.names, b.stati
	if b.d.timeout == "denied" {
		c.Tasks.Properties.ClaimTimeoutMinutes = ""
	}
	if b.d.holder == "people" {
		c.Agents = dialectAgents
	}
	c.Schedule.Sweep = "@every 100h"  // only when the test calls it
	c.Sync.Interval = 5 * time.Minute // because the test takes hours
}

// task adds a task to the board.
func (b *board) task(title string, status task.Status, priority string, after ...string) string {
	b.Helper()
	props := map[string]any{
		"Aufgabe/Task": text("title", title), b.names.Status: option(b.d.status, b.name(status)),
	}
	switch b.d.priority {
	case "select", "status":
		props[b.names.Priority] = option(b.d.priority, priority)
	case "rich_text":
		props[b.names.Priority] = text("rich_text", strings.ToUpper(priority))
	}
	if b.d.depends == "there" && len(after) > 0 {
		props[b.names.DependsOn] = relation(after...)
	}
	id, err := b.notion.CreatePage(b.ids.Tasks, props)
	mustDo(b.world, err)
	return id
}

func (b *board) name(status task.Status) string {
	s := b.stati
	return map[task.Status]string{
		task.Open: s.Open, task.InProgress: s.InProgress, task.Blocked: s.Blocked, task.Completed: s.Completed, task.Cancelled: s.Cancelled,
	}[status]
}

// shows checks what a person sees of a task.
func (b *board) shows(what, id string, status task.Status, agent string) {
	b.Helper()
	p := b.page(id)
	holder := p.Text(b.names.ClaimedBy)
	if b.d.holder == "people" {
		holder = map[string]string{"Jonas": "Sandman", "Priya": "Oracle"}[holder]
	}
	same(b.world, what, b.name(status)+" of "+agent, p.Select(b.names.Status)+" of "+holder)
	same(b.world, what+", its date and token", []bool{agent != "", agent != ""}, []bool{p.Date(b.names.ClaimedAt) != "", p.Text(b.names.ClaimToken) != ""})
}

// TestDialects runs the whole life of claims with each dialect.
func TestDialects(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.String(), func(t *testing.T) {
			inWorld(t, 0, func(w *world) { speaking(w, d).cycle() })
		})
	}
}

func (b *board) cycle() {
	first := b.task("first", task.Open, "low")
	time.Sleep(time.Minute) // Notion keeps times of creation to the minute
	waits := b.task("waits for the first", task.Open, "high", first)
	time.Sleep(time.Minute)
	other := b.task("other", task.Open, "medium")
	b.task("finished", task.Completed, "critical")
	b.task("cancelled", task.Cancelled, "critical")

	n, rival := b.daemon(b.configure), b.daemon(b.configure)
	defer n.stop()
	defer rival.stop()

	// Granted, and refused to others at this and the other daemon.
	cl := n.mustClaim("Sandman", first)
	b.shows("claimed", first, task.InProgress, "Sandman")
	for _, m := range []*node{n, rival} {
		_, err := m.claim("Oracle", first)
		b.refused("what is held", err, denied(claim.CodeHeld), "Sandman")
	}
	if _, err := n.claim("Oracle", waits); b.d.depends == "there" {
		b.refused("what waits", err, denied(claim.CodeBlockedByDependency))
	} else {
		mustDo(b.world, err)
		mustDo(b.world, n.release(waits))
	}

	// Renewed, completed.
	claimedAt := b.page(first).Date(b.names.ClaimedAt)
	time.Sleep(20 * time.Minute)
	renewed, err := n.renew(cl)
	if err != nil || !renewed.ExpiresAt.After(cl.ExpiresAt.Time) || b.page(first).Date(b.names.ClaimedAt) == claimedAt {
		b.Errorf("renewed: %+v, err = %v, claimed at %s", renewed, err, b.page(first).Date(b.names.ClaimedAt))
	}
	mustDo(b.world, n.complete(cl))
	b.shows("completed", first, task.Completed, "Sandman")

	// The rest is offered by priority, else in the order of creation.
	wanted := task.High.String()
	if b.d.priority == "missing" {
		wanted = task.None.String()
	}
	if next := n.mustClaim("Sandman", ""); string(next.Task.ID) != waits || next.Task.Priority != wanted {
		b.Errorf("next = %+v, want the one that waited for the first, of priority %s", next.Task, wanted)
	}

	// Ended in the other ways.
	n.mustClaim("Oracle", other)
	mustDo(b.world, n.release(other))
	b.shows("released", other, task.Open, "")
	cl = n.mustClaim("Oracle", other)
	mustCall(n, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{}))
	b.shows("failed", other, task.Blocked, "")
	b.edit(other, map[string]any{b.names.Status: option(b.d.status, b.stati.Open)})
	b.lengths(n, rival, other)
	time.Sleep(time.Minute)
	for _, m := range []*node{n, rival} {
		if got := m.status().Outbox; got.Depth > 0 {
			b.Errorf("log entries are owed: %+v", got)
		}
	}
	if got := len(b.notion.Pages(b.ids.TaskLog)); got < 3 {
		b.Errorf("%d entries in the task log", got)
	}
}

// lengths gives a task a longer lease than usual. If the page cannot say so, other daemons would not
// know: then nobody may be promised one.
func (b *board) lengths(n, rival *node, id string) {
	b.Helper()
	if b.d.timeout != "missing" {
		b.edit(id, map[string]any{b.names.ClaimTimeoutMinutes: number(90)})
	}
	cl := n.mustClaim("Sandman", id)
	lease := time.Until(cl.ExpiresAt.Time)
	if told := lease > 80*time.Minute; told != (b.d.timeout == "there") {
		b.Errorf("promised %v, and the property for it is %s", lease, b.d.timeout)
	}
	time.Sleep(lease - time.Second)
	b.refused("just before the end of the lease", second(rival.claim("Oracle", id)), denied(claim.CodeHeld))
	time.Sleep(3 * time.Minute)
	if over := rival.mustClaim("Oracle", id); !over.Override {
		b.Errorf("after the lease: %+v, want it overridden", over)
	}
	b.shows("overridden", id, task.InProgress, "Oracle")
	b.refused("the overridden claim", n.complete(cl), string(api.CodeClaimLost))
}

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
	for _, d := range dialects() {
		recorded(func(w *world) { speaking(w, d).cycle() })
	}
	recorded(func(w *world) {
		w.withFields()
		inside := w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		n := w.daemon(func(c *config.Config) { c.Tasks.Only = []string{"Area=api", "Urgent = yes", "Sprint=3"} })
		w.mentions(second(n.claim("Sandman", inside)), "Sprint")
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
	g := &golden{node: w.daemon(change), requested: make(map[string]bool), names: make(map[string]string)}
	g.story()
	id := task.ID(g.add("With a page", nil))
	mustDo(w, w.notion.WriteMarkdown(string(id), "## Done when\n- [ ] it has a test\n"))
	mustDo(w, w.notion.AddComment(string(id), w.person("Tom"), "Ah"))
	many := make([]string, 26) // a page shows 25 relations
	for i := range many {
		many[i] = w.add(fmt.Sprint("Dependency ", i), nil)
	}
	w.add("Waits for them", map[string]any{"depends_on": relation(many...)})
	mustCall(g.node, api.OpGetTaskContent, api.GetTaskInput{ID: string(id)})
	mustCall(g.node, api.OpComment, api.OnTask(id, "", api.CommentRequest{Agent: "Sandman", Text: "hello", Mention: "Tom"}))
	mustCall(g.node, api.OpAddTask, api.AddInput{Body: api.AddRequest{
		Agent: "Sandman", Title: "Made", Body: "# One\n- [ ] two", Priority: "low", DependsOn: []string{string(id)}, Fields: fields,
	}})
	mustCall(g.node, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: string(id), TimeoutMinutes: 90}))
	mustCall(g.node, api.OpComplete, api.On(api.OnlyClaim, "", api.CompleteRequest{Agent: "Sandman", Summary: "it works", Evidence: []string{"commit 1"}}))
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
