package notion

import (
	"errors"
	"fmt"

	"dibs/internal/task"
)

// lostError says that a property in use is gone, or has another type.
type lostError struct{ column Column }

func (e *lostError) Error() string {
	return fmt.Sprintf("property %q of type %s is gone or of another type", e.column.Name, e.column.Type)
}

// lost reports whether an error says that a property is lost.
func lost(err error) bool {
	_, isGone := errors.AsType[*lostError](err)
	return isGone
}

// foreignError says that a page is not in the tasks database.
type foreignError struct{ page task.ID }

func (e *foreignError) Error() string {
	return fmt.Sprintf("page %s belongs to another database, or to another data source of the tasks database", e.page)
}

// foreign reports whether an error says that a page is elsewhere.
func foreign(err error) bool {
	_, isOf := errors.AsType[*foreignError](err)
	return isOf
}
