package setup

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
	"dibs/internal/worklog"
	"dibs/internal/workspace"
)

// groups says in which group of a status property each status belongs.
func (p *Plan) groups() map[string]string {
	in := map[task.Status]string{
		task.Open: "To-do", task.InProgress: "In progress", task.Blocked: "In progress",
		task.Review: "In progress", task.Failed: "In progress",
		task.Completed: "Complete", task.Cancelled: "Complete",
	}
	groups := make(map[string]string)
	for status, name := range workspace.Schema(p.Config).Statuses {
		if name != "" {
			groups[name] = in[status]
		}
	}
	return groups
}

// until is the formula that shows until when a claim lasts, as far as the page itself says:
// a minute more or less.
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

// describe says what a property will be.
func describe(col notion.NewColumn) string {
	if len(col.Options) > 0 {
		return fmt.Sprintf("%s (%s: %s)", col.Name, col.Type, strings.Join(col.Options, ", "))
	}
	return fmt.Sprintf("%s (%s)", col.Name, col.Type)
}

// columnType is the type of the property to be made for a field of a log.
func columnType(f worklog.Field) string {
	switch f.Value.(type) {
	case time.Time:
		return "date"
	case float64:
		return "number"
	}
	switch f.Name {
	case "outcome", "event":
		return "select"
	case "task_url":
		return "url"
	}
	return "rich_text"
}

// options are those that the property of that key is made with.
func (p *Plan) options(key string) []string {
	var names []string
	schema := workspace.Schema(p.Config)
	switch key {
	case "status":
		for _, status := range task.AllStatuses() {
			if name := schema.Statuses[status]; name != "" {
				names = append(names, name)
			}
		}
	case "priority":
		for _, priority := range task.Priorities {
			if known := schema.Priorities[priority]; len(known) > 0 {
				names = append(names, known[0])
			}
		}
	}
	return names
}

// adopt takes over the names of properties and statuses that differ from the
// configured ones in case, spaces, "_" and "-" only: to add "status" beside
// "Status" would help nobody. What is of a type that cannot be used stays as it is.
func (p *Plan) adopt(db notion.Database, given map[string]string) {
	p.chosen(db, given)
	byKey := propertyNames(&p.Config.Tasks.Properties)
	for _, f := range workspace.Schema(p.Config).Examine(db) {
		_, said := given[f.Key]
		if !said && f.Similar != "" && slices.Contains(f.Types, db.Columns[f.Similar].Type) && !p.nobodys(f, db.Columns[f.Similar]) {
			*byKey[f.Key] = f.Similar
			p.note("database %q: %q is used as %s", db.Title, f.Similar, f.Key)
		}
	}
	p.guess(db, given)
	status := db.Columns[p.Config.Tasks.Properties.Status]
	for key, name := range statusesByKey(&p.Config.Tasks.Statuses) {
		_, said := given[key]
		if other := notion.Similar(*name, status.Options); !said && *name != "" && other != "" && other != *name && !slices.Contains(status.Options, *name) {
			p.note("database %q: %q is used for %s", db.Title, other, *name)
			*name = other
		}
	}
	p.guessStatuses(status, given)
}

// nobodys reports whether a property takes the users that stand for agents, when
// none does: with it nobody could claim.
func (p *Plan) nobodys(f notion.Fit, col notion.Column) bool {
	return f.Key == "claimed_by" && col.Type == "people" &&
		!slices.ContainsFunc(p.Config.Agents, func(a config.Agent) bool { return a.NotionUser != "" })
}

// columnTypes are the types of a database's properties.
func columnTypes(db notion.Database) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, col := range db.Columns {
			if !yield(cmp.Or(col.Type, "unknown")) {
				return
			}
		}
	}
}
