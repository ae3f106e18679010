package notion

import (
	"time"

	"dibs/internal/outbox/wording"

	"github.com/jomei/notionapi"
)

// find returns the filter for an entry, in every form in which it may have been made: the property
// for entry ids may have been added or removed since.
func (l layout) find(e wording.Entry) notionapi.Filter {
	inTitle := l.titled(notionapi.TextFilterCondition{Contains: e.ID})
	if l.entryID.ID != "" {
		inProperty := notionapi.PropertyFilter{
			Property: l.entryID.ID, RichText: &notionapi.TextFilterCondition{Equals: e.ID},
		}
		return notionapi.OrCompoundFilter{inProperty, inTitle}
	}
	if e.Title == "" {
		return inTitle
	}
	return notionapi.OrCompoundFilter{inTitle, l.alike(e)}
}

// alike returns the filter for entries that look like e but lost their id with its property: they
// have the same title, claim, task and minute, and were made since e happened.
func (l layout) alike(e wording.Entry) notionapi.Filter {
	same := notionapi.TextFilterCondition{Equals: e.Title}
	if !fits(e.Title, spanLimit) {
		same = notionapi.TextFilterCondition{StartsWith: e.Title[:prefix(e.Title, spanLimit)]}
	}
	minute := e.At.UTC().Truncate(time.Minute)
	all := notionapi.AndCompoundFilter{
		l.titled(same),
		notionapi.TimestampFilter{Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: dateOf(minute)}},
	}
	for i, col := range l.fill(e, make(notionapi.Properties), new(spanWriter)) {
		f := e.Fields[i]
		switch said, isText := f.Value.(string); {
		case col.ID == "":
		case isText && col.Type == typeRichText && (f.Name == "claim_id" || f.Name == "task_id") && fits(said, spanLimit):
			all = append(all, notionapi.PropertyFilter{Property: col.ID, RichText: &notionapi.TextFilterCondition{Equals: said}})
		case f.Value == e.At && notionapi.PropertyType(col.Type) == notionapi.PropertyTypeDate: // cut to the minute
			all = append(all,
				notionapi.PropertyFilter{Property: col.ID, Date: &notionapi.DateFilterCondition{OnOrAfter: dateOf(minute)}},
				notionapi.PropertyFilter{Property: col.ID, Date: &notionapi.DateFilterCondition{Before: dateOf(minute.Add(time.Minute))}})
		}
	}
	return all
}

func (l layout) titled(condition notionapi.TextFilterCondition) notionapi.Filter {
	return titleFilter{Property: l.title.ID, Title: condition}
}

// titleFilter is a filter that the library lacks.
type titleFilter struct {
	notionapi.Filter `json:"-"`

	Property string                        `json:"property"`
	Title    notionapi.TextFilterCondition `json:"title"`
}

func dateOf(t time.Time) *notionapi.Date { return new(notionapi.Date(t)) }
