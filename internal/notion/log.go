package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Log is a log database. It uses whatever properties the database has; it needs only a title, which
// every database has. It is safe for concurrent use.
type Log struct {
	client *Client
	id     task.ID // of the database

	mu      sync.Mutex
	layout  logLayout
	reading chan struct{} // holds a value while somebody reads the database again

	// stale is set if the database has to be read before the next request: it was never read, or
	// Notion refused an entry, so that somebody may have changed it.
	stale bool
}

// Log opens a log database, by its id or URL, with one request. Open the tasks database before: a
// relation is filled in only if it relates to that.
func (c *Client) Log(ctx context.Context, databaseID string) (*Log, error) {
	db, err := c.Database(transport.InLaneUnlessChosen(ctx, transport.LaneLog), databaseID)
	if err != nil {
		return nil, err
	}
	return &Log{client: c, id: db.ID, layout: c.layout(db), reading: make(chan struct{}, 1)}, nil
}

// RecallLog opens a log database without a request. It is read before its first use.
func (c *Client) RecallLog(databaseID string) (*Log, error) {
	id, err := task.ParseID(databaseID)
	return &Log{client: c, id: id, stale: true, reading: make(chan struct{}, 1)}, err
}

func (c *Client) layout(db Database) logLayout {
	tasks := c.tasks.Load()
	if tasks == nil {
		tasks = new(task.ID)
	}
	return newLayout(db, *tasks)
}

var _ wording.Writer = (*Log)(nil)

// Create implements wording.Writer: it makes an entry, with one request that is sent at most once.
// If the error says that the entry may have landed, Find finds out, though with a delay: Notion's
// queries may lag behind.
func (l *Log) Create(ctx context.Context, e wording.Entry) error {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	layout, err := l.current(ctx)
	if err != nil {
		// Only a read has failed, so nothing was written.
		failed := *storeError(err)
		failed.Landed = claim.LandedNo
		return &failed
	}
	if _, _, err := l.client.createPage(ctx, layout.source, layout.page(e)); err != nil {
		return l.noted(err)
	}
	return nil
}

// Find implements wording.Writer: it reports whether there is such an entry.
func (l *Log) Find(ctx context.Context, e wording.Entry) (bool, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	found, err := l.search(ctx, e)
	if invalid(err) { // the database has changed
		found, err = l.search(ctx, e)
	}
	return found, err
}

func (l *Log) search(ctx context.Context, e wording.Entry) (bool, error) {
	layout, err := l.current(ctx)
	if err != nil {
		return false, storeError(err)
	}
	answer, _, err := l.client.query(ctx, layout.source, &notionapi.DatabaseQueryRequest{Filter: layout.find(e), PageSize: 1})
	if err != nil {
		return false, l.noted(err)
	}
	return len(answer.Results) > 0, nil
}

// noted is storeError, and records that the schema may have changed.
func (l *Log) noted(err error) *claim.StoreError {
	if invalid(err) || gone(err) {
		l.mu.Lock()
		l.stale = true
		l.mu.Unlock()
	}
	return storeError(err)
}

// invalid reports whether Notion refused a request's content, so that somebody may have changed the
// database.
func invalid(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.Code == codeValidation
}

// current returns the database's layout, read again if it may have changed: by one caller, for
// whom the others wait, each for as long as its context lasts.
func (l *Log) current(ctx context.Context) (logLayout, error) {
	if known, ok := l.known(); ok {
		return known, nil
	}
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
		return logLayout{}, context.Cause(ctx)
	}
	if known, ok := l.known(); ok {
		return known, nil
	}
	db, err := l.client.Database(ctx, string(l.id))
	if err != nil {
		return logLayout{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.layout, l.stale = l.client.layout(db), false
	return l.layout, nil
}

// known returns the layout; ok is false if it may have changed.
func (l *Log) known() (_ logLayout, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used, _ := l.client.sources.of(l.id)
	return l.layout, !l.stale && used.Source == l.layout.source
}

// logLayout maps the fields of an entry to the properties of a log database. A field goes into a
// property that has one of its names and can store the value. Case, spaces, "_" and "-" in names do
// not matter. A field without a property becomes a line of the page's text.
type logLayout struct {
	title   Column
	entryID Column            // without an id if the database has none
	columns map[string]Column // the others, by folded name
	source  task.ID           // the log's own
	tasks   task.ID           // the data source to which a relation must relate
}

func newLayout(db Database, tasks task.ID) logLayout {
	l := logLayout{columns: make(map[string]Column), source: db.Source, tasks: tasks}
	// Of several properties whose folded names are equal, the first is used.
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		col, folded := db.Columns[name], fold(name)
		switch _, taken := l.columns[folded]; {
		case col.Type == typeTitle:
			l.title = col
		case folded == fold(wording.EntryID) && col.Type == typeRichText && l.entryID.ID == "":
			l.entryID = col
		case !taken:
			l.columns[folded] = col
		}
	}
	return l
}

// page converts an entry to a page. Without a property for entry ids, the title ends in the id.
func (l logLayout) page(e wording.Entry) *notionapi.PageCreateRequest {
	texts := new(spanWriter)
	title := e.Title
	props := make(notionapi.Properties)
	if l.entryID.ID != "" {
		props[l.entryID.ID] = value{notionapi.PropertyTypeRichText, texts.write(e.ID)}
	} else {
		suffix := " [" + e.ID + "]"
		title = title[:prefix(title, spanLimit-len(suffix))] + suffix
	}
	props[l.title.ID] = value{notionapi.PropertyTypeTitle, texts.write(title)}

	in := l.fill(e, props, texts)
	var lines []string
	for i, f := range e.Fields {
		if in[i].ID == "" && !l.needless(f) {
			lines = append(lines, f.Name+": "+asText(f.Value))
		}
	}
	request := &notionapi.PageCreateRequest{Properties: props}
	if len(lines) > 0 {
		request.Children = []notionapi.Block{paragraph(texts.write(strings.Join(lines, "\n")))}
	}
	return request
}

// needless reports whether a field needs no property: it is empty, or is the id, which has its own.
func (l logLayout) needless(f wording.Field) bool {
	return asText(f.Value) == "" || f.Name == wording.EntryID && l.entryID.ID != ""
}

// fill puts the fields of an entry into properties. It returns the property of each field, without an
// id for a field that has no property.
func (l logLayout) fill(e wording.Entry, props notionapi.Properties, texts *spanWriter) []Column {
	in := make([]Column, len(e.Fields))
	place := func(i int, names ...string) {
		for _, name := range names {
			col := l.columns[fold(name)]
			if in[i].ID != "" || col.ID == "" || props[col.ID] != nil || l.needless(e.Fields[i]) {
				continue
			}
			if content, ok := l.content(col, e.Fields[i].Value, texts); ok {
				in[i] = col
				props[col.ID] = value{notionapi.PropertyType(col.Type), content}
			}
		}
	}
	for i, f := range e.Fields {
		place(i, f.Name)
	}
	for i, f := range e.Fields {
		place(i, f.Aliases...)
		if isPage(f.Value) { // a "task_id" may fill a relation "task", beside a text
			l.relate(f, &in[i], props)
		}
	}
	return in
}

// relate puts the page of a field such as "task_id" into a relation of the name without "id", if
// there is one. in is the field's property so far.
func (l logLayout) relate(f wording.Field, in *Column, props notionapi.Properties) {
	col := l.columns[strings.TrimSuffix(fold(f.Name), "id")]
	if col.Type != typeRelation || props[col.ID] != nil {
		return
	}
	if content, ok := l.content(col, f.Value, nil); ok {
		props[col.ID] = value{notionapi.PropertyTypeRelation, content}
		if in.ID == "" {
			*in = col
		}
	}
}

// ExamineLog says how the properties of a log fit each field of an entry. A field without a property
// goes into the page's text. tasks is the data source of the tasks, to which a relation must relate.
func (db Database) ExamineLog(e wording.Entry, tasks task.ID) []Fit {
	l := newLayout(db, tasks)
	fits := make([]Fit, len(e.Fields))
	for i, col := range l.fill(e, make(notionapi.Properties), new(spanWriter)) {
		f := Fit{Key: e.Fields[i].Name, Name: col.Name, Found: col.Type}
		switch other, similar := db.Similar(f.Key); {
		case f.Key == wording.EntryID && l.entryID.ID != "":
			f.Name, f.Found = l.entryID.Name, l.entryID.Type
		case col.ID == "" && similar:
			f.Grade, f.Remedy = Poor, "change its type, or rename it"
			f.Problem = fmt.Sprintf("property %q is of type %s, which cannot hold %s: it goes into the text of the page", other.Name, cmp.Or(other.Type, "unknown"), f.Key)
		case col.ID == "":
			f.Grade = Spare
		}
		fits[i] = f
	}
	return fits
}

func paragraph(spans []notionapi.RichText) notionapi.Block {
	return &notionapi.ParagraphBlock{
		BasicBlock: notionapi.BasicBlock{Object: notionapi.ObjectTypeBlock, Type: notionapi.BlockTypeParagraph},
		Paragraph:  notionapi.Paragraph{RichText: spans},
	}
}

// asText returns a value as text; empty if there is nothing to say.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return stamp(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// isPage reports whether a value is the id of a page.
func isPage(v any) bool {
	s, ok := v.(string)
	_, err := task.ParseID(s)
	return ok && err == nil
}

// content returns a property's value without its type. ok is false if the property cannot store it.
func (l logLayout) content(col Column, v any, texts *spanWriter) (content any, ok bool) {
	text := asText(v)
	switch notionapi.PropertyType(col.Type) {
	case notionapi.PropertyTypeRichText:
		return texts.write(text), true
	case notionapi.PropertyTypeSelect:
		name := optionName(text)
		_, isString := v.(string)
		return named{name}, isString && fits(name, optionLimit)
	case notionapi.PropertyTypeMultiSelect:
		return optionsOf(v)
	case notionapi.PropertyTypeStatus: // a status cannot get new options this way
		i := slices.IndexFunc(col.Options, func(name string) bool { return strings.EqualFold(name, text) })
		if i >= 0 {
			return named{col.Options[i]}, true
		}
	case notionapi.PropertyTypeDate:
		if t, ok := v.(time.Time); ok {
			return rawDate{Start: stamp(t)}, true
		}
	case notionapi.PropertyTypeNumber:
		switch n := v.(type) {
		case int:
			return n, true
		case float64:
			return n, !math.IsNaN(n) && !math.IsInf(n, 0)
		}
	case notionapi.PropertyTypeCheckbox:
		b, ok := v.(bool)
		return b, ok
	case notionapi.PropertyTypeURL:
		u, err := url.Parse(text)
		return text, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && fits(text, spanLimit)
	case notionapi.PropertyTypeRelation:
		if isPage(v) && col.Source != "" && col.Source == l.tasks {
			return []pageRef{{text}}, true
		}
	}
	return nil, false
}

// The limits of options.
const (
	optionLimit  = 100 // UTF-16 code units in a name
	optionsLimit = 100 // options in a value
)

// optionsOf splits a text into options, at commas or semicolons.
func optionsOf(v any) (any, bool) {
	s, ok := v.(string)
	var options []named
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if name := optionName(part); name != "" && !slices.Contains(options, named{name}) {
			options = append(options, named{name})
			ok = ok && fits(name, optionLimit)
		}
	}
	return options, ok && len(options) > 0 && len(options) <= optionsLimit
}

// optionName puts s into one line without commas, which Notion refuses in a name.
func optionName(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), ",", ";")
}

// find returns the filter for an entry, in every form in which it may have been made: the property
// for entry ids may have been added or removed since.
func (l logLayout) find(e wording.Entry) notionapi.Filter {
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
func (l logLayout) alike(e wording.Entry) notionapi.Filter {
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
		switch text, isText := f.Value.(string); {
		case col.ID == "":
		case isText && col.Type == typeRichText && (f.Name == "claim_id" || f.Name == "task_id") && fits(text, spanLimit):
			all = append(all, notionapi.PropertyFilter{Property: col.ID, RichText: &notionapi.TextFilterCondition{Equals: text}})
		case f.Value == e.At && notionapi.PropertyType(col.Type) == notionapi.PropertyTypeDate: // cut to the minute
			all = append(all,
				notionapi.PropertyFilter{Property: col.ID, Date: &notionapi.DateFilterCondition{OnOrAfter: dateOf(minute)}},
				notionapi.PropertyFilter{Property: col.ID, Date: &notionapi.DateFilterCondition{Before: dateOf(minute.Add(time.Minute))}})
		}
	}
	return all
}

func (l logLayout) titled(condition notionapi.TextFilterCondition) notionapi.Filter {
	return titleFilter{Property: l.title.ID, Title: condition}
}

// titleFilter is a filter that the library lacks.
type titleFilter struct {
	notionapi.Filter `json:"-"`

	Property string                        `json:"property"`
	Title    notionapi.TextFilterCondition `json:"title"`
}

func dateOf(t time.Time) *notionapi.Date { return new(notionapi.Date(t)) }

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
func (l logLayout) messagePlaces() map[string]Column {
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
func (l logLayout) row(page *rawPage, places map[string]Column) (row wording.Row, ok bool) {
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
