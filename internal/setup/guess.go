package setup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

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
		if _, isGiven := given[f.Key]; isGiven || f.Found != "" {
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
	{Key: doneWhen, Types: []string{"rich_text"}}, {Key: touches, Types: []string{"rich_text", "multi_select"}},
}

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
		_, isGiven := given[f.Key]
		if !isGiven && f.Similar != "" && slices.Contains(f.Types, db.Columns[f.Similar].Type) && !p.nobodys(f, db.Columns[f.Similar]) {
			*byKey[f.Key] = f.Similar
			p.Adopted = append(p.Adopted, Guess{f.Key, f.Similar, db.Columns[f.Similar].Type})
			p.note("database %q: %q is used as %s", db.Title, f.Similar, f.Key)
		}
	}
	p.guess(db, given)
	status := db.Columns[p.Config.Tasks.Properties.Status]
	for key, name := range config.ByKey[string](&p.Config.Tasks.Statuses) {
		_, isGiven := given[key]
		if other := notion.Similar(*name, status.Options); !isGiven && *name != "" && other != "" && other != *name && !slices.Contains(status.Options, *name) {
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

// chosenPriorities uses the names that the user gave, with commas between several. What is given
// to one priority is not another's.
func (p *Plan) chosenPriorities(col notion.Column, given map[string]string) {
	names := config.ByKey[[]string](&p.Config.Tasks.Priorities)
	keyOf := make(map[string]string) // of the given names
	for _, key := range priorityKeys {
		value, isGiven := given[key]
		if !isGiven {
			continue
		}
		*names[key] = []string{}
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			switch other, twice := keyOf[strings.ToLower(name)]; {
			case twice:
				p.problem("--map gives %q as %s and as %s: give it once", name, other, key)
			case len(col.Options) > 0 && !has(col.Options, name):
				p.problem("property %q has no option %q, which --map gives as %s: its options are %s", col.Name, name, key, strings.Join(col.Options, ", "))
			}
			*names[key], keyOf[strings.ToLower(name)] = append(*names[key], name), key
		}
	}
	for key, list := range names {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			owner, isGiven := keyOf[strings.ToLower(name)]
			return isGiven && owner != key
		})
	}
}

// guessPriorities finds out what the options of the column of priorities mean. A board that is in
// use already is left as it is.
func (p *Plan) guessPriorities(db notion.Database, given map[string]string) {
	col := db.Columns[p.Config.Tasks.Properties.Priority]
	p.chosenPriorities(col, given)
	if len(col.Options) == 0 || string(db.ID) == p.saved.Databases.Tasks {
		return
	}
	names, means := config.ByKey[[]string](&p.Config.Tasks.Priorities), ranks(col.Options)
	found := make(map[string][]string) // the options of each priority
	guessed := make(map[string]bool)
	var left []string
	for _, name := range col.Options {
		rank, known := means[name]
		key := rank.String()
		_, isGiven := given[key]
		switch i := slices.IndexFunc(priorityKeys, func(key string) bool { return has(*names[key], name) }); {
		case i >= 0: // as the configuration says
			key = priorityKeys[i]
			if _, isGiven := given[key]; !isGiven && !slices.Contains(*names[key], name) {
				p.Adopted = append(p.Adopted, Guess{Key: key, Name: name})
			}
		case !known || isGiven:
			left = append(left, name)
			continue
		case rank != task.None:
			guessed[key] = true
			p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
		}
		found[key] = append(found[key], name)
	}
	for key := range guessed {
		*names[key] = found[key]
	}
	if len(left) > 0 {
		p.note("database %q: nothing says what priority %s is, so tasks with it are offered last: give --map KEY=NAME, with one of these as KEY: %s",
			db.Title, strings.Join(left, ", "), strings.Join(priorityKeys, ", "))
	}
}

// has reports whether the name is among the names, in any case.
func has(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// ranks returns what the options of a column of priorities mean by their words. Of those that say
// more than none it returns nothing, rather than something wrong, if one option says what another does
// and more, such as Urgent beside Not urgent, or if most say nothing.
func ranks(options []string) map[string]task.Priority {
	means, different := make(map[string]task.Priority), make(map[task.Priority]bool)
	unknown, doubtful := false, false
	for _, name := range options {
		words := rankingWords(name)
		if p, ok := rankOf(strings.Join(words, " ")); ok {
			means[name], different[p] = p, true
			continue
		}
		unknown = true
		doubtful = doubtful || slices.ContainsFunc(words, func(word string) bool { _, ok := rankOf(word); return ok })
	}
	delete(different, task.None)
	if doubtful || unknown && len(different) < 2 {
		maps.DeleteFunc(means, func(_ string, p task.Priority) bool { return p != task.None })
	}
	return means
}

// level is what may stand before the words of an option: 1 – High, P2 (medium).
var level = regexp.MustCompile(`^p?[0-9]+$`)

// rankingWords returns the words of an option that may say its rank.
func rankingWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, saysPriority)
	if len(words) > 1 {
		words = slices.DeleteFunc(words, level.MatchString)
	}
	return words
}

// rankOf returns the priority that the words mean.
func rankOf(words string) (task.Priority, bool) {
	for p, list := range rankWords {
		if firstOf(list, []string{words}) != "" {
			return p, true
		}
	}
	return task.None, false
}

// groupOf is the group of each status in a property of that type, in every language.
var groupOf = map[task.Status]string{
	task.Open: "To-do", task.InProgress: "In progress", task.Blocked: "In progress",
	task.Review: "In progress", task.Failed: "In progress",
	task.Completed: "Complete", task.Cancelled: "Complete",
}

// keyOf returns the key of a status below tasks.statuses.
func keyOf(s task.Status) string { return strings.ToLower(string(s)) }

// chosenStatuses uses the names that the user gave. One that the board lacks is added.
func (p *Plan) chosenStatuses(given map[string]string) {
	for key, to := range config.ByKey[string](&p.Config.Tasks.Statuses) {
		name, said := given[key]
		switch {
		case !said:
		case name == "" && key == keyOf(task.Cancelled): // the board does without it
			p.unnamed = append(p.unnamed, *to)
		case name == "" && slices.Contains(task.Statuses, task.Status(strings.ToUpper(key))):
			p.problem("--map %s=: every board has this status: name an option", key)
		case strings.Contains(name, ","):
			p.problem("--map %s=%s: Notion takes no comma in the name of an option", key, name)
		default:
			*to = name
		}
	}
}

// guessStatuses finds out which options of a team's own status are meant: by their groups, and by
// their words where these do not say. A board in plain English gets dibs's own words for what it
// lacks. On any other, only a person knows the word, and CANCELLED may be missing.
func (p *Plan) guessStatuses(status notion.Column, given map[string]string) {
	if len(status.Options) == 0 {
		return
	}
	names := config.ByKey[string](&p.Config.Tasks.Statuses)
	free := slices.Clone(status.Options)
	for _, used := range names {
		free = slices.DeleteFunc(free, func(name string) bool { return name == *used })
	}
	var lacks, foreign []task.Status
	for _, s := range task.Statuses {
		key := keyOf(s)
		if _, isGiven := given[key]; !isGiven && !slices.Contains(status.Options, *names[key]) {
			name, among := pick(s, status, free)
			if name == "" {
				lacks = append(lacks, s)
				continue
			}
			*names[key] = name
			free = slices.DeleteFunc(free, func(other string) bool { return other == name })
			p.Guesses = append(p.Guesses, Guess{Key: key, Name: name})
			if len(among) > 1 {
				p.Questions = append(p.Questions, Question{key, status.Name, among, name})
			}
		}
		if !inEnglish(s, *names[key]) {
			foreign = append(foreign, s)
		}
	}
	if len(foreign) == 0 && len(lacks) < len(task.Statuses) {
		return
	}
	for _, s := range lacks {
		p.unnamed = append(p.unnamed, *names[keyOf(s)])
		if s != task.Cancelled {
			p.Questions = append(p.Questions, Question{Key: keyOf(s), Property: status.Name, Among: free})
		}
	}
}

// pick returns the option that means s, of those that are free; empty if that is not certain. If only
// its group says so, or a word of several in the group, among are all that the group has.
func pick(s task.Status, status notion.Column, free []string) (name string, among []string) {
	in := slices.DeleteFunc(slices.Clone(free), func(name string) bool { return status.Groups[name] != groupOf[s] })
	if s == task.Blocked || s == task.Cancelled { // the group is another's, too
		return firstWord(s, append(in, free...)), nil
	}
	among = slices.DeleteFunc(slices.Clone(in), func(name string) bool {
		return slices.ContainsFunc(task.Statuses, func(other task.Status) bool { return other != s && firstWord(other, []string{name}) != "" })
	})
	if name = firstWord(s, among); name == "" && len(among) > 0 {
		name = among[0]
	}
	if name == "" {
		return firstWord(s, free), nil
	}
	return name, among
}

// firstWord returns the option that the likeliest word for s names; empty if none does.
func firstWord(s task.Status, options []string) string {
	words := statusWords[s]
	return firstOf(string(s)+", "+words.english+", "+words.others, options)
}

// inEnglish reports whether a name for s is plain English, beside which dibs's own words look like the
// team's.
func inEnglish(s task.Status, name string) bool {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f })
	return plain && firstOf(string(s)+", "+statusWords[s].english, []string{name}) != ""
}

// Words are listed with commas, the likeliest first. Case, spaces, "_", "-" and emoji do not matter.

// people are names of properties that say who has a task. Those for claimed_by and for assignee
// differ in type only.
const people = "assignee, assignees, assigned to, assigned, owner, agent, worker, holder, responsible, person, who, " +
	"zuständig, zuständige, zuständige person, verantwortlich, verantwortliche, bearbeiter, bearbeiterin, zugewiesen an, " +
	"responsable, assigné à, attribué à, pris par, asignado a, encargado, encargada"

// propertyWords are other names of properties. Where the type says enough, words decide between
// several. Data that a claim would overwrite, such as a date, is nobody's guess.
var propertyWords = map[string]string{
	"status": "state, task status, stage, phase, workflow, progress, zustand, stand, statut, état, avancement, étape, " +
		"estado, etapa, stan, статус, ステータス, 状態, 상태, 状态",
	"claimed_by": people,
	assignee:     people,
	"priority":   "importance, urgency, wichtigkeit, dringlichkeit, urgence, importancia, urgencia",
	done: "done, is done, complete, completed, finished, checked, erledigt, fertig, abgeschlossen, fait, faite, terminé, terminée, " +
		"hecho, hecha, terminado, terminada, feito, klaar, gotowe, готово, 完了, 완료, 完成",
	subItems: "sub-item, sub-items, subtask, subtasks, children, unterelemente, unteraufgaben, teilaufgaben, " +
		"sous-tâches, sous-éléments, subelementos, subtareas",
	doneWhen: "done when, definition of done, acceptance criteria, acceptance, fertig wenn, akzeptanzkriterien, " +
		"critères d'acceptation, criterios de aceptación",
	touches: "touches, touched files, files touched, betroffene dateien, fichiers touchés, archivos afectados",
	"depends_on": "blocked by, dependencies, dependency, depends, waits for, waiting for, prerequisites, " +
		"abhängig von, hängt ab von, abhängigkeiten, blockiert von, blockiert durch, wartet auf, " +
		"dépend de, dépendances, bloqué par, depende de, dependencias, bloqueado por, " +
		"dependências, afhankelijk van, zależy od, зависит от, 依存関係, 의존성, 依赖",
}

// statusWords are other names of statuses. They say what groups do not: which of a group's options is
// meant, and anything about a select.
var statusWords = map[task.Status]struct{ english, others string }{
	task.Open: {
		"to do, todo, not started, new, ready, backlog",
		"offen, zu erledigen, zu tun, nicht begonnen, neu, bereit, à faire, ouvert, pas commencé, nouveau, " +
			"por hacer, pendiente, abierto, sin empezar, nuevo, " +
			"não iniciada, niet gestart, nie rozpoczęto, не начато, 未着手, 시작 전, 未开始",
	},
	task.InProgress: {
		"doing, in work, started, active, working",
		"in arbeit, in bearbeitung, begonnen, läuft, en cours, commencé, en curso, en progreso, en proceso",
	},
	task.Blocked: {
		"on hold, waiting, stuck, paused",
		"blockiert, wartet, pausiert, zurückgestellt, bloqué, bloquée, en attente, en pause, suspendu, " +
			"bloqueado, bloqueada, en espera, en pausa, detenido, em espera, geblokkeerd, zablokowane, заблокировано, 保留, 보류, 阻塞",
	},
	task.Completed: {
		"done, complete, finished, closed",
		"erledigt, fertig, abgeschlossen, terminé, terminée, fait, fini, hecho, hecha, terminado, terminada, completado, listo",
	},
	task.Cancelled: {
		"canceled, won't do, wont do, dropped, rejected",
		"abgebrochen, gestrichen, verworfen, storniert, entfällt, annulé, annulée, abandonné, " +
			"cancelado, cancelada, descartado, geannuleerd, anulowane, отменено, 中止, 취소, 取消",
	},
}

// rankWords are other names of priorities. A word that is no priority elsewhere, or that means
// several, such as Major, is not among them.
var rankWords = map[task.Priority]string{
	task.Critical: "critical, urgent, highest, very high, emergency, immediate, asap, blocker, p0, " +
		"kritisch, dringend, sofort, höchste, sehr hoch, critique, urgente, très haute, crítica, crítico, muy alta",
	task.High: "high, important, p1, hoch, hohe, wichtig, haute, élevée, importante, alta, alto, " +
		"hoog, wysoki, высокий, 高, 높음",
	task.Medium: "medium, normal, med, moderate, p2, mittel, mittlere, moyenne, normale, media, medio, " +
		"média, gemiddeld, średni, средний, 中, 중간",
	task.Low: "low, lowest, very low, p3, p4, p5, niedrig, niedrige, niedrigste, gering, geringe, basse, faible, baja, bajo, " +
		"baixa, laag, niski, низкий, 低, 낮음",
	task.None: "none, no, n a, keine, kein, ohne, aucune, sans, ninguna, sin, nenhuma, geen, brak, нет, なし, 없음, 无",
}

// saysPriority reports whether a name has the word for priority in it, in nearly any language. In an
// option it says nothing of the rank: High priority.
func saysPriority(name string) bool {
	for _, stem := range []string{"prio", "приор", "優先", "우선", "优先"} {
		if strings.Contains(strings.ToLower(name), stem) {
			return true
		}
	}
	return false
}

// firstOf returns the name that the likeliest of the words means; empty if none does.
func firstOf(words string, names []string) string {
	for word := range strings.SplitSeq(words, ", ") {
		if name := notion.Similar(word, names); name != "" {
			return name
		}
	}
	return ""
}

const assignee, done, subItems, doneWhen, touches = "assignee", "done", "sub_items", "done_when", "touches"
