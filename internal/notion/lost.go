package notion

import (
	"errors"
	"fmt"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
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
type foreignError struct {
	page  task.ID
	known bool // whether the answer says where the page is
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("page %s belongs to another database, or to another data source of the tasks database", e.page)
}

// foreign reports whether an error says that a page is known to be elsewhere, not just that its
// place is unknown.
func foreign(err error) bool {
	of, isOf := errors.AsType[*foreignError](err)
	return isOf && of.known
}

// lies reports whether a parent is one that there may be.
func lies(p notionapi.Parent) bool {
	_, err := task.ParseID(p.DatabaseID.String())
	return err == nil || p.Type == notionapi.ParentTypePageID || p.Type == notionapi.ParentTypeBlockID || p.Type == notionapi.ParentTypeWorkspace
}

// breakage describes what is wrong with a tasks database.
type breakage struct {
	err *claim.StoreError
	// workable says that the claims held here still work.
	workable bool
	// lostProgress says that tasks in progress do not show it, see Tasks.checkProgress.
	lostProgress bool
}

// breaks records that the database is broken, how, and why. The caller has locked t.changing.
func (t *Tasks) breaks(why error, b breakage) *claim.StoreError {
	b.err = claim.Errorf(claim.Refused, claim.LandedNo, "%w; nothing is claimed until then", why)
	t.broken.Store(&b)
	return b.err
}

// lose records that a page has lost a property. Other pages are read as before until the schema is
// read and shows whether they lost it, too.
func (t *Tasks) lose(gone *lostError) {
	t.changing.Lock()
	defer t.changing.Unlock()
	before := t.broken.Load()
	if before != nil && unclear(before.err) {
		return // the page may be in another data source, which never had the property
	}
	t.breaks(fmt.Errorf("the tasks database has changed: %w: restore it as it was", gone), breakage{workable: before == nil || before.workable, lostProgress: before != nil && before.lostProgress})
}

// readable reports whether tasks can be read with these columns. They need at least a title and a
// status; nothing can replace a status.
func (c *taskColumns) readable() bool { return c.title.ID != "" && c.status.ID != "" }

// workable reports whether the claims held here still work. For that, the page itself must show the
// holder and the start of the lease.
func (c *codec) workable() bool {
	has := &c.columns
	return has.readable() && has.claimedBy.ID != "" && has.claimedAt.ID != "" && (has.token.ID != "" || c.known.token.ID == "")
}

// lacks reports whether pages have lost a property.
func (c *codec) lacks() bool { return len(c.columns.inUse()) < len(c.known.inUse()) }

// Remember gives t a memory: last returns a task as last read. While the database lacks a property,
// tasks show the value from last. Remember must be called before the first reading.
func (t *Tasks) Remember(last func(task.ID) (task.Task, bool)) { t.last = last }

// forgotten is the memory of Tasks without Remember: it is empty.
func forgotten(task.ID) (t task.Task, ok bool) { return t, false }

// read reads a page, and its fields from x. Lost properties are filled in from memory.
func (t *Tasks) read(c *codec, page *notionapi.Page, x *exchange) (task.Task, error) {
	row, err := c.task(page)
	if err != nil {
		return row, err
	}
	t.readFields(c, page.ID.String(), &row, x)
	if c.newStatus(page) {
		t.doubtful.Store(true)
	}
	row = t.flagCleared(c, row)
	if !c.lacks() {
		return row, nil
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
		row.Priority, row.PriorityName = last.Priority, last.PriorityName
	}
	if gone(c.known.assignee, c.columns.assignee) {
		row.Assignee, row.AssigneeIsAgent = last.Assignee, last.AssigneeIsAgent
	}
	if gone(c.known.done, c.columns.done) && last.Status == task.Completed {
		row.Status = last.Status
	}
	if gone(c.known.dependsOn, c.columns.dependsOn) {
		row.DependsOn = last.DependsOn
	}
	if gone(c.known.subItems, c.columns.subItems) {
		row.SubItems = last.SubItems
	}
	return row, nil
}
