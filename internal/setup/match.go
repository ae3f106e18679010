package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/workspace"
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

// people are names of properties that say who has a task, the likeliest first. Those for
// claimed_by and for assignee differ in type only.
var people = []string{
	"assignee", "assignees", "assigned to", "assigned", "owner", "agent", "worker", "holder", "responsible", "person", "people", "who",
	"zuständig", "zuständige", "zuständige person", "zuständigkeit", "verantwortlich", "verantwortliche", "verantwortliche person",
	"bearbeiter", "bearbeiterin", "bearbeitet von", "zugewiesen", "zugewiesen an", "übernommen von", "inhaber", "wer",
	"responsable", "assigné", "assignée", "assigné à", "attribué à", "pris par", "personne", "qui",
	"asignado", "asignada", "asignado a", "encargado", "encargada", "persona", "quién",
}

// synonyms are other names of properties, the likeliest first. Case, spaces, "_", "-" and emoji do not
// matter. Names of data that a claim would overwrite, such
// as a planned start, are not among them.
var synonyms = map[string][]string{
	"status": {
		"state", "task status", "stage", "phase", "workflow", "progress",
		"zustand", "stand", "aufgabenstatus", "bearbeitungsstand", "bearbeitungsstatus",
		"statut", "état", "avancement", "étape",
		"estado", "etapa", "progreso",
		"stan", "статус", "состояние", "ステータス", "状態", "상태", "状态", "狀態",
	},
	"claimed_by": people,
	"claimed_at": {
		"assigned at", "assigned on", "claimed on", "taken at", "taken on", "in progress since", "since",
		"übernommen am", "übernommen um", "zugewiesen am", "in arbeit seit", "seit",
		"pris le", "assigné le", "attribué le", "en cours depuis", "depuis",
		"tomado el", "asignado el", "en curso desde", "desde",
	},
	"claim_timeout_minutes": {
		"timeout", "timeout minutes", "timeout (minutes)", "claim timeout", "lease", "lease minutes",
		"zeitlimit", "zeitlimit (minuten)", "zeitlimit minuten", "frist in minuten",
		"délai en minutes", "délai (minutes)", "plazo en minutos", "plazo (minutos)",
	},
	"claim_token": {"token"},
	assignee:      people,
	"priority": {
		"importance", "urgency", "wichtigkeit", "dringlichkeit", "urgence", "importancia", "urgencia",
		"importância", "urgência", "urgentie", "ważność", "важность", "срочность", "重要度", "緊急度", "중요도", "重要性",
	},
	done: {
		"done", "is done", "complete", "completed", "finished", "checked", "erledigt", "fertig", "abgeschlossen", "getan",
		"fait", "faite", "terminé", "terminée", "hecho", "hecha", "terminado", "terminada", "completado", "listo",
		"feito", "concluído", "concluída", "klaar", "gereed", "gotowe", "zrobione", "готово", "выполнено", "完了", "済", "완료", "完成", "已完成",
	},
	subItems: {
		"sub-item", "sub-items", "subtask", "subtasks", "children", "child tasks",
		"unterelement", "unterelemente", "unteraufgabe", "unteraufgaben", "teilaufgaben",
		"sous-tâche", "sous-tâches", "sous-élément", "sous-éléments", "subelemento", "subelementos", "subtarea", "subtareas",
	},
	doneWhen: {
		"done when", "definition of done", "acceptance criteria", "acceptance", "done criteria",
		"fertig wenn", "erledigt wenn", "akzeptanzkriterien", "abnahmekriterien",
		"terminé quand", "critères d'acceptation", "hecho cuando", "criterios de aceptación",
	},
	"depends_on": {
		"blocked by", "dependencies", "dependency", "depends", "waits for", "waiting for", "prerequisites",
		"abhängig von", "hängt ab von", "abhängigkeiten", "blockiert von", "blockiert durch", "wartet auf", "voraussetzungen",
		"dépend de", "dépendances", "bloqué par", "bloquée par", "en attente de", "prérequis",
		"depende de", "dependencias", "bloqueado por", "bloqueada por", "espera a", "requisitos previos",
		"dependências", "afhankelijk van", "geblokkeerd door", "zależy od", "zależności", "зависит от", "зависимости", "依存関係", "의존성", "依赖", "依赖于",
	},
}

// MapKeys returns the keys that Options.Map may have.
func MapKeys() []string {
	var c config.Config
	return slices.Concat(slices.Sorted(maps.Keys(propertyNames(&c.Tasks.Properties))), slices.Sorted(maps.Keys(statusesByKey(&c.Tasks.Statuses))), priorityKeys)
}

// propertyNames returns pointers to the names of properties, by key.
func propertyNames(p *config.Properties) map[string]*string {
	return map[string]*string{
		"status": &p.Status, "claimed_by": &p.ClaimedBy, "claimed_at": &p.ClaimedAt,
		"claim_timeout_minutes": &p.ClaimTimeoutMinutes, "claim_token": &p.ClaimToken,
		"priority": &p.Priority, "depends_on": &p.DependsOn, "note": &p.Note, assignee: &p.Assignee, done: &p.Done, subItems: &p.SubItems, doneWhen: &p.DoneWhen,
	}
}

// chosen uses the names that the user gave. The name of a property that the database lacks must be
// dibs' own; any other is reported as a mistake.
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
	p.guessTeams(db, given)
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

// guessTeams uses what says on a team's own board that a task is not for agents yet: people have it,
// it is done, or its parts come first; and what says when it is done. A database that is in use already is left as it is.
func (p *Plan) guessTeams(db notion.Database, given map[string]string) {
	if db.ID == "" || string(db.ID) == p.saved.Databases.Tasks {
		return
	}
	for _, f := range ofTeams {
		to := propertyNames(&p.Config.Tasks.Properties)[f.Key]
		if _, said := given[f.Key]; said || *to != "" {
			continue
		}
		if col, ok := p.meant(db, f); ok {
			*to = col.Name
			p.Guesses = append(p.Guesses, Guess{f.Key, col.Name, col.Type})
		}
	}
}

// meant returns the property that could be meant by a missing one.
func (p *Plan) meant(db notion.Database, f notion.Fit) (notion.Column, bool) {
	var fits []string
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		col := db.Columns[name]
		otherDatabase := (f.Key == "depends_on" || f.Key == "sub_items") && col.Source != db.Source
		people := f.Key == "claimed_by" && col.Type == "people" // a team's own: dibs does not write there unasked
		if slices.Contains(f.Types, col.Type) && !p.taken(name) && !otherDatabase && !people {
			fits = append(fits, name)
		}
	}
	if f.Key == "priority" {
		for _, name := range fits {
			if len(db.Columns[name].Options) > 0 && saysPriority(name) {
				return db.Columns[name], true
			}
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
