package notion

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Query says which tasks to read. The zero value means all of them.
type Query struct {
	// UnfinishedOnly leaves out those that are COMPLETED or CANCELLED.
	UnfinishedOnly bool
	// EditedSince leaves out those not edited since, to the minute; zero for none.
	EditedSince time.Time
}

// pageSize is the most rows that Notion puts into one answer.
const pageSize = 100

// Query reads the tasks of the database, except those in the trash, which Notion
// leaves out. Every row shows its task as it was at the time returned, or later;
// Notion's queries may lag behind, so a row is a hint, and Get decides.
//
// Notion ends a query after 10,000 rows. Query then fails, as it does when any
// other part is missing: it never returns fewer rows than there are.
func (t *Tasks) Query(ctx context.Context, q Query) (rows []task.Task, at time.Time, err error) {
	ctx = usually(ctx, LaneSync)
	request := &notionapi.DatabaseQueryRequest{
		Filter:   t.filter(q),
		PageSize: pageSize,
		// Rows that are edited while the pages are read keep their places.
		Sorts: []notionapi.SortObject{{Timestamp: notionapi.TimestampCreated, Direction: notionapi.SortOrderASC}},
	}
	seen := make(map[task.ID]int)
	for {
		x := exchange{only: t.used()}
		answer, err := t.client.api.Database.Query(x.in(ctx), notionapi.DatabaseID(t.codec.database), request)
		if err != nil {
			return nil, time.Time{}, storeError(err)
		}
		if x.incomplete != "" {
			return nil, time.Time{}, claim.Errorf(claim.Refused, claim.LandedUnknown,
				"Notion does not show all rows of the tasks database (%s): move finished tasks to another database", x.incomplete)
		}
		if at.IsZero() {
			at = x.at(t.client.clock)
		}
		for i := range answer.Results {
			row, err := t.row(ctx, &answer.Results[i], &x)
			if err != nil {
				return nil, time.Time{}, err
			}
			if q.UnfinishedOnly && row.Status.Finished() {
				continue // by a status that the filter could not name
			}
			if i, ok := seen[row.ID]; ok {
				rows[i] = row
				continue
			}
			seen[row.ID] = len(rows)
			rows = append(rows, row)
		}
		if !answer.HasMore {
			return rows, at, nil
		}
		if answer.NextCursor == "" || answer.NextCursor == request.StartCursor {
			return nil, time.Time{}, storeError(fmt.Errorf("after %d rows: %w", len(rows), errNoCursor))
		}
		request.StartCursor = answer.NextCursor
	}
}

// row reads a row of a query, and what the row does not show.
func (t *Tasks) row(ctx context.Context, page *notionapi.Page, x *exchange) (task.Task, error) {
	row, err := t.task(page)
	if err != nil {
		return row, err
	}
	if x.truncated[t.dependencies(page)] {
		if row.DependsOn, err = t.related(ctx, row.ID); err != nil {
			return row, storeError(err)
		}
	}
	return row, nil
}

// filter returns nil for a query of all rows.
func (t *Tasks) filter(q Query) notionapi.Filter {
	var all notionapi.AndCompoundFilter
	if q.UnfinishedOnly {
		for _, status := range task.Statuses {
			// Notion refuses a filter by an option that does not exist (yet).
			if status.Finished() && slices.Contains(t.columns.status.Options, t.names[status]) {
				all = append(all, t.not(status))
			}
		}
	}
	if !q.EditedSince.IsZero() {
		// Notion keeps the time of the last edit to the minute, cut off.
		since := notionapi.Date(q.EditedSince.UTC().Truncate(time.Minute))
		all = append(all, notionapi.TimestampFilter{
			Timestamp:      notionapi.TimestampLastEdited,
			LastEditedTime: &notionapi.DateFilterCondition{OnOrAfter: &since},
		})
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// not filters for tasks that are not in that status.
func (t *Tasks) not(status task.Status) notionapi.Filter {
	f := notionapi.PropertyFilter{Property: t.columns.status.ID}
	if t.columns.status.Type == typeSelect {
		f.Select = &notionapi.SelectFilterCondition{DoesNotEqual: t.names[status]}
	} else {
		f.Status = &notionapi.StatusFilterCondition{DoesNotEqual: t.names[status]}
	}
	return f
}
