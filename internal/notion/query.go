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
			if odd := slices.DeleteFunc(slices.Clone(l.skipped), func(s skippedRow) bool { return !s.partial }); len(l.rows) == 0 && len(odd) > 1 {
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
	from  time.Time
	last  time.Time // the minute in which the last row was created
	rows  []task.Task
	index map[task.ID]int // a task's index in rows
	at    time.Time       // of the first answer
	// skipped are the rows that are no tasks.
	skipped []skippedRow

	answers int
}

func newListing(q Query, c *codec) listing {
	return listing{query: q, codec: c, index: make(map[task.ID]int)}
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
				l.skipped = append(l.skipped, skippedRow{id: page.ID, why: "belongs to another database, or to another data source"})
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
	if i, ok := l.index[row.ID]; ok {
		l.rows[i] = row
		return
	}
	l.index[row.ID] = len(l.rows)
	l.rows = append(l.rows, row)
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

// scoped returns the conditions of the scope that a filter of Notion's can say exactly. Rows are
// judged once they are read, so a condition may be left out.
func (c *codec) scoped() (all notionapi.AndCompoundFilter) {
	for _, f := range c.columns.fields {
		for _, want := range c.scope {
			if want.Field != f.Name || want.Value == "" {
				continue
			}
			if one, ok := valueFilter(f.Column, want.Value); ok {
				all = append(all, one)
			}
		}
	}
	return all
}

// valueFilter returns the filter for rows whose property has a value; false if Notion has none that means
// the same, see task.FieldMatches.
func valueFilter(col Column, value string) (notionapi.Filter, bool) {
	f := notionapi.PropertyFilter{Property: col.ID}
	var options []string // those that are meant
	for _, o := range col.Options {
		if task.FieldMatches(o, value) {
			options = append(options, o)
		}
	}
	if col.Type == typeCheckbox {
		is := task.FieldMatches(true, value)
		f.Checkbox = &notionapi.CheckboxFilterCondition{Equals: is, DoesNotEqual: !is}
		return f, is || task.FieldMatches(false, value)
	}
	if len(options) != 1 {
		return nil, false
	}
	option := col.inNotion(options[0])
	switch col.Type {
	case typeSelect:
		f.Select = &notionapi.SelectFilterCondition{Equals: option}
	case typeStatus:
		f.Status = &notionapi.StatusFilterCondition{Equals: option}
	case typeMultiSelect:
		f.MultiSelect = &notionapi.MultiSelectFilterCondition{Contains: option}
	default:
		return nil, false
	}
	return f, true
}

// survey opens a database that may lack what claims need yet. The properties are db's: they are not
// read again.
func (c *Client) survey(db Database, schema TaskSchema) (*Tasks, error) {
	columns, warnings, _ := schema.find(db, taskColumns{}) // what is missing is made later
	return c.open(db, schema, columns, warnings)
}

// Survey reads the unfinished tasks of a database that may lack what claims need yet, as far as its
// properties say. Without a status they are OPEN, as Notion shows them once it has one.
func (c *Client) Survey(ctx context.Context, db Database, schema TaskSchema) ([]task.Task, error) {
	t, err := c.survey(db, schema)
	if err != nil {
		return nil, err
	}
	rows, _, err := t.Query(ctx, Query{UnfinishedOnly: true})
	for i := range rows {
		if t.codec.Load().columns.status.ID == "" {
			rows[i].Status = task.Open
		}
	}
	return rows, err
}

// Ticked lists the tasks of a database that are ticked as done and were given no status.
func (c *Client) Ticked(ctx context.Context, db Database, schema TaskSchema) ([]task.Task, error) {
	t, err := c.survey(db, schema)
	if err != nil || t.codec.Load().columns.done.ID == "" {
		return nil, err
	}
	rows, _, err := t.Query(ctx, Query{Ticked: true})
	return rows, err
}

// CompleteTicked sets the status of those tasks to COMPLETED, one by one. It reads each of them once
// more, and leaves it alone if somebody took the tick off or chose a status meanwhile. After an error
// the others are left as they are.
func (c *Client) CompleteTicked(ctx context.Context, db Database, schema TaskSchema) error {
	rows, err := c.Ticked(ctx, db, schema)
	if err != nil {
		return err
	}
	t, err := c.survey(db, schema)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := t.Get(ctx, row.ID); err != nil {
			return err
		}
		if on := t.met(row.ID); !on.ticked || !t.codec.Load().isUnset(on.status) {
			continue
		}
		if _, err := t.Write(ctx, row.ID, claim.Write{Status: new(task.Completed)}); err != nil {
			return err
		}
	}
	return nil
}
