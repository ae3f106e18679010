package setup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
	"dibs/internal/workspace"
)

// Guess is a name in the database that probably means one that dibs needs, by its type and wording.
// A person must confirm it.
type Guess struct {
	// Key is the key of the configuration below tasks.properties or tasks.statuses.
	Key  string `json:"key"`
	Name string `json:"name"`
	// Type is the type of a property; empty for a status.
	Type string `json:"type,omitempty"`
}

func (g Guess) String() string {
	if g.Type == "" {
		return fmt.Sprintf("status %q is what dibs calls %s", g.Name, g.Key)
	}
	return fmt.Sprintf("property %q (%s) is what dibs calls %s", g.Name, g.Type, g.Key)
}

// synonyms are other names of properties, the likeliest first, in English and German. Case, spaces,
// "_" and "-" do not matter. Names of data that a claim would overwrite, such as a planned start,
// are not among them.
var synonyms = map[string][]string{
	"status": {
		"state", "task status", "stage", "phase", "workflow", "progress",
		"zustand", "stand", "aufgabenstatus", "bearbeitungsstand", "bearbeitungsstatus",
	},
	"claimed_by": {
		"assignee", "assigned to", "assigned", "owner", "agent", "worker", "holder", "responsible",
		"zuständig", "zuständige person", "zuständigkeit", "verantwortlich", "verantwortliche person", "bearbeiter", "bearbeiterin",
		"bearbeitet von", "zugewiesen", "zugewiesen an", "übernommen von", "inhaber",
	},
	"claimed_at": {
		"assigned at", "assigned on", "claimed on", "taken at", "taken on", "in progress since", "since",
		"übernommen am", "übernommen um", "zugewiesen am", "in arbeit seit", "seit",
	},
	"claim_timeout_minutes": {
		"timeout", "timeout minutes", "timeout (minutes)", "claim timeout", "lease", "lease minutes",
		"zeitlimit", "zeitlimit (minuten)", "zeitlimit minuten", "frist in minuten",
	},
	"claim_token": {"token"},
	"assignee": {
		"assignee", "assignees", "assigned to", "assigned", "owner", "responsible", "person", "people", "who",
		"zuständig", "zuständige", "zuständige person", "zuständigkeit", "verantwortlich", "verantwortliche", "verantwortliche person",
		"bearbeiter", "bearbeiterin", "zugewiesen", "zugewiesen an", "wer",
		"responsable", "assigné", "assigné à", "attribué à", "asignado", "asignado a", "encargado",
	},
	"sub_items": {
		"sub-item", "sub-items", "subtask", "subtasks", "children", "child tasks",
		"unterelement", "unterelemente", "unteraufgabe", "unteraufgaben", "teilaufgaben",
		"sous-tâche", "sous-tâches", "sous-élément", "sous-éléments", "subelemento", "subelementos", "subtarea", "subtareas",
	},
	"priority": {"prio", "importance", "urgency", "priorität", "wichtigkeit", "dringlichkeit"},
	"depends_on": {
		"blocked by", "dependencies", "dependency", "depends", "waits for", "waiting for", "prerequisites",
		"abhängig von", "hängt ab von", "abhängigkeiten", "blockiert von", "blockiert durch", "wartet auf", "voraussetzungen",
	},
}

// statusSynonyms are other names of statuses.
var statusSynonyms = map[task.Status][]string{
	task.Open: {
		"to do", "todo", "not started", "new", "ready", "backlog",
		"offen", "zu erledigen", "zu tun", "nicht begonnen", "nicht gestartet", "neu", "bereit",
	},
	task.InProgress: {"doing", "in work", "started", "active", "working", "in arbeit", "in bearbeitung", "begonnen", "läuft"},
	task.Blocked:    {"on hold", "waiting", "stuck", "paused", "blockiert", "wartet", "wartend", "pausiert", "zurückgestellt"},
	task.Completed:  {"done", "complete", "finished", "closed", "erledigt", "fertig", "abgeschlossen"},
	task.Cancelled: {
		"canceled", "won't do", "wont do", "dropped", "rejected",
		"abgebrochen", "gestrichen", "verworfen", "storniert", "entfällt",
	},
}

// MapKeys returns the keys that Options.Map may have.
func MapKeys() []string {
	var c config.Config
	return append(slices.Sorted(maps.Keys(propertyNames(&c.Tasks.Properties))), slices.Sorted(maps.Keys(statusesByKey(&c.Tasks.Statuses)))...)
}

// propertyNames returns pointers to the names of properties, by key.
func propertyNames(p *config.Properties) map[string]*string {
	return map[string]*string{
		"status": &p.Status, "claimed_by": &p.ClaimedBy, "claimed_at": &p.ClaimedAt,
		"claim_timeout_minutes": &p.ClaimTimeoutMinutes, "claim_token": &p.ClaimToken,
		"priority": &p.Priority, "depends_on": &p.DependsOn, "note": &p.Note, assignee: &p.Assignee, "sub_items": &p.SubItems,
	}
}

// statusesByKey returns pointers to the names of statuses, by key.
func statusesByKey(s *config.Statuses) map[string]*string {
	return map[string]*string{
		"open": &s.Open, "in_progress": &s.InProgress, "blocked": &s.Blocked, "completed": &s.Completed, "cancelled": &s.Cancelled,
		"review": &s.Review, "failed": &s.Failed,
	}
}

// usualStatus returns dibs' own name for the status of that key.
func usualStatus(key string) string {
	plain := config.Default().Tasks.Statuses
	plain.Review, plain.Failed = string(task.Review), string(task.Failed) // off unless asked for
	return *statusesByKey(&plain)[key]
}

// chosen uses the names that the user gave. A name that the database lacks must be dibs' own; any
// other is reported as a mistake.
func (p *Plan) chosen(db notion.Database, given map[string]string) {
	plain := config.Default()
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name := given[key]
		if to, ok := propertyNames(&p.Config.Tasks.Properties)[key]; ok {
			*to = name
			if _, there := db.Columns[name]; db.ID != "" && !there && name != *propertyNames(&plain.Tasks.Properties)[key] && !(name == "" && optional(key)) {
				p.problem("database %q has no property %q, which --map gives as %s: its properties are %s", db.Title, name, key, propertyList(db))
			}
		}
	}
	status := db.Columns[p.Config.Tasks.Properties.Status]
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name := given[key]
		if to, ok := statusesByKey(&p.Config.Tasks.Statuses)[key]; ok {
			*to = name
			unused := name == "" && usualStatus(key) != *statusesByKey(&plain.Tasks.Statuses)[key]
			if db.ID != "" && name != usualStatus(key) && !unused && !slices.Contains(status.Options, name) {
				p.problem("property %q has no option %q, which --map gives as %s: its options are %s", status.Name, name, key, strings.Join(status.Options, ", "))
			}
		}
	}
}

// optional reports whether the property of that key may be missing.
func optional(key string) bool {
	return !slices.Contains([]string{"status", "claimed_by", "claimed_at"}, key)
}

// propertyList lists the properties of a database, with their types.
func propertyList(db notion.Database) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		list = append(list, fmt.Sprintf("%s (%s)", name, db.Columns[name].Type))
	}
	return strings.Join(list, ", ")
}

// guess uses existing properties for missing ones, if type and name suggest it. given are the names
// that the user gave.
func (p *Plan) guess(db notion.Database, given map[string]string) {
	names := propertyNames(&p.Config.Tasks.Properties)
	for _, f := range workspace.Schema(p.Config).Examine(db) {
		if _, said := given[f.Key]; said || f.Found != "" {
			continue
		}
		if col, ok := p.meant(db, f); ok {
			*names[f.Key] = col.Name
			p.Guesses = append(p.Guesses, Guess{f.Key, col.Name, col.Type})
		}
	}
	if db.ID == "" || string(db.ID) == p.saved.Databases.Tasks {
		return // one that is in use already is left as it is
	}
	for _, f := range teams {
		to := names[f.Key]
		if _, said := given[f.Key]; said || *to != "" {
			continue
		}
		if col, ok := p.meant(db, f); ok {
			*to = col.Name
			p.Guesses = append(p.Guesses, Guess{f.Key, col.Name, col.Type})
		}
	}
}

// assignee is the key of the column of people whose tasks are not for agents.
const assignee = "assignee"

// teams are the properties that a team has for itself, and dibs reads. They are used where they are
// there, and never made: nothing would be in them.
var teams = []notion.Fit{
	{Key: assignee, Types: []string{"people"}},
	{Key: "sub_items", Types: []string{"relation"}},
}

// isTeams reports whether the property of that key is one of teams.
func isTeams(key string) bool {
	return slices.ContainsFunc(teams, func(f notion.Fit) bool { return f.Key == key })
}

// meant returns the property that could be meant by a missing one.
func (p *Plan) meant(db notion.Database, f notion.Fit) (notion.Column, bool) {
	var fits []string
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		col := db.Columns[name]
		related, err := task.ParseID(col.Database)
		otherDatabase := (f.Key == "depends_on" || f.Key == "sub_items") && (err != nil || related != db.ID)
		people := f.Key == "claimed_by" && col.Type == "people" // a team's own: dibs does not write there unasked
		if slices.Contains(f.Types, col.Type) && !p.taken(name) && !otherDatabase && !people {
			fits = append(fits, name)
		}
	}
	for _, synonym := range synonyms[f.Key] {
		if name := notion.Similar(synonym, fits); name != "" {
			return db.Columns[name], true
		}
	}
	// A single property of type status, or of people, needs no matching name.
	only := fits
	if f.Key == "status" {
		only = slices.DeleteFunc(fits, func(name string) bool { return db.Columns[name].Type != "status" })
	}
	if (f.Key == "status" || f.Key == assignee) && len(only) == 1 {
		return db.Columns[only[0]], true
	}
	return notion.Column{}, false
}

// taken reports whether a property is already in use.
func (p *Plan) taken(name string) bool {
	for _, used := range propertyNames(&p.Config.Tasks.Properties) {
		if *used == name {
			return true
		}
	}
	return false
}

// guessStatuses uses existing options for missing statuses, if their names suggest it.
func (p *Plan) guessStatuses(status notion.Column, given map[string]string) {
	names := statusesByKey(&p.Config.Tasks.Statuses)
	keys := map[task.Status]string{
		task.Open: "open", task.InProgress: "in_progress", task.Blocked: "blocked", task.Completed: "completed", task.Cancelled: "cancelled",
	}
	for _, s := range task.Statuses {
		key, ok := keys[s]
		if _, said := given[key]; !ok || said || slices.Contains(status.Options, *names[key]) {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(status.Options), func(name string) bool {
			for _, used := range names {
				if *used == name {
					return true
				}
			}
			return false
		})
		for _, synonym := range statusSynonyms[s] {
			if name := notion.Similar(synonym, free); name != "" {
				*names[key] = name
				p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
				break
			}
		}
	}
}
