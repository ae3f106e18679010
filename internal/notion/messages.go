package notion

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// maxMessageAnswers limits the answers that Messages reads: ten thousand rows.
const maxMessageAnswers = 100

// Messages returns the rows of a mesh log that were made since then, to the minute, and may be
// messages, oldest first: rows of people and other programs, and messages of daemons. It takes one
// request for each hundred rows, in the lowest lane.
func (l *Log) Messages(ctx context.Context, since time.Time) ([]wording.Row, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneSync)
	layout, err := l.current(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	places := layout.messagePlaces()
	only := []string{layout.title.ID}
	for _, name := range slices.Sorted(maps.Keys(places)) { // the same request every time
		only = append(only, places[name].ID)
	}
	filter := notionapi.AndCompoundFilter{notionapi.TimestampFilter{
		Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: minute(since)},
	}}
	if layout.entryID.ID != "" { // leaves out entries about claims
		is := func(condition notionapi.TextFilterCondition) notionapi.Filter {
			return notionapi.PropertyFilter{Property: layout.entryID.ID, RichText: &condition}
		}
		filter = append(filter, notionapi.OrCompoundFilter{
			is(notionapi.TextFilterCondition{IsEmpty: true}), is(notionapi.TextFilterCondition{StartsWith: wording.MessagePrefix}),
		})
	}
	request := &notionapi.DatabaseQueryRequest{
		Filter: filter, PageSize: pageSize,
		Sorts: []notionapi.SortObject{{Timestamp: notionapi.TimestampCreated, Direction: notionapi.SortOrderASC}},
	}
	var rows []wording.Row
	for range maxMessageAnswers {
		answer, _, err := l.client.query(ctx, layout.source, request, only...)
		if err != nil {
			return nil, l.noted(err)
		}
		for i := range answer.Results {
			if row, ok := layout.row(&answer.Results[i], places); ok {
				rows = append(rows, row)
			}
		}
		next, err := answer.next(string(request.StartCursor))
		if err != nil {
			return nil, claim.Errorf(claim.Unavailable, claim.LandedNo, "after %d rows: %w", len(rows), err)
		}
		if next == "" {
			return rows, nil
		}
		request.StartCursor = notionapi.Cursor(next)
	}
	return rows, nil
}

// messagePlaces returns the columns of messages: those that a daemon's own messages use.
func (l layout) messagePlaces() map[string]Column {
	places := make(map[string]Column)
	message := wording.MessageExample()
	for i, col := range l.fill(message, make(notionapi.Properties), new(spanWriter)) {
		switch name := message.Fields[i].Name; name {
		case "from", "to", "message":
			if col.ID != "" {
				places[name] = col
			}
		}
	}
	if l.entryID.ID != "" {
		places[wording.EntryID] = l.entryID
	}
	return places
}

// row reads a row of the log; ok is false for a daemon's entry about a claim.
func (l layout) row(page *page, places map[string]Column) (row wording.Row, ok bool) {
	id, err := task.ParseID(page.ID)
	if err != nil {
		return row, false
	}
	text := func(col Column) string { return task.Plain(page.Properties[col.ID].text()) }
	row = wording.Row{Page: id, Created: page.Created.UTC(), Title: text(l.title), EntryID: text(places[wording.EntryID])}
	if i := strings.LastIndex(row.Title, " ["); row.EntryID == "" && i >= 0 && strings.HasSuffix(row.Title, "]") {
		// In a log without a property for it, the id ends the title.
		if entry := row.Title[i+2 : len(row.Title)-1]; wording.IsEntryID(entry) {
			row.EntryID, row.Title = entry, row.Title[:i]
		}
	}
	_, message := wording.ParseMessageID(row.EntryID)
	if row.EntryID != "" && !message {
		return row, false
	}
	for name, field := range map[string]*string{"from": &row.From, "to": &row.To, "message": &row.Text} {
		// People's rows have a message where the column is called so, or not at all.
		col := places[name]
		if col.ID != "" && (message || fold(col.Name) == name) {
			*field = text(col)
		}
	}
	return row, true
}
