package notion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// TaskSchema says how a database names what this daemon speaks of. A name left
// empty is the protocol's own.
type TaskSchema struct {
	Properties Properties
	// Statuses holds the database's name of each status.
	Statuses map[task.Status]string
	// Priorities holds the database's names of each priority, in any case.
	Priorities map[task.Priority][]string
	// NotionUsers holds the id of the Notion user that stands for an agent, for a
	// claimed_by property of type people.
	NotionUsers map[string]string
}

// Properties holds the database's names of the properties.
type Properties struct {
	Status              string
	ClaimedBy           string
	ClaimedAt           string
	ClaimTimeoutMinutes string
	ClaimToken          string
	Priority            string
	DependsOn           string
}

// The property types that something depends on.
const (
	typeTitle    = "title"
	typeRichText = "rich_text"
	typeNumber   = "number"
	typeSelect   = "select"
	typeStatus   = "status"
	typeDate     = "date"
	typePeople   = "people"
	typeRelation = "relation"
)

// wanted is a property that tasks need, or may have.
type wanted struct {
	key   string // its name in the configuration
	name  string // and in the database, if configured
	types []string
	into  *column
	// without says what cannot be done if the property is missing; empty if it must not be.
	without string
}

// taskColumns are the properties of the tasks database that are used; those that
// it lacks have no id.
type taskColumns struct {
	title, status, claimedBy, claimedAt, timeout, token, priority, dependsOn column
}

// wants lists the properties, and where in c each one goes.
func (p Properties) wants(c *taskColumns) []wanted {
	return []wanted{
		{key: "status", name: p.Status, types: []string{typeStatus, typeSelect}, into: &c.status},
		{key: "claimed_by", name: p.ClaimedBy, types: []string{typeRichText, typeSelect, typePeople}, into: &c.claimedBy},
		{key: "claimed_at", name: p.ClaimedAt, types: []string{typeDate}, into: &c.claimedAt},
		{
			key: "claim_token", name: p.ClaimToken, types: []string{typeRichText}, into: &c.token,
			without: "two daemons that use the same agent name cannot tell their claims apart",
		},
		{
			key: "claim_timeout_minutes", name: p.ClaimTimeoutMinutes, types: []string{typeNumber}, into: &c.timeout,
			without: "all claims last as long as claim.timeout says, and a claim of another length cannot be told to others",
		},
		{
			key: "priority", name: p.Priority, types: []string{typeSelect, typeStatus, typeRichText}, into: &c.priority,
			without: "tasks are offered oldest first",
		},
		{
			key: "depends_on", name: p.DependsOn, types: []string{typeRelation}, into: &c.dependsOn,
			without: "no task is known to wait for another",
		},
	}
}

// find finds the columns of tasks in a database, and says what is amiss with those
// that it can do without. The error names everything that has to be changed.
func (s TaskSchema) find(database string, columns map[string]column) (taskColumns, []string, error) {
	var found taskColumns
	var problems, warnings []string
	for _, col := range columns {
		if col.Type == typeTitle {
			found.title = col
		}
	}
	for _, w := range s.Properties.wants(&found) {
		name := cmp.Or(w.name, w.key)
		col, ok := columns[name]
		var problem string
		switch {
		case !ok:
			problem = fmt.Sprintf("property %q is missing: add it with type %s, or name the right one in tasks.properties.%s",
				name, oneOf(w.types), w.key)
			if other := similar(name, columns); other != "" {
				problem += fmt.Sprintf(" (there is %q)", other)
			}
		case !slices.Contains(w.types, col.Type):
			problem = fmt.Sprintf("property %q is of type %s, want %s: change its type, or name another one in tasks.properties.%s",
				name, cmp.Or(col.Type, "unknown"), oneOf(w.types), w.key)
		default:
			*w.into = col
			continue
		}
		if w.without == "" {
			problems = append(problems, problem)
		} else {
			warnings = append(warnings, fmt.Sprintf("%s; until then %s", problem, w.without))
		}
	}
	if len(problems) == 0 {
		problem, warning := s.checkStatuses(found.status)
		problems = append(problems, problem...)
		warnings = append(warnings, warning...)
	}
	if len(problems) > 0 {
		return found, nil, claim.Errorf(claim.Refused, claim.LandedNo, "database %q cannot be used: %s", database, strings.Join(problems, "; "))
	}
	return found, append(warnings, s.checkUse(found)...), nil
}

// statusName is the database's name of a status.
func (s TaskSchema) statusName(status task.Status) string {
	return cmp.Or(s.Statuses[status], string(status))
}

// checkStatuses compares the statuses with the options that the property has. Of
// a select, writing one makes it.
func (s TaskSchema) checkStatuses(col column) (problems, warnings []string) {
	byName := make(map[string]task.Status)
	var missing []string
	for _, status := range task.Statuses {
		name := s.statusName(status)
		if other, ok := byName[name]; ok {
			problems = append(problems, fmt.Sprintf("%s and %s are both named %q: change tasks.statuses", other, status, name))
		}
		byName[name] = status
		if !slices.Contains(col.Options, name) {
			missing = append(missing, fmt.Sprintf("%q", name))
		}
	}
	if len(missing) == 0 {
		return problems, nil
	}
	said := fmt.Sprintf("property %q has no option %s", col.Name, strings.Join(missing, ", "))
	if col.Type == typeStatus {
		return append(problems, said+": add what is missing, or say in tasks.statuses what the options are called"), nil
	}
	return problems, []string{said + ": Notion adds an option when a task is first given it; if it goes by another name, set tasks.statuses"}
}

// checkUse says what is unwise about columns that can be used.
func (s TaskSchema) checkUse(found taskColumns) (warnings []string) {
	if found.claimedBy.Type == typePeople {
		warnings = append(warnings, fmt.Sprintf(
			"property %q is of type people: only agents that a Notion user stands for can claim, and Notion may start a run of an agent that is assigned; rich_text has neither problem",
			found.claimedBy.Name))
	}
	return warnings
}

// similar returns the name of a property that somebody may have meant.
func similar(name string, columns map[string]column) string {
	for _, other := range slices.Sorted(maps.Keys(columns)) {
		if fold(other) == fold(name) {
			return other
		}
	}
	return ""
}

// fold makes names equal that differ in case, spaces, "_" and "-" only.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name))
}

// oneOf lists alternatives.
func oneOf(types []string) string {
	if len(types) == 1 {
		return types[0]
	}
	last := len(types) - 1
	return strings.Join(types[:last], ", ") + " or " + types[last]
}
