package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// groups maps each status to its group in a status property.
func (p *Plan) groups() map[string]string {
	groups := make(map[string]string)
	for status, name := range workspace.Schema(p.Config).Statuses {
		if name != "" {
			groups[name] = groupOf[status]
		}
	}
	return groups
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

// describe describes a property to be made.
func describe(col notion.NewColumn) string {
	if len(col.Options) > 0 {
		return fmt.Sprintf("%s (%s: %s)", col.Name, col.Type, strings.Join(col.Options, ", "))
	}
	return fmt.Sprintf("%s (%s)", col.Name, col.Type)
}

// columnType returns the property type for a field of a log.
func columnType(f wording.Field) string {
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

// options returns the options for a new property of that key.
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
			names = append(names, schema.Priorities[priority]...)
		}
	}
	return names
}

// adopt uses existing properties and statuses whose names differ from the configured ones only in
// case, spaces, "_", "-" and emoji: adding "status" beside "Status" would help nobody. Properties of an
// unusable type are left alone.
func (p *Plan) adopt(db notion.Database, given map[string]string) {
	p.chosen(db, given)
	byKey := config.ByKey[string](&p.Config.Tasks.Properties)
	for _, f := range workspace.Schema(p.Config).Examine(db) {
		_, said := given[f.Key]
		if !said && f.Similar != "" && slices.Contains(f.Types, db.Columns[f.Similar].Type) && !p.nobodys(f, db.Columns[f.Similar]) {
			*byKey[f.Key] = f.Similar
			p.Adopted = append(p.Adopted, Guess{f.Key, f.Similar, db.Columns[f.Similar].Type})
			p.note("database %q: %q is used as %s", db.Title, f.Similar, f.Key)
		}
	}
	p.guess(db, given)
	status := db.Columns[p.Config.Tasks.Properties.Status]
	for key, name := range config.ByKey[string](&p.Config.Tasks.Statuses) {
		_, said := given[key]
		if other := notion.Similar(*name, status.Options); !said && *name != "" && other != "" && other != *name && !slices.Contains(status.Options, *name) {
			p.note("database %q: %q is used for %s", db.Title, other, *name)
			*name = other
			p.Adopted = append(p.Adopted, Guess{Key: key, Name: other})
		}
	}
	p.guessStatuses(status, given)
	p.guessPriorities(db, given)
}

// nobodys reports whether a property takes Notion users while no agent has one: then nobody could
// claim.
func (p *Plan) nobodys(f notion.Fit, col notion.Column) bool {
	return f.Key == "claimed_by" && col.Type == "people" &&
		!slices.ContainsFunc(p.Config.Agents, func(a config.Agent) bool { return a.NotionUser != "" })
}
