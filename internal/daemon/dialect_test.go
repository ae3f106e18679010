package daemon_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/notion/workspace"
	"dibs/internal/setup"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
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

// The choices for each part, in the order of dialect's fields.
var choices = [][]string{
	{"status", "select"},
	{"rich_text", "select", "people"},
	{"default", "other", "german"},
	{"default", "other", "german"},
	{"there", "missing", "denied"}, // denied: it exists, but the configuration says that it does not
	{"select", "status", "rich_text", "missing"},
	{"there", "missing"},
	{"full", "title", "useful", "other types"},
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

func (d dialect) String() string { return strings.Join(d.parts(), "/") }

func (d dialect) parts() []string {
	return []string{d.status, d.holder, d.names, d.statuses, d.timeout, d.priority, d.depends, d.logs}
}

func dialectOf(p []string) dialect {
	return dialect{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}
}

// dialects returns a few dialects that together have every pair of choices of different parts.
func dialects() []dialect {
	type pair struct {
		a, b   int
		va, vb string
	}
	open := make(map[pair]bool)
	for a := range choices {
		for b := a + 1; b < len(choices); b++ {
			for _, va := range choices[a] {
				for _, vb := range choices[b] {
					open[pair{a, b, va, vb}] = true
				}
			}
		}
	}
	met := func(parts []string) (pairs []pair) {
		for a := range parts {
			for b := a + 1; b < len(parts); b++ {
				if p := (pair{a, b, parts[a], parts[b]}); open[p] {
					pairs = append(pairs, p)
				}
			}
		}
		return pairs
	}
	var out []dialect
	for len(open) > 0 {
		// Begin with a missing pair, and choose the rest one by one.
		first := slices.SortedFunc(maps.Keys(open), func(x, y pair) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })[0]
		parts := make([]string, len(choices))
		parts[first.a], parts[first.b] = first.va, first.vb
		for i := range parts {
			if parts[i] != "" {
				continue
			}
			best := -1
			for _, choice := range choices[i] {
				try := slices.Clone(parts)
				try[i] = choice
				if n := len(met(try)); n > best {
					best, parts[i] = n, choice
				}
			}
		}
		for _, p := range met(parts) {
			delete(open, p)
		}
		out = append(out, dialectOf(parts))
	}
	return out
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
		"Aufgabe/Task": map[string]any{"title": map[string]any{}},
		b.names.Status: typed(d.status, s.Open, s.InProgress, s.Blocked, s.Completed, s.Cancelled),
		// These are ignored and must not cause errors.
		"Place": typed("place"), "Button": typed("button"), "Number": typed("number"),
		b.names.ClaimedBy: typed(d.holder),
		b.names.ClaimedAt: typed("date"),
	}
	if d.status == "select" {
		schema[b.names.Status] = typed("select") // writing an option creates it
	}
	schema[b.names.ClaimToken] = typed("rich_text")
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
	schema := map[string]any{"Eintrag": map[string]any{"title": map[string]any{}}}
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
	if err != nil {
		b.Fatal(err)
	}
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
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func (b *board) name(status task.Status) string {
	s := b.stati
	return map[task.Status]string{
		task.Open: s.Open, task.InProgress: s.InProgress, task.Blocked: s.Blocked, task.Completed: s.Completed, task.Cancelled: s.Cancelled,
	}[status]
}

// taken makes a task look claimed by an agent at that time.
func (b *board) taken(id, agent string, at time.Time) {
	b.Helper()
	holder := text("rich_text", agent)
	switch b.d.holder {
	case "select":
		holder = option("select", agent)
	case "people":
		holder = map[string]any{"people": []any{map[string]any{"id": "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"}}}
	}
	b.edit(id, map[string]any{b.names.Status: option(b.d.status, b.stati.InProgress), b.names.ClaimedBy: holder, b.names.ClaimedAt: date(at)})
}

// shows checks what a person sees of a task.
func (b *board) shows(what, id string, status task.Status, agent string) {
	b.Helper()
	p := b.page(id)
	holder := b.holder(p)
	if got := p.Select(b.names.Status); got != b.name(status) || holder != agent {
		b.Errorf("%s: the task shows %q of %q, want %q of %q", what, got, holder, b.name(status), agent)
	}
	if (p.Date(b.names.ClaimedAt) != "") != (agent != "") {
		b.Errorf("%s: claimed at %q by %q", what, p.Date(b.names.ClaimedAt), agent)
	}
	if token := p.Text(b.names.ClaimToken); (token != "") != (agent != "") {
		b.Errorf("%s: the token is %q, the agent %q", what, token, agent)
	}
}

// holder returns the agent that a page names as the holder.
func (b *board) holder(p emulator.Page) string {
	name := p.Text(b.names.ClaimedBy)
	if b.d.holder == "people" {
		name = map[string]string{"Jonas": "Sandman", "Priya": "Oracle"}[name]
	}
	return name
}

// TestEveryPairOfChoicesIsCovered checks the selection of dialects.
func TestEveryPairOfChoicesIsCovered(t *testing.T) {
	t.Parallel()
	all := dialects()
	var missing []string
	for a := range choices {
		for b := a + 1; b < len(choices); b++ {
			for _, va := range choices[a] {
				for _, vb := range choices[b] {
					if !slices.ContainsFunc(all, func(d dialect) bool { return d.parts()[a] == va && d.parts()[b] == vb }) {
						missing = append(missing, va+" with "+vb)
					}
				}
			}
		}
	}
	if diff := cmp.Diff([]string(nil), missing); diff != "" {
		t.Errorf("pairs that no dialect has:\n%s", diff)
	}
	t.Logf("%d dialects", len(all))
}

// TestDialects runs the whole life of claims with each dialect.
func TestDialects(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, d := range few(4, dialects()) {
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
	b.warnings(n)

	// Granted, and refused to others at this and the other daemon.
	cl := n.mustClaim("Sandman", first)
	b.shows("claimed", first, task.InProgress, "Sandman")
	for _, m := range []*node{n, rival} {
		if _, err := m.claim("Oracle", first); code(err) != denied(claim.CodeHeld) {
			b.Errorf("err = %v, want held", err)
		} else if p := err.(*api.Problem); p.Holder != "Sandman" {
			b.Errorf("held by %q, want Sandman", p.Holder)
		}
	}
	_, err := n.claim("Oracle", waits)
	if b.d.depends == "there" && code(err) != denied(claim.CodeBlockedByDependency) {
		b.Errorf("err = %v, want blocked_by_dependency", err)
	} else if b.d.depends == "missing" {
		if err != nil {
			b.Fatal(err)
		}
		if _, err := client.Do(b.Context(), n.Client, api.OpRelease, api.On(waits, "", api.StopRequest{Agent: "Oracle"})); err != nil {
			b.Error(err)
		}
	}

	// Renewed, completed.
	claimedAt := b.page(first).Date(b.names.ClaimedAt)
	time.Sleep(20 * time.Minute)
	renewed, err := client.Do(b.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{}))
	if err != nil || !renewed.ExpiresAt.After(cl.ExpiresAt.Time) || b.page(first).Date(b.names.ClaimedAt) == claimedAt {
		b.Errorf("renewed: %+v, err = %v, claimed at %s", renewed, err, b.page(first).Date(b.names.ClaimedAt))
	}
	if err := n.complete(cl); err != nil {
		b.Error(err)
	}
	b.shows("completed", first, task.Completed, "Sandman")

	// The rest is offered by priority, else in the order of creation.
	wanted := task.High.String()
	if b.d.priority == "missing" {
		wanted = task.None.String()
	}
	next, err := n.claim("Sandman", "")
	if err != nil || string(next.Task.ID) != waits || next.Task.Priority != wanted {
		b.Errorf("next = %+v, err = %v, want the one that waited for the first, of priority %s", next.Task, err, wanted)
	}

	// Ended in the other ways.
	for _, end := range []struct {
		what string
		do   func(id string) error
		want task.Status
	}{
		{"released", func(id string) error {
			_, err := client.Do(b.Context(), n.Client, api.OpRelease, api.On(id, "", api.StopRequest{}))
			return err
		}, task.Open},
		{"failed, reopened", func(id string) error {
			_, err := client.Do(b.Context(), n.Client, api.OpFail, api.On(id, "", api.FailRequest{Reopen: true}))
			return err
		}, task.Open},
		{"failed", func(id string) error {
			_, err := client.Do(b.Context(), n.Client, api.OpFail, api.On(id, "", api.FailRequest{}))
			return err
		}, task.Blocked},
		{"blocked", func(id string) error {
			_, err := client.Do(b.Context(), n.Client, api.OpBlock, api.On(id, "", api.BlockRequest{Reason: "no access"}))
			return err
		}, task.Blocked},
	} {
		cl := n.mustClaim("Oracle", other)
		if err := end.do(string(cl.ID)); err != nil {
			b.Errorf("%s: %v", end.what, err)
		}
		b.shows(end.what, other, end.want, "")
		b.edit(other, map[string]any{b.names.Status: option(b.d.status, b.stati.Open)})
	}

	b.lengths(n, rival, other)
	b.stale(n)
	b.person(n)
	b.logged()
}

// warnings checks that the daemon warns of each missing optional property.
func (b *board) warnings(n *node) {
	b.Helper()
	s, err := client.Do(b.Context(), n.Client, api.OpStatus, struct{}{})
	if err != nil {
		b.Fatal(err)
	}
	want := 0
	for _, missing := range []bool{
		b.d.timeout == "missing", b.d.priority == "missing", b.d.depends == "missing",
		b.d.holder == "people", b.d.status == "select" && !b.allStatuses(),
	} {
		if missing {
			want++
		}
	}
	if len(s.Warnings) != want {
		b.Errorf("%d warnings, want %d: %q", len(s.Warnings), want, s.Warnings)
	}
}

// allStatuses reports whether the tasks so far have had every status.
func (b *board) allStatuses() bool {
	statuses := make(map[string]bool)
	for _, p := range b.notion.Pages(b.ids.Tasks) {
		statuses[p.Select(b.names.Status)] = true
	}
	return len(statuses) == len(task.Statuses)
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
	if _, err := rival.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
		b.Errorf("just before the end of the lease: err = %v, want held", err)
	}
	time.Sleep(3 * time.Minute)
	if over, err := rival.claim("Oracle", id); err != nil || !over.Override {
		b.Errorf("after the lease: %+v, err = %v, want it overridden", over, err)
	}
	b.shows("overridden", id, task.InProgress, "Oracle")
	if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
		b.Errorf("the overridden claim: err = %v, want claim_lost", err)
	}
}

// stale checks that a dead agent's task is swept.
func (b *board) stale(n *node) {
	b.Helper()
	left := b.task("left behind", task.InProgress, "low")
	b.taken(left, "claude-chat-7K9X", time.Now().Add(-3*time.Hour))
	time.Sleep(6 * time.Minute) // until the next sync
	swept, err := client.Do(b.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
	if err != nil || !slices.ContainsFunc(swept.Swept, func(s api.Swept) bool { return string(s.Task) == left }) {
		b.Errorf("swept %+v, err = %v, want the task left behind among them", swept.Swept, err)
	}
	b.shows("swept", left, task.Open, "")
}

// person checks that a person's edit wins.
func (b *board) person(n *node) {
	b.Helper()
	cl := n.mustClaim("Sandman", b.task("a person's", task.Open, "low"))
	id := string(cl.Task.ID)
	b.edit(id, map[string]any{b.names.Status: option(b.d.status, b.stati.Cancelled)})
	if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
		b.Errorf("err = %v, want claim_lost", err)
	}
	if got := b.page(id).Select(b.names.Status); got != b.stati.Cancelled {
		b.Errorf("the person's %q became %q", b.stati.Cancelled, got)
	}
}

// logged checks that each log has every entry once, with its id and its agent
// where the database has room for them, or in words.
func (b *board) logged() {
	b.Helper()
	time.Sleep(time.Minute)
	for id, least := range map[string]int{b.ids.TaskLog: 3, b.ids.MeshLog: 10} {
		entries := make(map[string]bool)
		pages := b.notion.Pages(id)
		for _, p := range pages {
			entry := p.Text("entry_id") + p.Text("Entry ID")
			if entry == "" {
				entry = p.Title()[strings.LastIndex(p.Title(), "[")+1:]
			}
			entryText := strings.Join([]string{p.Title(), p.Text("agent"), p.Text("Agent"), p.Body()}, "\n")
			if entries[entry] || len(entry) < 26 || !strings.Contains(entryText, "Sandman") && !strings.Contains(entryText, "Oracle") && !strings.Contains(entryText, "claude-chat-7K9X") && !strings.Contains(entryText, "Maria") {
				b.Errorf("an entry of %q says %q", entry, entryText)
			}
			entries[entry] = true
		}
		if len(pages) < least {
			b.Errorf("%d entries, want at least %d", len(pages), least)
		}
	}
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
	_, err := client.Do(w.Context(), g.node.Client, api.OpGetTaskContent, api.GetTaskInput{ID: string(id)})
	mustDo(w, err)
	_, err = client.Do(w.Context(), g.node.Client, api.OpComment, api.OnTask(id, "", api.CommentRequest{Agent: "Sandman", Text: "hello", Mention: "Tom"}))
	mustDo(w, err)
	_, err = client.Do(w.Context(), g.node.Client, api.OpAddTask, api.AddInput{Body: api.AddRequest{
		Agent: "Sandman", Title: "Made", Body: "# One\n- [ ] two", Priority: "low", DependsOn: []string{string(id)}, Fields: fields,
	}})
	mustDo(w, err)
	_, err = client.Do(w.Context(), g.node.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: string(id), TimeoutMinutes: 90}))
	mustDo(w, err)
	_, err = client.Do(w.Context(), g.node.Client, api.OpComplete, api.On(api.OnlyClaim, "", api.CompleteRequest{Agent: "Sandman", Summary: "it works", Evidence: []string{"commit 1"}}))
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
