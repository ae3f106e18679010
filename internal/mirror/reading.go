package mirror

import (
	"reflect"
	"slices"
	"time"

	"dibs/internal/task"
)

// reading is a task as it was read.
type reading struct {
	task.Task
	at stamp
	// page is set if the page itself was read, rather than a row of a query.
	page bool
}

// stamp orders readings: a reading that began later has a higher one.
type stamp int64

// next returns the stamp of a reading that begins now.
func (m *Mirror) next() stamp { return stamp(m.stamp.Add(1)) }

// row is a task as of its last reading.
type row struct {
	task *task.Task
	read stamp
	// page is when the page itself was last read, by this machine's clock; zero if
	// it never was.
	page time.Time
}

// touch notes that the task was read.
func (w *row) touch(r reading) {
	w.read = r.at
	if r.page {
		w.page = time.Now()
	}
}

// verdict is what a reading means for the mirror.
type verdict int

const (
	outdated verdict = iota // it says nothing: the row is from a later reading
	confirmed
	changed
)

// judge compares a reading with the row of its task, nil if there is none. A query may show a
// task as it was before its last edit.
func judge(known *row, r reading) verdict {
	switch {
	case known == nil:
		return changed
	case known.read > r.at, !r.page && r.Edited.Before(known.task.Edited):
		return outdated
	case same(*known.task, r.Task):
		return confirmed
	}
	return changed
}

// same reports whether two readings show the same.
func same(a, b task.Task) bool {
	if !slices.Equal(a.DependsOn, b.DependsOn) || !slices.Equal(a.SubItems, b.SubItems) {
		return false
	}
	a.DependsOn, b.DependsOn, a.SubItems, b.SubItems = nil, nil, nil, nil
	a.Unblocks, b.Unblocks = 0, 0 // it is not read
	return reflect.DeepEqual(a, b)
}
