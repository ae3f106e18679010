package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// token checks the token, and who else can read it.
func (e *examination) token() {
	n := e.Config.Notion
	if _, err := n.ReadToken(silent); err != nil {
		e.problem("token", err.Error(), "make a connection at https://www.notion.so/profile/integrations, and set NOTION_TOKEN, or notion.token_file to a file that holds its token")
		return
	}
	var err error
	if e.client, err = workspace.Connect(n, e.Transport, silent); err != nil {
		e.problem("token", err.Error(), "copy the token anew from the connection's page in Notion")
		return
	}
	switch file := n.TokenFile; {
	case n.TokenOrigin != "":
		e.looseFile("token", n.TokenOrigin, "set in "+n.TokenOrigin)
	case n.Token == "":
		e.looseFile("token", file, "in "+file)
	default:
		e.ok("token", "set in the environment")
	}
}

// connect asks whose the token is, and reports whether Notion answered.
func (e *examination) connect(ctx context.Context) bool {
	if e.client == nil {
		return false
	}
	bot, err := e.client.Me(ctx)
	if err != nil {
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		e.Unreachable = isFailed && failed.Kind == claim.Unavailable
		e.failed("connection", err)
		return false
	}
	who := fmt.Sprintf("%q of workspace %q, on %s", bot.Name, bot.Workspace, e.Config.Notion.BaseURL)
	if bot.OwnedBy == "user" {
		e.warn("connection", who+", which acts for a person", "an internal connection of the workspace goes on working when that person leaves")
	} else {
		e.ok("connection", who)
	}
	e.plan(bot)
	e.comments(ctx)
	return true
}

// comments checks the capabilities for comments, which are off by default.
func (e *examination) comments(ctx context.Context) {
	if !e.Config.Notion.Comments {
		return
	}
	err := e.client.CanComment(ctx)
	if err == nil {
		_, err = e.client.People().List(ctx, false)
	}
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Refused {
		lacks, rest, _ := strings.Cut(err.Error(), ": ")
		remedy, _, _ := strings.Cut(rest, ": ")
		e.warn("notion.comments", lacks, remedy)
		return
	}
	if err != nil {
		e.failed("notion.comments", err)
		return
	}
	e.ok("notion.comments", "the connection may make them, and mention people")
}

// plan reports what can be seen of the workspace's plan.
func (e *examination) plan(bot notion.Bot) {
	switch {
	case bot.MaxUpload == 0:
		e.ok("plan", "Notion does not say")
	case bot.MaxUpload <= notion.FreeUpload:
		e.warn("plan", "Free, by its limit on uploads: with more than one member it has room for 1,000 blocks, of which each log entry takes one or two",
			"upgrade, or use it alone; claims go on when the logs are full")
	case e.Config.Notion.Rate > 3:
		e.ok("plan", fmt.Sprintf("not Free; notion.rate is %g, which only Business and Enterprise allow", e.Config.Notion.Rate))
	default:
		e.ok("plan", "not Free; in Business and Enterprise notion.rate may be 10")
	}
}

func (e *examination) clock(ctx context.Context) {
	if e.client.DoubtsNow() {
		_, _ = e.client.Me(ctx) // the next check reports a failure
	}
	skew := time.Until(e.client.Now()).Round(time.Second)
	found := "agrees with Notion's to the second"
	switch {
	case skew > 0:
		found = fmt.Sprintf("%v behind Notion's", skew)
	case skew < 0:
		found = fmt.Sprintf("%v ahead of Notion's", -skew)
	}
	if skew.Abs() > skewAllowed {
		e.warn("clock", found, "set this machine's clock, for example with NTP; claims go by Notion's")
		return
	}
	e.ok("clock", found)
}

// databases checks the three databases.
func (e *examination) databases(ctx context.Context) {
	if err := e.Config.Databases.Named(); err != nil {
		what, remedy, _ := strings.Cut(err.Error(), ": ")
		e.problem("databases", what, remedy)
		return
	}
	workspace.Choose(e.client, e.Config.Databases)
	e.recallSources(ctx)
	if e.tasksDatabase(ctx); e.paused() {
		return
	}
	for _, log := range []struct {
		key, id string
		log     claim.Log
	}{
		{"databases.task_log", e.Config.Databases.TaskLog, claim.TaskLog},
		{"databases.mesh_log", e.Config.Databases.MeshLog, claim.MeshLog},
	} {
		if db, ok := e.database(ctx, log.key, log.id); ok {
			e.logProperties(log.key, db, wording.Example(log.log))
		}
		if e.paused() {
			return
		}
	}
}

// recallSources gives the client the data sources that the daemon's journal knows. An unreadable
// journal is another finding.
func (e *examination) recallSources(ctx context.Context) {
	var known map[task.ID]notion.Choice
	found, err := journal.ReadMeta(ctx, filepath.Join(e.Config.StateDir, journal.FileName), journal.MetaSources)
	if err == nil && json.Unmarshal([]byte(found), &known) == nil {
		e.client.RecallSources(known)
	}
}

// database reads a database, and reports which of its data sources is used.
func (e *examination) database(ctx context.Context, key, id string) (notion.Database, bool) {
	known := e.client.Sources()[task.ID(id)]
	db, err := e.client.Database(ctx, id)
	_, isWhich := errors.AsType[*notion.SourceError](err)
	switch {
	case isWhich:
		e.failed(key+"_source", err)
	case err != nil:
		e.failed(key, err)
	case e.client.Sources()[db.ID].Wanted != "":
		e.ok(key, fmt.Sprintf("%q", db.Title))
		e.ok(key+"_source", fmt.Sprintf("%q (%s), which alone is used", db.Title, db.Source))
	case known.Source == db.Source:
		e.ok(key, fmt.Sprintf("%q, data source %s, which the daemon has found", db.Title, db.Source))
	default:
		e.ok(key, fmt.Sprintf("%q, with one data source", db.Title))
	}
	return db, err == nil
}

func (e *examination) tasksDatabase(ctx context.Context) {
	const key = "databases.tasks"
	db, ok := e.database(ctx, key, e.Config.Databases.Tasks)
	if !ok {
		return
	}
	schema := workspace.Schema(e.Config)
	var assignee notion.Fit
	for _, f := range schema.Examine(db) {
		check := "tasks.properties." + f.Key
		switch f.Grade {
		case notion.Fits:
			if f.Key == "assignee" {
				assignee = f
				continue
			}
			if f.Key == "done" {
				e.ok(check, fmt.Sprintf("%q, %s: what is ticked is COMPLETED, whatever its status; complete ticks it, reopen takes the tick off", f.Name, f.Found))
				continue
			}
			e.ok(check, fmt.Sprintf("%q, %s", f.Name, f.Found))
		case notion.Spare:
			e.ok(check, f.Problem+": "+f.Remedy)
		case notion.Poor:
			e.warn(check, f.Problem, f.Remedy)
		default:
			e.problem(check, f.Problem, f.Remedy)
		}
		e.users(f)
	}
	for _, key := range schema.Without {
		e.ok("tasks.properties."+key, "not there, as configured")
	}
	for _, f := range schema.ExamineFields(db) {
		switch f.Grade {
		case notion.Fits:
			e.ok("tasks.fields", fmt.Sprintf("%q, %s", f.Name, f.Found))
		case notion.Unusable:
			e.problem("tasks.only", f.Problem, f.Remedy)
		default:
			e.warn("tasks.fields", f.Problem, f.Remedy)
		}
	}
	e.offered(ctx, db, schema, assignee)
	e.priorities(db)
	if e.Probe {
		e.tasks, _ = e.client.Tasks(ctx, e.Config.Databases.Tasks, schema) // the faults are reported above
	}
}

// offered says how many open tasks the column of assignees keeps back from agents, and how many
// tasks.only does.
func (e *examination) offered(ctx context.Context, db notion.Database, schema notion.TaskSchema, assignee notion.Fit) {
	check := "tasks.only"
	if assignee.Key != "" {
		check = "tasks.properties.assignee"
	} else if len(schema.Only) == 0 {
		return
	}
	rows, err := e.client.Survey(ctx, db, schema)
	if err != nil {
		e.failed(check, err)
		return
	}
	open, withheld, outside := 0, 0, 0
	for _, t := range rows {
		if t.Status != task.Open {
			continue
		}
		open++
		if t.Assignee != "" && !t.AssigneeIsAgent {
			withheld++
		}
		if t.Outside != "" {
			outside++
		}
	}
	if assignee.Key != "" {
		e.ok(check, fmt.Sprintf("%q, %s, which keeps %d of %d open tasks back from agents", assignee.Name, assignee.Found, withheld, open))
	}
	if len(schema.Only) > 0 {
		e.ok("tasks.only", fmt.Sprintf("%s, which keeps %d of %d open tasks back from agents", strings.Join(e.Config.Tasks.Only, " and "), outside, open))
	}
}

// priorities warns of options of the priority that have no meaning here.
func (e *examination) priorities(db notion.Database) {
	col := db.Columns[cmp.Or(e.Config.Tasks.Properties.Priority, "priority")]
	words := task.Vocabulary{Priorities: workspace.Schema(e.Config).Priorities}
	var unknown []string
	for _, name := range col.Options {
		if words.Rank(name) == task.None {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		e.warn("tasks.priorities", fmt.Sprintf("tasks of priority %s are offered last", strings.Join(unknown, ", ")), "say in tasks.priorities what they mean")
	}
}

// logProperties reports where the values of a log's entries go.
func (e *examination) logProperties(key string, db notion.Database, example wording.Entry) {
	var fit, text []string
	for _, f := range db.ExamineLog(example, e.client.Sources()[task.ID(e.Config.Databases.Tasks)].Source) {
		switch name := f.Key; f.Grade {
		case notion.Fits:
			if f.Name != name {
				name += fmt.Sprintf(" (in %q)", f.Name)
			}
			fit = append(fit, name)
		case notion.Poor:
			e.warn(key, f.Problem, f.Remedy)
		default:
			text = append(text, name)
		}
	}
	if len(fit) > 0 {
		e.ok(key, "properties for "+strings.Join(fit, ", "))
	}
	if len(text) > 0 {
		level, remedy := OK, ""
		if slices.Contains(text, wording.EntryID) {
			level, remedy = Warning, "dibs init adds them; without entry_id, titles end in the id"
		}
		e.add(level, key, "no property for "+strings.Join(text, ", ")+": they go into the text of the page", remedy)
	}
}

// users checks the agents' Notion users, which claimed_by needs if it is of type people.
func (e *examination) users(f notion.Fit) {
	if f.Key != "claimed_by" || f.Found != "people" {
		return
	}
	var without []string
	for _, a := range e.Config.Agents {
		if a.NotionUser == "" {
			without = append(without, a.Name)
		}
	}
	remedy := fmt.Sprintf("name a Notion user for each in agents[].notion_user, or make %q a text", f.Name)
	switch {
	case len(without) == len(e.Config.Agents):
		e.problem("agents", fmt.Sprintf("property %q takes users only, and no agent has one: nobody can claim anything", f.Name), remedy)
	case len(without) > 0:
		e.warn("agents", fmt.Sprintf("property %q takes users only, and %s cannot claim without one", f.Name, quoted(without)), remedy)
	}
}
