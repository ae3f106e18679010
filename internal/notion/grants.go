package notion

import (
	"context"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/worklog"

	"github.com/jomei/notionapi"
)

// OtherGrants returns grants from the mesh log that were made under other settings than these,
// since then, the newest hundred at most. It takes one request in the lowest lane. If the log has
// no text property for an entry's detail, it returns no grants and sends nothing.
func (l *Log) OtherGrants(ctx context.Context, since time.Time, than claim.Settings) ([]worklog.Grant, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneSync)
	layout, err := l.current(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	example := worklog.Example(claim.MeshLog)
	var agent, detail Column
	for i, col := range layout.fill(example, make(notionapi.Properties), new(spanWriter)) {
		switch example.Fields[i].Name {
		case "agent":
			agent = col
		case "detail":
			detail = col
		}
	}
	if detail.ID == "" || detail.Type != typeRichText {
		return nil, nil
	}
	only := []string{layout.title.ID, detail.ID}
	for _, col := range []Column{agent, layout.entryID} {
		if col.ID != "" {
			only = append(only, col.ID)
		}
	}
	says := func(condition notionapi.TextFilterCondition) notionapi.Filter {
		return notionapi.PropertyFilter{Property: detail.ID, RichText: &condition}
	}
	answer, _, err := l.client.query(ctx, layout.source, &notionapi.DatabaseQueryRequest{
		Filter: notionapi.AndCompoundFilter{
			says(notionapi.TextFilterCondition{Contains: claim.SettingsMark}),
			says(notionapi.TextFilterCondition{DoesNotContain: than.String()}),
			notionapi.TimestampFilter{
				Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: dateOf(since.UTC().Truncate(time.Minute))},
			},
		},
		Sorts:    []notionapi.SortObject{{Timestamp: notionapi.TimestampCreated, Direction: notionapi.SortOrderDESC}},
		PageSize: pageSize,
	}, only...)
	if err != nil {
		return nil, l.noted(err)
	}
	var grants []worklog.Grant
	for _, page := range answer.Results {
		text := func(col Column) string { return page.Properties[col.ID].text() }
		settings, ok := claim.ParseSettings(text(detail))
		if !ok {
			continue
		}
		id, title := text(layout.entryID), text(layout.title)
		if i := strings.LastIndexByte(title, '['); id == "" && i >= 0 {
			id = strings.TrimSuffix(title[i+1:], "]")
		}
		grants = append(grants, worklog.Grant{EntryID: id, Agent: text(agent), Settings: settings})
	}
	return grants, nil
}
