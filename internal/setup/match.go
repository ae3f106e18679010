package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
)

// Guess is a name in the database that probably means one that dibs needs, by its type and wording.
// A person must confirm it.
type Guess struct {
	// Key is the key of the configuration below tasks.properties, tasks.statuses or
	// tasks.priorities. A priority has a guess for each of its names.
	Key  string
	Name string
	// Type is the type of a property; empty for a status or a priority.
	Type string
}

// Guesses are names for keys. In JSON they are an object: a key has its name, or a list of names if
// there are several.
type Guesses []Guess

// MarshalJSON writes the object.
func (all Guesses) MarshalJSON() ([]byte, error) {
	names := make(map[string]any)
	for _, g := range all {
		switch before := names[g.Key].(type) {
		case nil:
			names[g.Key] = g.Name
		case string:
			names[g.Key] = []string{before, g.Name}
		case []string:
			names[g.Key] = append(before, g.Name)
		}
	}
	return json.Marshal(names)
}

func (g Guess) String() string {
	if slices.Contains(priorityKeys, g.Key) {
		return fmt.Sprintf("priority %q is what dibs calls %s", g.Name, g.Key)
	}
	if g.Type == "" {
		return fmt.Sprintf("status %q is what dibs calls %s", g.Name, g.Key)
	}
	return fmt.Sprintf("property %q (%s) is what dibs calls %s", g.Name, g.Type, g.Key)
}

// MapKeys returns the keys that Options.Map may have.
func MapKeys() []string {
	var c config.Config
	return slices.Concat(slices.Sorted(maps.Keys(config.ByKey[string](&c.Tasks.Properties))), slices.Sorted(maps.Keys(config.ByKey[string](&c.Tasks.Statuses))), priorityKeys)
}

// chosen uses the names that the user gave. The name of a property that the database lacks must be
// dibs' own; any other is reported as a mistake.
func (p *Plan) chosen(db notion.Database, given map[string]string) {
	plain := config.Default()
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name := given[key]
		if to, ok := config.ByKey[string](&p.Config.Tasks.Properties)[key]; ok {
			*to = name
			if _, there := db.Columns[name]; db.ID != "" && !there && name != *config.ByKey[string](&plain.Tasks.Properties)[key] && !(name == "" && optional(key)) {
				p.problem("database %q has no property %q, which --map gives as %s: its properties are %s", db.Title, name, key, propertyList(db))
			}
		}
	}
	p.chosenStatuses(given)
}

// optional reports whether the property of that key may be missing.
func optional(key string) bool {
	return !slices.Contains([]string{"status", "claimed_by", "claimed_at", "claim_token"}, key)
}

// propertyList lists the properties of a database, with their types.
func propertyList(db notion.Database) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		list = append(list, fmt.Sprintf("%s (%s)", name, db.Columns[name].Type))
	}
	return strings.Join(list, ", ")
}

// guess uses existing properties for missing ones, if type and name suggest it. On a team's own board
// it also looks for what says that people have a task, that it is done, that its parts come first, and
// when it counts as done. In a database that dibs uses already, these stay as they are configured.
// given are the names that the user gave.
func (p *Plan) guess(db notion.Database, given map[string]string) {
	names := config.ByKey[string](&p.Config.Tasks.Properties)
	fits := workspace.Schema(p.Config).Examine(db)
	if db.ID != "" && string(db.ID) != p.saved.Databases.Tasks {
		fits = append(fits, slices.DeleteFunc(slices.Clone(ofTeams), func(f notion.Fit) bool { return *names[f.Key] != "" })...)
	}
	for _, f := range fits {
		if _, said := given[f.Key]; said || f.Found != "" {
			continue
		}
		if col, ok := p.meant(db, f); ok {
			*names[f.Key] = col.Name
			p.Guesses = append(p.Guesses, Guess{f.Key, col.Name, col.Type})
		}
	}
}

// ofTeams are the keys of properties that a team's own board may have, with their types. dibs makes
// none of them.
var ofTeams = []notion.Fit{
	{Key: assignee, Types: []string{"people"}}, {Key: done, Types: []string{"checkbox"}}, {Key: subItems, Types: []string{"relation"}},
	{Key: doneWhen, Types: []string{"rich_text"}},
}

const assignee, done, subItems, doneWhen = "assignee", "done", "sub_items", "done_when"

// ofTeam reports whether the property of that key is a team's own.
func ofTeam(key string) bool {
	return slices.ContainsFunc(ofTeams, func(f notion.Fit) bool { return f.Key == key })
}

// meant returns the property that could be meant by a missing one.
func (p *Plan) meant(db notion.Database, f notion.Fit) (notion.Column, bool) {
	var fits, only []string // only are those of a type that says enough
	inUse := slices.Collect(maps.Values(config.ByKey[string](&p.Config.Tasks.Properties)))
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		col := db.Columns[name]
		otherDatabase := (f.Key == "depends_on" || f.Key == subItems) && col.Source != db.Source
		people := f.Key == "claimed_by" && col.Type == "people" // a team's own: dibs does not write there unasked
		if !slices.Contains(f.Types, col.Type) || otherDatabase || people || slices.ContainsFunc(inUse, func(used *string) bool { return *used == name }) {
			continue
		}
		if f.Key == "priority" && len(col.Options) > 0 && saysPriority(name) {
			return col, true
		}
		fits = append(fits, name)
		if f.Key == "status" && col.Type == "status" || f.Key == assignee {
			only = append(only, name)
		}
	}
	name := firstOf(propertyWords[f.Key], fits)
	if name == "" && len(only) == 1 {
		name = only[0]
	}
	return db.Columns[name], name != ""
}
