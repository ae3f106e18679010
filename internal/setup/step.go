package setup

import "dibs/internal/notion"

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
