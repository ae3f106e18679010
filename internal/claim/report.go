package claim

import (
	"cmp"

	"dibs/internal/task"
)

// Report is what an agent says of its work while it goes on.
type Report struct {
	// Progress is how far it is; empty if it says nothing new. Only the first line's worth is
	// kept, see MaxProgress.
	Progress string
}

// MaxProgress is how many characters of a report are kept.
const MaxProgress = 300

// on returns h with what r says.
func (r Report) on(h Hold) Hold {
	h.Progress = cmp.Or(task.Brief(r.Progress, MaxProgress), h.Progress)
	return h
}
