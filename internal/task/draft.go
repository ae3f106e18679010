package task

// Draft describes a task to create.
type Draft struct {
	Title string
	// Body is the content of its page, in Markdown; empty for none.
	Body string
	// Priority is a name, ours or the database's; empty for none.
	Priority  string
	DependsOn []ID
	// For is the agent that the task is assigned to; empty for all.
	For    string
	Fields []Field
}

// Field is a value for a property of the database.
type Field struct {
	// Name is the name of the property, in any case.
	Name string
	// Values are its values as texts: one, or several if the property takes several. None
	// leaves the property empty.
	Values []string
}

// DraftError says why no task can be created from a draft, and what to write instead.
type DraftError struct{ Detail string }

func (e *DraftError) Error() string { return e.Detail }
