package notion

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Query selects tasks to read; the zero value means all. Times are compared by the minute.
type Query struct {
	// UnfinishedOnly leaves out tasks that are COMPLETED or CANCELLED.
	UnfinishedOnly bool
	// FinishedSince is an exception to UnfinishedOnly and Scoped: it includes all tasks that were
	// edited since then. Zero means no exception.
	FinishedSince time.Time
	// EditedSince leaves out tasks that were not edited since then. Zero leaves out none.
	EditedSince time.Time
	// Claimed is an exception to EditedSince: it includes tasks that are IN_PROGRESS with a
	// claim token.
	Claimed bool
	// Ticked leaves out tasks whose box for done is not ticked, and those that were given a status.
	Ticked bool
	// Scoped leaves out tasks that are not for agents, as far as a filter can tell, unless
	// FinishedSince includes them.
	Scoped bool
	// Progress, if set, is called after each answer with the number of rows so far.
	Progress func(rows int)
}

// pageSize is the most rows that Notion puts into one answer.
const pageSize = 100

// Query reads the tasks of the database, except those in the trash, which Notion leaves out.
// Every row shows its task as it was at the time returned, or later, except that Notion's
// queries may lag. So a row is a hint, and Get decides.
//
// Notion ends a query after 10,000 rows, and says so. Query then makes another one that
// continues there. It never returns fewer rows than there are: if any part is missing, it
// fails.
//
// If the schema may have changed, Query reads it first, with one more request.
func (t *Tasks) Query(ctx context.Context, q Query) (rows []task.Task, at time.Time, err error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneSync)
	if t.mayHaveChanged() {
		if err := t.Check(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	l := newListing(q, t.codec.Load())
	for again := false; ; {
		incomplete, err := t.list(ctx, &l)
		if err != nil {
			failed := t.noted(err)
			if again || !t.doubtful.Load() {
				return nil, time.Time{}, failed
			}
			if err := t.Check(ctx); err != nil {
				return nil, time.Time{}, err
			}
			l, again = newListing(q, t.codec.Load()), true
			continue
		}
		if incomplete == "" {
			if odd := slices.DeleteFunc(slices.Clone(l.skipped), func(s skipped) bool { return !s.partial }); len(l.rows) == 0 && len(odd) > 1 {
				return nil, time.Time{}, errPartial(odd)
			}
			t.skip(l.skipped, q.EditedSince.IsZero())
			if q.EditedSince.IsZero() && t.peopled.Swap(len(l.rows) > 0) && len(l.rows) == 0 {
				if err := t.buried(ctx); err != nil {
					return nil, time.Time{}, err
				}
			}
			return l.rows, l.at, nil
		}
		if !l.last.After(l.from) {
			return nil, time.Time{}, claim.Errorf(claim.Refused, claim.LandedUnknown,
				"Notion does not show all rows of the tasks database (%s), because too many were created in the same minute: move finished tasks to another database", incomplete)
		}
		l.from = l.last
	}
}

// listing is a list of rows being read, in the order of their creation.
type listing struct {
	query Query
	codec *codec
	// from leaves out rows that were created before that minute; zero leaves out none.
	from time.Time
	last time.Time // the minute in which the last row was created
	rows []task.Task
	seen map[task.ID]int // a task's index in rows
	at   time.Time       // of the first answer
	// skipped are the rows that are no tasks.
	skipped []skipped

	answers int
}

func newListing(q Query, c *codec) listing {
	return listing{query: q, codec: c, seen: make(map[task.ID]int)}
}

// list makes one query and adds its rows. If rows are missing, incomplete says why; otherwise
// it is empty.
func (t *Tasks) list(ctx context.Context, l *listing) (incomplete string, err error) {
	request := &notionapi.DatabaseQueryRequest{
		Filter:   l.codec.filter(l.query, l.from),
		PageSize: pageSize,
		// Rows that are edited while the pages are read keep their places.
		Sorts: []notionapi.SortObject{{Timestamp: notionapi.TimestampCreated, Direction: notionapi.SortOrderASC}},
	}
	for {
		answer, at, err := t.client.query(ctx, l.codec.source, request, l.codec.used()...)
		if err != nil {
			return "", err
		}
		if l.answers++; l.answers > maxAnswers {
			return "", errEndless
		}
		if n := len(answer.Results); n > pageSize {
			return "", claim.Errorf(claim.Refused, claim.LandedUnknown, "the answer has %d rows, and %d were asked for: check notion.base_url", n, pageSize)
		}
		incomplete = cmp.Or(answer.incomplete(), incomplete)
		if l.at.IsZero() {
			l.at = at.At
		}
		for i := range answer.Results {
			page := &answer.Results[i]
			if odd, ok := page.odd(); ok {
				l.skipped = append(l.skipped, odd)
				continue
			}
			row, err := t.row(ctx, l.codec, page)
			if foreign(err) {
				l.skipped = append(l.skipped, skipped{id: page.ID, why: "belongs to another database, or to another data source"})
				continue
			}
			if err != nil {
				return "", err
			}
			l.add(row)
		}
		if l.query.Progress != nil {
			l.query.Progress(len(l.rows))
		}
		next, err := answer.next(string(request.StartCursor))
		if err != nil {
			return "", fmt.Errorf("after %d rows: %w", len(l.rows), err)
		}
		if next == "" {
			return incomplete, nil
		}
		request.StartCursor = notionapi.Cursor(next)
	}
}

func (l *listing) add(row task.Task) {
	if created := row.Created.Truncate(time.Minute); created.After(l.last) {
		l.last = created
	}
	q := l.query
	if q.UnfinishedOnly && row.Status.Finished() && (q.FinishedSince.IsZero() || row.Edited.Before(q.FinishedSince.Truncate(time.Minute))) {
		return // the filter could not name this status
	}
	if i, ok := l.seen[row.ID]; ok {
		l.rows[i] = row
		return
	}
	l.seen[row.ID] = len(l.rows)
	l.rows = append(l.rows, row)
}

// row reads a row of a query. If the row does not show all that the task waits for, or a user without
// a name, row requests the rest.
func (t *Tasks) row(ctx context.Context, c *codec, page *page) (task.Task, error) {
	for _, user := range c.nameless(page) {
		t.client.users.Learn(transport.WithoutPermits(ctx), user.ID)
	}
	row, err := t.read(c, page)
	if err != nil {
		return row, err
	}
	err = c.whole(page, &row, func(of relation, _ []task.ID) ([]task.ID, error) { return t.related(ctx, of) })
	if err != nil {
		return row, storeError(err)
	}
	return row, nil
}

// read reads a page, and its fields.
func (t *Tasks) read(c *codec, page *page) (task.Task, error) {
	for _, user := range c.nameless(page) {
		user.Name = t.client.users.Name(user.ID)
	}
	row, err := c.task(page)
	if err != nil {
		return row, err
	}
	t.readFields(c, page, &row)
	if c.newStatus(page) {
		t.doubtful.Store(true)
	}
	return row, nil
}

// filter returns the filter of a query; nil for all rows. Notion lets compound filters nest
// only two deep, so each alternative repeats the conditions that all rows must meet.
func (c *codec) filter(q Query, from time.Time) notionapi.Filter {
	var common notionapi.AndCompoundFilter
	if !from.IsZero() {
		common = append(common, notionapi.TimestampFilter{
			Timestamp:   notionapi.TimestampCreated,
			CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: minute(from)},
		})
	}
	var unfinished notionapi.AndCompoundFilter
	if q.UnfinishedOnly {
		for _, status := range task.Statuses {
			// Notion refuses a filter by an option that does not exist, or not yet.
			if status.Finished() && slices.Contains(c.columns.status.Options, c.names[status]) {
				unfinished = append(unfinished, c.not(status))
			}
		}
	}
	if done := c.columns.done.ID; done != "" && q.UnfinishedOnly {
		unfinished = append(unfinished, notionapi.PropertyFilter{Property: done, Checkbox: &notionapi.CheckboxFilterCondition{DoesNotEqual: true}})
	} else if q.Ticked {
		common = append(common, notionapi.PropertyFilter{Property: done, Checkbox: &notionapi.CheckboxFilterCondition{Equals: true}})
		if c.columns.status.ID != "" {
			common = append(common, c.unset())
		}
	}
	if q.Scoped {
		unfinished = append(unfinished, c.scoped()...)
	}
	var edited notionapi.AndCompoundFilter
	if !q.EditedSince.IsZero() {
		edited = append(edited, editedSince(q.EditedSince))
	}
	all := slices.Concat(unfinished, edited, common)
	switch claimed := c.claimed(); {
	case len(all) == 0:
		return nil
	case len(unfinished) > 0 && !q.FinishedSince.IsZero():
		since := notionapi.AndCompoundFilter{editedSince(q.FinishedSince)}
		return notionapi.OrCompoundFilter{all, slices.Concat(since, edited, common)}
	case len(edited) > 0 && q.Claimed && claimed != nil:
		return notionapi.OrCompoundFilter{all, slices.Concat(unfinished, claimed, common)}
	}
	return all
}

// claimed returns the filter for tasks that are IN_PROGRESS with a claim token. It is nil if there
// can be no such tasks.
func (c *codec) claimed() notionapi.AndCompoundFilter {
	status := notionapi.PropertyFilter{Property: c.columns.status.ID}
	if !slices.Contains(c.columns.status.Options, c.names[task.InProgress]) {
		return nil
	}
	if c.columns.status.Type == typeSelect {
		status.Select = &notionapi.SelectFilterCondition{Equals: c.option(task.InProgress)}
	} else {
		status.Status = &notionapi.StatusFilterCondition{Equals: c.option(task.InProgress)}
	}
	token := notionapi.PropertyFilter{Property: c.columns.token.ID, RichText: &notionapi.TextFilterCondition{IsNotEmpty: true}}
	return notionapi.AndCompoundFilter{status, token}
}

func editedSince(t time.Time) notionapi.Filter {
	return notionapi.TimestampFilter{
		Timestamp:      notionapi.TimestampLastEdited,
		LastEditedTime: &notionapi.DateFilterCondition{OnOrAfter: minute(t)},
	}
}

// minute cuts a time to the minute, as Notion stores and compares times.
func minute(t time.Time) *notionapi.Date { return new(notionapi.Date(t.UTC().Truncate(time.Minute))) }

// option returns the option for a status as Notion has it.
func (c *codec) option(s task.Status) string { return c.columns.status.inNotion(c.names[s]) }

// not returns the filter for tasks that are not in that status.
func (c *codec) not(status task.Status) notionapi.Filter {
	f := notionapi.PropertyFilter{Property: c.columns.status.ID}
	if c.columns.status.Type == typeSelect {
		f.Select = &notionapi.SelectFilterCondition{DoesNotEqual: c.option(status)}
	} else {
		f.Status = &notionapi.StatusFilterCondition{DoesNotEqual: c.option(status)}
	}
	return f
}

// unset returns the filter for tasks that were given no status. A property of type status is never
// empty: Notion shows its default there, as if somebody had chosen that.
func (c *codec) unset() notionapi.Filter {
	f := notionapi.PropertyFilter{Property: c.columns.status.ID}
	if c.columns.status.Type == typeSelect {
		f.Select = &notionapi.SelectFilterCondition{IsEmpty: true}
	} else {
		f.Status = &notionapi.StatusFilterCondition{Equals: c.option(task.Open)}
	}
	return f
}

// isUnset reports whether a task of that status's name is one of unset's.
func (c *codec) isUnset(name string) bool {
	return name == "" || c.columns.status.Type != typeSelect && name == c.names[task.Open]
}
