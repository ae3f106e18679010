package setup

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
	"dibs/internal/worklog"
	"dibs/internal/workspace"
)

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
		for _, status := range task.Statuses {
			names = append(names, schema.Statuses[status])
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
func (p *Plan) adopt(db notion.Database) {
	names := &p.Config.Tasks.Properties
	byKey := map[string]*string{
		"status": &names.Status, "claimed_by": &names.ClaimedBy, "claimed_at": &names.ClaimedAt,
		"claim_timeout_minutes": &names.ClaimTimeoutMinutes, "claim_token": &names.ClaimToken,
		"priority": &names.Priority, "depends_on": &names.DependsOn, "note": &names.Note,
	}
	for _, f := range workspace.Schema(p.Config).Examine(db) {
		if f.Similar != "" && slices.Contains(f.Types, db.Columns[f.Similar].Type) && !p.nobodys(f, db.Columns[f.Similar]) {
			*byKey[f.Key] = f.Similar
			p.note("database %q: %q is used as %s", db.Title, f.Similar, f.Key)
		}
	}
	status := db.Columns[names.Status]
	for _, name := range statusNames(&p.Config.Tasks.Statuses) {
		if other := notion.Similar(*name, status.Options); other != "" && other != *name && !slices.Contains(status.Options, *name) {
			p.note("database %q: %q is used for %s", db.Title, other, *name)
			*name = other
		}
	}
}

// nobodys reports whether a property takes the users that stand for agents, when
// none does: with it nobody could claim.
func (p *Plan) nobodys(f notion.Fit, col notion.Column) bool {
	return f.Key == "claimed_by" && col.Type == "people" &&
		!slices.ContainsFunc(p.Config.Agents, func(a config.Agent) bool { return a.NotionUser != "" })
}

func statusNames(s *config.Statuses) []*string {
	return []*string{&s.Open, &s.InProgress, &s.Blocked, &s.Completed, &s.Cancelled}
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
