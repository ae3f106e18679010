package daemon_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"

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
