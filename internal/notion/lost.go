package notion

import (
	"errors"
	"fmt"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// lostError says that a property that is in use is not what it was.
type lostError struct{ column Column }

func (e *lostError) Error() string {
	return fmt.Sprintf("property %q of type %s is gone or of another type", e.column.Name, e.column.Type)
}

// lost reports whether that is what an error says.
func lost(err error) bool {
	var gone *lostError
	return errors.As(err, &gone)
}

// breakage is what is wrong with a tasks database.
type breakage struct {
	err *claim.StoreError
	// workable says that what is held can be worked with all the same.
	workable bool
}

// breaks notes that the database is broken. changing is held.
func (t *Tasks) breaks(why error, workable bool) *claim.StoreError {
	broken := claim.Errorf(claim.Refused, claim.LandedNo, "%w; nothing is claimed until then", why)
	t.broken.Store(&breakage{broken, workable})
	return broken
}

// lose notes what a page is found to have lost. Other pages are read as before, until
// the schema tells.
func (t *Tasks) lose(gone *lostError) {
	t.changing.Lock()
	defer t.changing.Unlock()
	before := t.broken.Load()
	if before != nil && unclear(before.err) {
		return // the page may be of another data source
	}
	t.breaks(fmt.Errorf("the tasks database has changed: %w: restore it as it was", gone), before == nil || before.workable)
}

// readable reports whether tasks can be read by these columns: nothing stands in
// for what state a task is in.
func (c *taskColumns) readable() bool { return c.title.ID != "" && c.status.ID != "" }

// workable reports whether what is held can be worked with: whose claim a page shows,
// and since when, has to be read from the page itself.
func (c *codec) workable() bool {
	has := &c.columns
	return has.readable() && has.claimedBy.ID != "" && has.claimedAt.ID != "" && (has.token.ID != "" || c.known.token.ID == "")
}

// lacks reports whether pages do not have all that they should.
func (c *codec) lacks() bool { return len(c.columns.inUse()) < len(c.known.inUse()) }

// Remember has last asked for tasks as they were read last. While the database lacks
// a property, a task shows what it said then. It must be called before the first
// reading.
func (t *Tasks) Remember(last func(task.ID) (task.Task, bool)) { t.last = last }

// forgotten stands in for Remember.
func forgotten(task.ID) (t task.Task, ok bool) { return t, false }

// read reads a page, and fills in what it has lost.
func (t *Tasks) read(c *codec, page *notionapi.Page) (task.Task, error) {
	row, err := c.task(page)
	if err != nil || !c.lacks() {
		return row, err
	}
	last, ok := t.last(row.ID)
	if !ok {
		return row, nil
	}
	gone := func(known, now Column) bool { return known.ID != now.ID }
	if gone(c.known.claimedBy, c.columns.claimedBy) {
		row.ClaimedBy = last.ClaimedBy
	}
	if gone(c.known.claimedAt, c.columns.claimedAt) {
		row.ClaimedAt = last.ClaimedAt
	}
	if gone(c.known.token, c.columns.token) {
		row.Token = last.Token
	}
	if gone(c.known.timeout, c.columns.timeout) {
		row.Timeout = last.Timeout
	}
	if gone(c.known.priority, c.columns.priority) {
		row.Priority = last.Priority
	}
	if gone(c.known.dependsOn, c.columns.dependsOn) {
		row.DependsOn = last.DependsOn
	}
	return row, nil
}
