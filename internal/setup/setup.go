package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// Options configures a plan.
type Options struct {
	Client *notion.Client
	// Config is the configuration in effect, and File the path of its file, which may not exist.
	Config config.Config
	File   string
	// Saved is the file's configuration without the environment. Of the environment's settings,
	// only the databases and the names of properties, statuses and priorities go into the file,
	// because they are what is set up.
	Saved config.Config
	// Given are the databases and data sources that the user named. For one that was not named, the
	// configured one is used. With a Parent, if the configured one is not on that page, one is
	// found there or made.
	Given  config.Databases
	Parent task.ID
	// Map gives the names of properties, statuses and priorities by their keys below
	// tasks.properties, tasks.statuses and tasks.priorities, of priorities with commas between
	// several names. These are not guessed.
	Map map[string]string
	// Only are the conditions for tasks.only, NAME=VALUE each; none keeps the configured ones.
	Only []string
	// Replace allows replacing a configuration file that differs.
	Replace bool
}

// New reads the existing databases and plans what is missing. A long pause that Notion asks for is
// an error.
func New(ctx context.Context, o Options) (*Plan, error) {
	ctx = notion.Impatient(ctx)
	p := &Plan{Config: o.Config, File: o.File, saved: o.Saved, client: o.Client, parent: o.Parent, replace: o.Replace}
	var below map[task.ID]string
	if o.Parent != "" {
		var err error
		if below, err = o.Client.Below(ctx, o.Parent); err != nil {
			return nil, fmt.Errorf("the page for the databases: %w", err)
		}
	}
	for _, k := range kinds {
		id := p.choose(o, k, below)
		if id == "" && o.Parent == "" {
			return nil, fmt.Errorf("databases.%s: not named: give --parent PAGE, to find it on that page of Notion or make it there, or --%s URL for one that you have", k.key, k.flag())
		}
		source := *k.source(&o.Given)
		if configured := *k.id(&o.Config.Databases); source == "" && (configured == "" || configured == id) {
			source = *k.source(&o.Config.Databases)
		}
		db, err := p.locate(ctx, k, id, source, below)
		if err != nil {
			return nil, fmt.Errorf("databases.%s: %w", k.key, err)
		}
		if db.ID == "" {
			source = "" // known once it is made
		}
		if *k.id(&o.Config.Databases) != *k.id(&o.Saved.Databases) && *k.id(&o.Config.Databases) != string(db.ID) {
			p.note("databases.%s is set in the environment to another database, which goes before the file: unset DIBS_DATABASES_%s", k.key, strings.ToUpper(k.key))
		}
		*k.id(&p.Config.Databases), *k.source(&p.Config.Databases) = string(db.ID), cmp.Or(source, string(db.Source))
		made := id == "" // by dibs init, now or earlier
		if k.log == "" {
			board := false
			if made && db.ID != "" {
				// If Notion does not list views, it does not accept any either.
				if board, err = o.Client.HasBoard(ctx, db.ID); err != nil {
					board = true
				}
			}
			p.planTasks(k, db, o.Map, made)
			if err := p.planTicked(ctx, k, db); err != nil {
				return nil, fmt.Errorf("databases.%s: %w", k.key, err)
			}
			p.scope(db, o.Only)
			if known := p.Config.Databases.Tasks == p.saved.Databases.Tasks && len(o.Only) == 0; !made && !known {
				if err := p.survey(ctx, db); err != nil {
					return nil, fmt.Errorf("databases.%s: %w", k.key, err)
				}
			}
			if made && !board {
				p.planBoard(k)
			}
		} else {
			p.planLog(k, db)
		}
	}
	p.planFile(o)
	if p.Config.Databases.Tasks != "" {
		slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(p.turn(a), p.turn(b)) })
	}
	return p, nil
}

// turn orders the steps on a team's own database: what changes in its own columns comes first. That is
// before anything that makes the board one that dibs works on, see planTicked. New columns come last.
func (p *Plan) turn(s Step) int {
	switch {
	case s.Action == WriteConfig:
		return 3
	case s.Database != "tasks":
		return 1
	case s.Action == Complete, len(s.columns) == 1 && s.columns[0].Name == p.Config.Tasks.Properties.Status:
		return 0
	}
	return 2
}

// choose returns the id of the database to use; empty if it is to be found on the parent page or
// made there. below are the databases on that page.
func (p *Plan) choose(o Options, k kind, below map[task.ID]string) string {
	if given := *k.id(&o.Given); given != "" {
		return given
	}
	configured := *k.id(&o.Config.Databases)
	if _, ok := below[task.ID(configured)]; ok || o.Parent == "" {
		return configured
	}
	if configured != "" {
		p.note("databases.%s is %s so far, which does not lie on that page: give --%s %[2]s, or no --parent, to go on with it",
			k.key, configured, k.flag())
	}
	return ""
}

// locate reads a database. Without an id it looks on the page for one that an earlier run made, and
// returns a database without an id if there is none.
func (p *Plan) locate(ctx context.Context, k kind, id, source string, below map[task.ID]string) (notion.Database, error) {
	read := func(id task.ID) (notion.Database, error) {
		p.client.Choose(id, "databases."+k.key+"_source", source)
		return p.client.Database(ctx, string(id))
	}
	if id != "" {
		return read(task.ID(id))
	}
	var found []notion.Database
	for candidate, title := range below {
		if title != k.title {
			continue
		}
		db, err := read(candidate)
		if err != nil {
			return notion.Database{}, err
		}
		if p.isOurs(k, db) {
			found = append(found, db)
		}
	}
	switch len(found) {
	case 0:
		return notion.Database{Title: k.title}, nil
	case 1:
		return found[0], nil
	default:
		return notion.Database{}, fmt.Errorf("the page holds %d databases called %q that could be meant: say which with --%s",
			len(found), k.title, k.flag())
	}
}

// isOurs reports whether a database seems to be made by dibs init: people have databases called
// Tasks, too.
func (p *Plan) isOurs(k kind, db notion.Database) bool {
	names := p.Config.Tasks.Properties
	telltale := []string{names.ClaimedBy, names.ClaimedAt}
	if k.log != "" {
		telltale = []string{wording.EntryID}
	}
	for _, name := range telltale {
		if _, ok := db.Columns[name]; !ok {
			return false
		}
	}
	return true
}

// planTasks plans what the tasks database lacks.
func (p *Plan) planTasks(k kind, db notion.Database, given map[string]string, made bool) {
	p.adopt(db, given)
	var plain, special []notion.NewColumn
	var options []string
	var status string
	for _, f := range workspace.Schema(p.Config).Examine(db) {
		guessed := slices.ContainsFunc(p.Guesses, func(g Guess) bool { return g.Key == f.Key })
		p.adopts = p.adopts || (f.Key == "claimed_by" || f.Key == "claimed_at") && (f.Found == "" || guessed)
		switch {
		case f.Found == "" && ofTeam(f.Key): // made anew, it would be empty
			p.problem("database %q: %s: name the right one in tasks.properties.%s, or nothing", db.Title, f.Problem, f.Key)
		case f.Found == "":
			col := notion.NewColumn{Name: f.Name, Type: f.Types[0], Options: p.options(f.Key)}
			if col.Type == "status" {
				col.Groups = p.groups()
			}
			if f.Similar != "" && db.ID != "" {
				why := ""
				if p.nobodys(f, db.Columns[f.Similar]) {
					why = ", and no agent has a Notion user in agents[].notion_user"
				}
				p.note("database %q: %q is of type %s%s, so %q is added beside it", db.Title, f.Similar, db.Columns[f.Similar].Type, why, f.Name)
			}
			if col.Type == "status" || col.Type == "relation" {
				special = append(special, col)
			} else {
				plain = append(plain, col)
			}
		case len(f.Missing) > 0:
			status, options = f.Name, slices.DeleteFunc(f.Missing, func(name string) bool { return slices.Contains(p.unnamed, name) })
		case f.Grade == notion.Unusable:
			p.problem("database %q: %s: %s", db.Title, f.Problem, f.Remedy)
		case f.Grade == notion.Poor, f.Grade == notion.Spare:
			p.note("database %q: %s: %s", db.Title, f.Problem, f.Remedy)
		}
	}
	if made && !slices.ContainsFunc(slices.Collect(maps.Values(db.Columns)), func(c notion.Column) bool { return c.Type == "unique_id" }) {
		special = append(special, notion.NewColumn{Name: "ID", Type: "unique_id", Prefix: "TASK"})
	}
	if _, ok := db.Similar(p.until().Name); !ok {
		special = append(special, p.until())
	}
	p.make(k, db, plain)
	for _, col := range special {
		p.special(k, col)
	}
	if len(options) > 0 {
		p.step(Step{
			Action: AddOptions, Database: k.key, What: fmt.Sprintf("%s by %s", status, strings.Join(options, ", ")),
			columns: []notion.NewColumn{{Name: status, Options: options, Groups: p.groups()}},
		})
	}
}

// special plans a property in a step of its own, because Notion may refuse it.
func (p *Plan) special(k kind, col notion.NewColumn) {
	s := Step{Action: AddProperties, Database: k.key, What: describe(col), columns: []notion.NewColumn{col}}
	switch {
	case col.Type == "formula":
		s.byHand = fmt.Sprintf("add a property %s of type formula: %s", col.Name, col.Expression)
	case col.Type == "unique_id":
		s.byHand = fmt.Sprintf("add a property %s of type ID", col.Name)
	case k.log != "":
		s.byHand = fmt.Sprintf("add a property %s of type relation, to the tasks", col.Name)
	}
	p.step(s)
}

// planBoard plans the board view.
func (p *Plan) planBoard(k kind) {
	status := p.Config.Tasks.Properties.Status
	p.step(Step{
		Action: AddView, Database: k.key, What: fmt.Sprintf("%q, a board by %s", boardName, status),
		byHand: fmt.Sprintf("open the database in Notion, add a view of type board, and group it by %s", status),
	})
}

// planLog plans what a log database lacks.
func (p *Plan) planLog(k kind, db notion.Database) {
	example := wording.Example(k.log)
	var missing []notion.NewColumn
	for i, f := range db.ExamineLog(example, p.client.Sources()[task.ID(p.Config.Databases.Tasks)].Source) {
		switch f.Grade {
		case notion.Poor:
			p.note("database %q: %s", db.Title, f.Problem)
		case notion.Spare:
			name := f.Key
			if name == "task" { // "task" is the relation
				name = "task_title"
			}
			missing = append(missing, notion.NewColumn{Name: name, Type: columnType(example.Fields[i])})
		}
	}
	if k.log == claim.MeshLog && db.ID == "" {
		for _, name := range wording.MessageColumns {
			missing = append(missing, notion.NewColumn{Name: name, Type: "rich_text"})
		}
	}
	p.make(k, db, missing)
	if _, ok := db.Similar("task"); !ok {
		p.special(k, notion.NewColumn{Name: "task", Type: "relation"})
	}
}

// make plans a new database, or the properties that an existing one lacks.
func (p *Plan) make(k kind, db notion.Database, columns []notion.NewColumn) {
	var names []string
	if db.ID == "" {
		columns = append([]notion.NewColumn{{Name: "Name", Type: "title"}}, columns...)
	}
	for _, col := range columns {
		names = append(names, describe(col))
	}
	switch what := strings.Join(names, ", "); {
	case db.ID == "":
		p.step(Step{
			Action: CreateDatabase, Database: k.key, What: fmt.Sprintf("%q with %s", k.title, what),
			title: k.title, columns: columns,
		})
	case len(columns) > 0:
		p.step(Step{Action: AddProperties, Database: k.key, What: fmt.Sprintf("%s to %q", what, db.Title), columns: columns})
	}
}

// planFile plans the configuration file.
func (p *Plan) planFile(o Options) {
	switch _, err := os.Stat(p.File); {
	case errors.Is(err, fs.ErrNotExist):
		p.step(Step{Action: WriteConfig, What: p.File})
	case err != nil:
		p.problem("%v", err)
	case p.Config.Databases.Named() == nil && len(config.Changed(o.Config, p.Config)) == 0:
	case p.replace:
		what := p.File + ", and keep the one that is there as " + p.File + ".bak"
		if o.Saved.Notion.Token != "" {
			p.note("the token stays behind in %s.bak: put it into a file of its own, and name that in notion.token_file", p.File)
		}
		p.step(Step{Action: WriteConfig, What: what})
	default:
		p.problem("%s is there and says otherwise: give --force to replace it, or name another file with --config", p.File)
	}
}

// until returns the formula that shows when a claim's lease ends, as far as the page says: to a
// minute or so.
func (p *Plan) until() notion.NewColumn {
	names := p.Config.Tasks.Properties
	minutes := strconv.Itoa(int(p.Config.Claim.Timeout.Minutes()))
	if own := names.ClaimTimeoutMinutes; own != "" {
		minutes = fmt.Sprintf("if(prop(%[1]q) > 0, prop(%[1]q), %[2]s)", own, minutes)
	}
	return notion.NewColumn{
		Name: "claimed_until", Type: "formula",
		Expression: fmt.Sprintf(`dateAdd(prop(%q), %s, "minutes")`, names.ClaimedAt, minutes),
	}
}
