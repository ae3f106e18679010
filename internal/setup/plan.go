package setup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// Action is what a step does.
type Action string

// The actions.
const (
	CreateDatabase Action = "create"
	AddProperties  Action = "add"
	AddOptions     Action = "extend" // adds options to a property
	AddView        Action = "view"
	Complete       Action = "complete" // sets the status of rows that are ticked
	WriteConfig    Action = "write"
)

// Step is one thing to be done.
type Step struct {
	Action Action `json:"action"`
	// Database is the key of the database below databases; empty for the file.
	Database string `json:"database,omitempty"`
	// What describes the step to people.
	What string `json:"what"`

	title   string
	columns []notion.NewColumn
	// byHand says how a person does the step. A step that has it is skipped if Notion refuses it.
	byHand string
}

func (s Step) String() string {
	where := ""
	if s.Database != "" {
		where = " " + s.Database + ":"
	}
	return string(s.Action) + where + " " + s.What
}

// Plan is what is to be done.
type Plan struct {
	Steps []Step
	// Guesses are the guessed names. A person, or the author of a script, should confirm them
	// before Apply.
	Guesses Guesses
	// Adopted are names that differ from the configured ones only in case, spaces, "_" and "-".
	// Nobody has to confirm them.
	Adopted Guesses
	// Questions are those that a person has to answer in Options.Map before Apply, or may.
	Questions []Question
	// Offered are the tasks that are there and that agents would be offered, the first ones first.
	// They were looked for if Surveyed is set.
	Offered  []task.Task
	Surveyed bool
	// Problems are what prevents the plan, a line each.
	Problems []string
	// Notes are remarks that prevent nothing, a line each.
	Notes []string
	// Config is the resulting configuration. The ids of databases that are not made yet are empty.
	Config config.Config
	File   string

	unnamed []string // dibs's words for statuses that the board lacks, in another language
	saved   config.Config
	adopts  bool // the tasks database is not one that dibs works on yet
	client  *notion.Client
	parent  task.ID
	replace bool
}

// kind is one of the three databases.
type kind struct {
	key, title string
	log        claim.Log // empty for the tasks
}

var kinds = []kind{{"tasks", "Tasks", ""}, {"task_log", "Agent Task Log", claim.TaskLog}, {"mesh_log", "Mesh Communication Log", claim.MeshLog}}

// flag returns the name of the database's flag.
func (k kind) flag() string { return strings.ReplaceAll(k.key, "_", "-") }

func (k kind) id(d *config.Databases) *string { return config.ByKey[string](d)[k.key] }

func (k kind) source(d *config.Databases) *string { return config.ByKey[string](d)[k.key+"_source"] }

func (p *Plan) step(s Step) { p.Steps = append(p.Steps, s) }

func (p *Plan) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// boardName is the name of the board view, which groups the tasks by status.
const boardName = "Board"

// Question asks about the options of the status. Only a person can answer it, in Options.Map.
type Question struct {
	Key      string // below tasks.statuses
	Property string
	// Among are the options that the answer may be, besides a new one.
	Among []string
	// Taken is the one of them that is used until there is an answer; empty if the plan cannot do
	// without one.
	Taken string
}

func (q Question) String() string {
	asked := fmt.Sprintf("which option of %q is %s?", q.Property, strings.ToUpper(q.Key))
	switch among := strings.Join(q.Among, ", "); {
	case q.Taken != "":
		return fmt.Sprintf("%s %s is taken, of %s; another: --map %s=NAME", asked, q.Taken, among, q.Key)
	case among == "":
		return fmt.Sprintf("%s Give --map %s=NAME: a new one, in the board's language", asked, q.Key)
	default:
		return fmt.Sprintf("%s Give --map %s=NAME: one of %s, or a new one in the board's language", asked, q.Key, among)
	}
}

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

// priorityKeys are the keys below tasks.priorities, the most urgent first.
var priorityKeys = []string{"critical", "high", "medium", "low"}
