package notion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// TaskSchema names the parts of a tasks database. An empty name means the protocol's own.
type TaskSchema struct {
	Properties Properties
	// Statuses is the database's name of each status. Optional statuses without a name are not
	// used.
	Statuses map[task.Status]string
	// Priorities is the database's names of each priority, in any case.
	Priorities map[task.Priority][]string
	// NotionUsers maps agents to the ids of their Notion users. It matters if claimed_by is of
	// type people, and for the assignee.
	NotionUsers map[string]string
	// Without lists, by key, the optional properties that the database lacks according to the
	// configuration.
	Without []string
	// Fields names further properties, of any type, whose values are read.
	Fields []string
	// Only has the conditions, on properties of any type, that tasks for agents meet. The
	// properties have to be there.
	Only []task.Condition
	// Known is a result of Tasks.Known for the same database in an earlier run. With it, a
	// property that was renamed since is found by its id.
	Known string
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
	Note                string
	// Assignee is a column of people, whose tasks are not for agents. Empty: no such column. Any
	// other name has to be there.
	Assignee string
	// Done is a checkbox that is ticked on a task that is done. Empty: no such column. Any other
	// name has to be there.
	Done string
	// SubItems is the relation to a task's parts. Empty: no such column. Any other name has to be
	// there.
	SubItems string
	// DoneWhen is a text that says when a task is done. Empty: no such column. Any other name may
	// be missing.
	DoneWhen string
	// Touches lists the files that the work on a task touches. Empty: no such column. Any other name
	// may be missing.
	Touches string
}

// The keys of the claim token, of the note and of done_when.
const (
	tokenKey    = "claim_token"
	noteKey     = "note"
	doneWhenKey = "done_when"
)

// forPeople reports whether nothing in dibs depends on the property of that key: what it says is for
// people and agents.
func forPeople(key string) bool { return key == noteKey || key == doneWhenKey }

// taskColumns are the properties in use. A missing one has no id.
type taskColumns struct {
	title, status, claimedBy, claimedAt, timeout, token, priority, dependsOn, note, assignee, done, subItems, doneWhen, touches Column
	// key is the unique id; only the tasks' names depend on it.
	key Column
	// fields are further properties whose values are read; nothing depends on them. The list is
	// replaced, never modified.
	fields []field
}

// wantedColumn is a property that tasks need or may have.
type wantedColumn struct {
	key   string // its name in the configuration
	name  string // and in the database
	types []string
	into  *Column
	// without is the consequence of doing without the property; empty if it is required.
	without string
}

// wants lists the properties, and where in c each one goes.
func (s TaskSchema) wants(c *taskColumns) []wantedColumn {
	p := s.Properties
	all := []wantedColumn{
		{key: "status", name: p.Status, types: []string{typeStatus, typeSelect}, into: &c.status},
		{key: "claimed_by", name: p.ClaimedBy, types: []string{typeRichText, typeSelect, typePeople}, into: &c.claimedBy},
		{key: "claimed_at", name: p.ClaimedAt, types: []string{typeDate}, into: &c.claimedAt},
		{key: tokenKey, name: p.ClaimToken, types: []string{typeRichText}, into: &c.token},
		{
			key: "claim_timeout_minutes", name: p.ClaimTimeoutMinutes, types: []string{typeNumber}, into: &c.timeout,
			without: "all claims last as long as claim.timeout says",
		},
		{
			key: "priority", name: p.Priority, types: []string{typeSelect, typeStatus, typeRichText}, into: &c.priority,
			without: "no task is offered before others because it is urgent",
		},
		{
			key: "depends_on", name: p.DependsOn, types: []string{typeRelation}, into: &c.dependsOn,
			without: "no task is known to wait for another",
		},
		{
			key: noteKey, name: p.Note, types: []string{typeRichText}, into: &c.note,
			without: "the board does not say why a task is blocked, or what was done",
		},
	}
	if p.Assignee != "" { // without it, agents would be offered what people have
		all = append(all, wantedColumn{key: "assignee", name: p.Assignee, types: []string{typePeople}, into: &c.assignee})
	}
	if p.Done != "" { // without it, agents would be offered what is done
		all = append(all, wantedColumn{key: "done", name: p.Done, types: []string{typeCheckbox}, into: &c.done})
	}
	if p.SubItems != "" { // without it, agents would be offered the whole before its parts
		all = append(all, wantedColumn{key: "sub_items", name: p.SubItems, types: []string{typeRelation}, into: &c.subItems})
	}
	if p.DoneWhen != "" {
		all = append(all, wantedColumn{
			key: doneWhenKey, name: p.DoneWhen, types: []string{typeRichText}, into: &c.doneWhen,
			without: "agents are not told when a task is done",
		})
	}
	if p.Touches != "" {
		all = append(all, wantedColumn{
			key: "touches", name: p.Touches, types: []string{typeRichText, typeMultiSelect}, into: &c.touches,
			without: "tasks that touch the same files are worked on at the same time",
		})
	}
	for i := range all {
		all[i].name = cmp.Or(all[i].name, all[i].key)
	}
	return slices.DeleteFunc(all, func(w wantedColumn) bool { return w.without != "" && slices.Contains(s.Without, w.key) })
}

// Grade says how well a property fits its use.
type Grade int

// The grades, the best first.
const (
	Fits     Grade = iota
	Spare          // missing or useless, and nothing depends on it
	Poor           // something cannot be done
	Unusable       // nothing can be claimed
)

// Fit says how one property of a tasks database fits its use.
type Fit struct {
	Key   string   // below tasks.properties in the configuration
	Name  string   // in the database
	Types []string // the accepted types, the best first
	Found string   // its type; empty if the property is missing
	Grade Grade
	// Problem says what is amiss, and Remedy what to do about it. Both are empty if the
	// property fits.
	Problem, Remedy string
	// Missing lists the names of statuses for which the property has no option.
	Missing []string
	// Similar is the name of another property that may be meant.
	Similar string

	column Column
}

// line returns the problem and its remedy in one line.
func (f Fit) line() string { return f.Problem + ": " + f.Remedy }

// Examine says how each property that tasks need, or may have, fits.
func (s TaskSchema) Examine(db Database) []Fit {
	var fits []Fit
	for _, w := range s.wants(new(taskColumns)) {
		col, ok := db.Columns[w.name]
		f := Fit{Key: w.key, Name: w.name, Types: w.types, column: col}
		if ok {
			f.Found = cmp.Or(col.Type, "unknown")
		}
		switch {
		case !ok:
			f.Problem = fmt.Sprintf("property %q is missing", w.name)
			if list := s.candidates(db, w); len(list) > 0 && w.without == "" {
				f.Problem += "; candidates: " + strings.Join(list, ", ")
			}
			how := "add it with type " + oneOf(w.types)
			if w.key == tokenKey { // no board has it before dibs
				how = "run dibs init, which adds it"
			}
			f.Remedy = fmt.Sprintf("%s, or name the right one in tasks.properties.%s", how, w.key)
			if other, ok := db.Similar(w.name); ok {
				f.Similar = other.Name
				f.Remedy += fmt.Sprintf(" (there is %q)", f.Similar)
			}
		case !slices.Contains(w.types, col.Type):
			f.Problem = fmt.Sprintf("property %q is of type %s, want %s", w.name, f.Found, oneOf(w.types))
			f.Remedy = fmt.Sprintf("change its type, or name another one in tasks.properties.%s", w.key)
		default:
			s.examineUse(db, &f)
			fits = append(fits, f)
			continue
		}
		f.Grade = Unusable
		if w.without != "" {
			f.Grade = Poor
			f.Remedy += "; until then " + w.without
		}
		if forPeople(w.key) {
			f.Grade = Spare
		}
		fits = append(fits, f)
	}
	return fits
}

// mostCandidates limits the properties that a message proposes for a missing one.
const mostCandidates = 5

// candidates returns the unused properties that could replace a missing one, those of the best
// type first.
func (s TaskSchema) candidates(db Database, missing wantedColumn) []string {
	var used []string
	for _, w := range s.wants(new(taskColumns)) {
		used = append(used, w.name)
	}
	var list []string
	for _, kind := range missing.types {
		for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
			if db.Columns[name].Type == kind && !slices.Contains(used, name) && len(list) < mostCandidates {
				list = append(list, fmt.Sprintf("%s (%s)", name, kind))
			}
		}
	}
	return list
}

// examineUse looks for missing options and unwise choices in a property of the right type.
func (s TaskSchema) examineUse(db Database, f *Fit) {
	col := f.column
	switch {
	case f.Key == "status":
		s.examineStatuses(f)
	case f.Key == "claimed_by" && col.Type == typePeople:
		f.Grade = Poor
		f.Problem = fmt.Sprintf("property %q is of type people", f.Name)
		f.Remedy = "only agents that a Notion user stands for, in agents[].notion_user, can claim, and Notion may start a run of an agent that is assigned; rich_text has neither problem"
	case f.Key == "depends_on", f.Key == "sub_items":
		if col.Source != "" && col.Source != db.Source {
			f.Grade = Poor
			f.Problem = f.Name + " relates to another database or data source"
			f.Remedy = "a task that relates to something there is never ready"
		}
	}
}

// examineStatuses compares the statuses with the options that the property has. A
// select may lack some: Notion adds an option when a task is first given it.
func (s TaskSchema) examineStatuses(f *Fit) {
	byName := make(map[string]task.Status)
	var names []string
	for _, status := range s.statuses() {
		name := s.statusName(status)
		if other, ok := byName[name]; ok {
			f.Grade = Unusable
			f.Problem = fmt.Sprintf("%s and %s are both named %q", other, status, name)
			f.Remedy = "change tasks.statuses"
			return
		}
		byName[name] = status
		names = append(names, name)
	}
	if f.Missing = lacking(f.column.Options, names); len(f.Missing) == 0 {
		return
	}
	if problems, remedies := s.changedOptions(f.column, f.Missing); len(problems) > 0 {
		f.Grade, f.Problem, f.Remedy = Unusable, strings.Join(problems, ", "), strings.Join(remedies, "; ")
		return
	}
	if slices.Equal(f.Missing, []string{s.statusName(task.Cancelled)}) {
		return // nothing but a person's wish depends on it
	}
	f.Problem = fmt.Sprintf("property %q has no option %s", f.Name, quotedList(f.Missing))
	if f.column.Type == typeStatus {
		f.Grade, f.Remedy = Unusable, "add what is missing, or say in tasks.statuses what the options are called"
	} else {
		f.Grade, f.Remedy = Poor, "Notion adds an option when a task is first given it; if it goes by another name, set tasks.statuses"
	}
}

// find returns the columns of tasks in a database. It looks for a known column by its id, and
// if that fails by its name, like the others. The warnings are about columns that tasks can
// do without. The error names everything that must be changed.
func (s TaskSchema) find(db Database, known taskColumns) (taskColumns, []string, error) {
	db.Columns = maps.Clone(db.Columns)
	for _, w := range s.wants(&known) {
		for _, col := range db.Columns {
			if col.ID == w.into.ID && col.ID != "" {
				if w.key == "status" {
					col = s.remember(col, *w.into)
				}
				db.Columns[w.name] = col
			}
		}
	}
	var found taskColumns
	var problems, warnings []string
	for _, col := range db.Columns {
		switch col.Type {
		case typeTitle:
			found.title = col
		case typeUniqueID: // a database has at most one
			found.key = col
		}
	}
	into := s.byKey(&found)
	for _, f := range s.Examine(db) {
		switch f.Grade {
		case Unusable:
			problems = append(problems, f.line())
		case Poor:
			warnings = append(warnings, f.line())
		}
		if slices.Contains(f.Types, f.Found) {
			*into[f.Key] = f.column
		}
	}
	found.fields = s.findFields(db, known.fields)
	for _, f := range found.fields {
		switch fit := f.fit(db); fit.Grade {
		case Unusable:
			problems = append(problems, fit.line())
		case Poor:
			warnings = append(warnings, fit.line())
		}
	}
	if len(problems) > 0 {
		err := fmt.Errorf("database %q cannot be used: %s", db.Title, strings.Join(problems, "; "))
		if found.token.ID == "" {
			err = tokenless{err}
		}
		return found, nil, claim.Errorf(claim.Refused, claim.LandedNo, "%w", err)
	}
	return found, warnings, nil
}

// tokenless is the error of a database without the property for claim tokens.
type tokenless struct{ error }

// Setting returns the key of the setting that has to be given, unless the property is added.
func (tokenless) Setting() string { return "tasks.properties." + tokenKey }

// byKey returns the columns by their keys in the configuration.
func (s TaskSchema) byKey(c *taskColumns) map[string]*Column {
	into := make(map[string]*Column)
	for _, w := range s.wants(c) {
		into[w.key] = w.into
	}
	return into
}

// lacking returns the wanted names that are not there.
func lacking(there, wanted []string) []string {
	var missing []string
	for _, name := range wanted {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// quotedList lists several names in a sentence.
func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// statuses returns the statuses that the database should have.
func (s TaskSchema) statuses() []task.Status {
	return slices.DeleteFunc(task.AllStatuses(), func(status task.Status) bool {
		return slices.Contains(task.Optional, status) && s.Statuses[status] == ""
	})
}

// statusName returns the database's name of a status.
func (s TaskSchema) statusName(status task.Status) string {
	return cmp.Or(s.Statuses[status], string(status))
}

// oneOf lists alternatives in a sentence.
func oneOf(types []string) string {
	if len(types) == 1 {
		return types[0]
	}
	last := len(types) - 1
	return strings.Join(types[:last], ", ") + " or " + types[last]
}

// field is a further property whose values are read. If the database lacks it, it has no id, but
// Gone may have its former id, by which it is found when it comes back.
type field struct {
	Name   string // in the configuration
	Column Column
	// Gone is the former id of a missing property.
	Gone string `json:",omitempty"`
	// Must is set if the database has to have the property, because tasks.only names it.
	Must bool `json:",omitempty"`
}

// valueless lists types of properties without a value.
var valueless = []string{"button"}

// findFields finds the fields in a database: by their known ids, or else by name.
func (s TaskSchema) findFields(db Database, known []field) []field {
	var found []field
	for _, f := range s.fields() {
		if i := slices.IndexFunc(known, func(k field) bool { return k.Name == f.Name }); i >= 0 {
			f.Gone = cmp.Or(known[i].Column.ID, known[i].Gone)
		}
		for _, col := range db.Columns {
			if col.ID == f.Gone && f.Gone != "" {
				f.Column = col
			}
		}
		if f.Column.ID == "" {
			f.Column = db.Columns[f.Name]
		}
		if f.Column.ID != "" {
			f.Gone = ""
		}
		found = append(found, f)
	}
	return found
}

// fields lists the fields to show, and then those that only the scope needs.
func (s TaskSchema) fields() []field {
	var all []field
	for _, name := range s.Fields {
		all = append(all, field{Name: name, Must: slices.ContainsFunc(s.Only, func(c task.Condition) bool { return c.Field == name })})
	}
	for _, c := range s.Only {
		if !slices.ContainsFunc(all, func(f field) bool { return f.Name == c.Field }) {
			all = append(all, field{Name: c.Field, Must: true})
		}
	}
	return all
}

// fit says whether a field can be shown.
func (f field) fit(db Database) Fit {
	fit := Fit{Key: f.Name, Name: f.Name, Found: f.Column.Type, column: f.Column}
	grade, key, until := Poor, "tasks.fields", "; until then it is empty in every task"
	if f.Must {
		grade, key, until = Unusable, "tasks.only", ""
	}
	switch {
	case f.Column.ID == "":
		fit.Grade = grade
		fit.Problem = fmt.Sprintf("property %q of %s is missing", f.Name, key)
		fit.Remedy = "add it, or take it out of " + key
		if other, ok := db.Similar(f.Name); ok {
			fit.Similar = other.Name
			fit.Remedy += fmt.Sprintf(" (there is %q)", other.Name)
		}
		fit.Remedy += until
	case slices.Contains(valueless, f.Column.Type), f.Column.Type == "":
		fit.Grade = grade
		fit.Problem = fmt.Sprintf("property %q of %s is of type %s, which has no value that can be shown", f.Name, key, cmp.Or(f.Column.Type, "unknown"))
		fit.Remedy = "take it out of " + key + until
	}
	return fit
}

// ExamineFields returns the fit of each further property. Their keys are the names in the
// configuration.
func (s TaskSchema) ExamineFields(db Database) []Fit {
	fields := s.findFields(db, nil)
	fits := make([]Fit, len(fields))
	for i, f := range fields {
		fits[i] = f.fit(db)
	}
	return fits
}

// The options of a status may be renamed or deleted while claims live. A claim shows its status by
// the option for IN_PROGRESS, so such a change of the schema looks like an edit of every held task:
//
//   - A renamed option keeps its id. Tasks show its new name.
//   - A task whose option is deleted shows none, or the status's default, which may be OPEN. That does
//     not change when an option of the same name is made anew.
//
// Nobody edited those tasks, and the claims on them are not over: while an option is missing the
// database is broken, and what a task lost with a deleted one is written again by the claim's holder.

// remember copies from was, the earlier status, the ids of former options that tasks still use.
// A property that was made again with another type does not inherit them.
func (s TaskSchema) remember(is, was Column) Column {
	if is.Type != was.Type {
		return is
	}
	ids := maps.Clone(is.OptionIDs)
	for _, status := range s.statuses() {
		name := s.statusName(status)
		if id := was.OptionIDs[name]; id != "" && !slices.Contains(is.Options, name) {
			if ids == nil {
				ids = make(map[string]string)
			}
			ids[name] = id
		}
	}
	is.OptionIDs = ids
	return is
}

// nowNamed returns the present name of an option that had the given name. renamed is false if
// the name is the same, or the option is gone.
func (col Column) nowNamed(name string) (now string, renamed bool) {
	id := col.OptionIDs[name]
	if id == "" || slices.Contains(col.Options, name) {
		return name, false
	}
	for _, other := range col.Options {
		if col.OptionIDs[other] == id {
			return other, true
		}
	}
	return name, false
}

// deleted reports whether a status once had an option of that name, and has it no more under
// any name.
func (col Column) deleted(name string) bool {
	_, renamed := col.nowNamed(name)
	return !renamed && col.OptionIDs[name] != "" && !slices.Contains(col.Options, name)
}

// changedOptions returns which missing options were renamed or deleted, and what to do about
// it.
func (s TaskSchema) changedOptions(col Column, missing []string) (problems, remedies []string) {
	var deleted []string
	for _, status := range s.statuses() {
		name := s.statusName(status)
		if !slices.Contains(missing, name) {
			continue
		}
		key := "tasks.statuses." + strings.ToLower(string(status))
		if now, renamed := col.nowNamed(name); renamed {
			problems = append(problems, fmt.Sprintf("option %q of property %q was renamed to %q", name, col.Name, now))
			remedies = append(remedies, fmt.Sprintf("set %s to %q, or rename it back", key, now))
		} else if col.deleted(name) {
			problems = append(problems, fmt.Sprintf("option %q of property %q was deleted", name, col.Name))
			deleted = append(deleted, key)
		}
	}
	if len(deleted) > 0 {
		remedies = append(remedies, fmt.Sprintf("add what was deleted again, or set %s to the option that stands for it now", strings.Join(deleted, ", ")))
	}
	return problems, remedies
}
