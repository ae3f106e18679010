package task

// Draft is what a task that is yet to be made is to have.
type Draft struct {
	Title string
	// Body is the content of its page, in Markdown; empty for none.
	Body string
	// Priority is the name of one, ours or the database's; empty for none.
	Priority  string
	DependsOn []ID
	// For is the agent that the task is assigned to; empty for all.
	For    string
	Fields []Field
}

// Field is a value for a property of the database.
type Field struct {
	// Name is that of the property, in whatever case.
	Name string
	// Values are its values as texts: one, unless the property takes several. None
	// leaves the property empty.
	Values []string
}

// DraftError is a draft of which no task can be made. It says why, and what can be
// written instead.
type DraftError struct{ Detail string }

func (e *DraftError) Error() string { return e.Detail }
