package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Plan is a draft converted for the database, see Tasks.Plan.
type Plan struct {
	tasks *Tasks
	codec *codec
	title string
	body  string
	props notionapi.Properties
	// dependsOn are the dependencies; an answer may show only some.
	dependsOn []task.ID
}

// Plan converts a draft by the database's known schema. If that lacks something the draft names,
// Plan reads the schema again first, with one request; l may send others. The error is a
// *task.DraftError if the database lacks what the draft names, or cannot store it; otherwise a
// *claim.StoreError, or l's own.
func (t *Tasks) Plan(ctx context.Context, d task.Draft, l creation.Lookup) (creation.Plan, error) {
	fresh := false
	if t.all.Load() == nil || t.mayHaveChanged() {
		if err := t.Check(ctx); err != nil {
			return nil, storeError(err)
		}
		fresh = true
	}
	for {
		p, err := t.plan(ctx, d, l)
		_, isWrong := errors.AsType[*task.DraftError](err)
		if fresh || !isWrong {
			return p, err
		}
		// Somebody may have added what is missing.
		if err := t.Check(ctx); err != nil {
			return nil, storeError(err)
		}
		fresh = true
	}
}

// drafting is a plan being made.
type drafting struct {
	*Plan
	creation.Lookup
	columns map[string]Column
	texts   spanWriter
}

func (t *Tasks) plan(ctx context.Context, d task.Draft, l creation.Lookup) (*Plan, error) {
	c := t.codec.Load()
	p := &drafting{Plan: &Plan{tasks: t, codec: c, title: d.Title, body: d.Body, dependsOn: d.DependsOn}, Lookup: l, columns: *t.all.Load()}
	d = p.inScope(d)
	props, err := c.properties(claim.Write{Status: new(task.Open), ClaimedBy: &d.For}, basis{})
	if err != nil {
		return nil, &task.DraftError{Detail: err.Error()}
	}
	if d.For == "" {
		delete(props, c.columns.claimedBy.ID)
	}
	p.props = props
	if strings.TrimSpace(d.Title) == "" {
		return nil, &task.DraftError{Detail: "a task needs a title"}
	}
	if !fits(d.Title, spanLimit) {
		return nil, &task.DraftError{Detail: fmt.Sprintf("the title is too long: want at most %d characters; the rest goes into the body", spanLimit)}
	}
	if encoded, err := json.Marshal(d.Body); err != nil || len(encoded) > sizeLimit {
		return nil, &task.DraftError{Detail: fmt.Sprintf("the body is too long: Notion takes %d KB with a page: give the first part, and add the rest in Notion", sizeLimit/1000)}
	}
	props[c.columns.title.ID] = value{notionapi.PropertyTypeTitle, p.texts.write(d.Title)}
	if err := p.priority(d.Priority); err != nil {
		return nil, err
	}
	if err := p.relate(d.DependsOn); err != nil {
		return nil, err
	}
	for _, f := range d.Fields {
		if err := p.field(ctx, f); err != nil {
			return nil, err
		}
	}
	return p.Plan, nil
}

// priority writes the priority of that name, ours or the database's.
func (p *drafting) priority(name string) error {
	col := p.codec.columns.priority
	if name = strings.TrimSpace(name); name == "" {
		return nil
	}
	if col.ID == "" {
		return &task.DraftError{Detail: "the tasks database has no property for priorities: leave the priority out, or add one and name it in tasks.properties.priority"}
	}
	word, err := p.tasks.words.Priority(name)
	if col.Type == typeRichText {
		p.props[col.ID] = value{notionapi.PropertyTypeRichText, p.texts.write(cmp.Or(word.Name, name))}
		return nil
	}
	switch none := (task.PriorityWord{Rank: task.None}); {
	case err == nil && word == none: // a new page has no priority
	case err != nil || !slices.Contains(col.Options, word.Name):
		return &task.DraftError{Detail: fmt.Sprintf("there is no priority %q: there is %s", name, quotedList(col.Options))}
	default:
		p.props[col.ID] = option(notionapi.PropertyType(col.Type), col.inNotion(word.Name))
	}
	return nil
}

func (p *drafting) relate(ids []task.ID) error {
	if len(ids) == 0 {
		return nil
	}
	col := p.codec.columns.dependsOn
	if col.ID == "" {
		return &task.DraftError{Detail: "the tasks database has no property for what a task depends on: leave it out, or add a relation and name it in tasks.properties.depends_on"}
	}
	refs, err := refsTo(ids)
	if err == nil {
		p.props[col.ID] = value{notionapi.PropertyTypeRelation, refs}
	}
	return err
}

// relationLimit is how many pages a request can put into a relation.
const relationLimit = 100

func refsTo(ids []task.ID) ([]pageRef, error) {
	var refs []pageRef
	for _, id := range ids {
		if ref := (pageRef{string(id)}); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if len(refs) > relationLimit {
		return nil, &task.DraftError{Detail: fmt.Sprintf("a relation to %d pages: Notion takes at most %d", len(refs), relationLimit)}
	}
	return refs, nil
}

// column finds a field's property.
func (p *drafting) column(name string) (Column, error) {
	name = task.Name(name)
	col, ok := p.columns[name]
	if !ok {
		col, ok = Database{Columns: p.columns}.Similar(name)
	}
	if !ok {
		var there []string
		for _, name := range slices.Sorted(maps.Keys(p.columns)) {
			if other := p.columns[name]; writable[other.Type] != nil && p.instead(other) == "" {
				there = append(there, name)
			}
		}
		has := "none that can be written"
		if len(there) > 0 {
			has = quotedList(there)
		}
		return Column{}, &task.DraftError{Detail: fmt.Sprintf("the tasks database has no property %q: it has %s", name, has)}
	}
	if how := p.instead(col); how != "" {
		return Column{}, &task.DraftError{Detail: fmt.Sprintf("property %q is no field: %s", col.Name, how)}
	}
	if _, twice := p.props[col.ID]; twice {
		return Column{}, &task.DraftError{Detail: fmt.Sprintf("property %q is given twice: give it once", col.Name)}
	}
	return col, nil
}

// instead says how to set a property of the protocol; empty for any other.
func (p *drafting) instead(col Column) string {
	c := p.codec.columns
	switch col.ID {
	case c.title.ID:
		return "it is the title"
	case c.status.ID:
		return "a new task is OPEN"
	case c.claimedBy.ID, c.claimedAt.ID, c.token.ID:
		return "claims are written there; to assign the task, say for which agent it is"
	case c.assignee.ID:
		return "dibs assigns nobody; to leave the task to an agent, say for which agent it is"
	case c.done.ID:
		return "a new task is not done"
	case c.priority.ID:
		return "give the priority as such"
	case c.dependsOn.ID:
		return "say what the task depends on as such"
	}
	return ""
}

// inScope gives a draft the values that the scope asks for, except those of the protocol's own
// properties, and those that the draft sets otherwise.
func (p *drafting) inScope(d task.Draft) task.Draft {
	d.Fields = slices.Clone(d.Fields)
	for _, want := range p.codec.scope {
		i := slices.IndexFunc(p.codec.columns.fields, func(f field) bool { return f.Name == want.Field })
		if want.Value == "" || i < 0 {
			continue
		}
		col := p.codec.columns.fields[i].Column
		given := slices.ContainsFunc(d.Fields, func(f task.Field) bool {
			of, err := p.column(f.Name)
			return err == nil && of.ID == col.ID
		})
		switch {
		case col.ID == p.codec.columns.priority.ID && d.Priority == "":
			d.Priority = want.Value
		case !given && p.instead(col) == "" && writable[col.Type] != nil:
			d.Fields = append(d.Fields, task.Field{Name: col.Name, Values: []string{want.Value}})
		}
	}
	return d
}

func (p *drafting) field(ctx context.Context, f task.Field) error {
	col, err := p.column(f.Name)
	if err != nil {
		return err
	}
	write := writable[col.Type]
	if write == nil {
		return &task.DraftError{Detail: fmt.Sprintf("property %q is of type %s, which cannot be written: leave it out", col.Name, cmp.Or(col.Type, "unknown"))}
	}
	if len(f.Values) == 0 || len(f.Values) == 1 && strings.TrimSpace(f.Values[0]) == "" {
		return nil // it is empty without
	}
	if len(f.Values) > 1 && !takesSeveral[col.Type] {
		return &task.DraftError{Detail: fmt.Sprintf("property %q is of type %s, which takes one value, not %d", col.Name, col.Type, len(f.Values))}
	}
	content, err := write(p, ctx, col, f.Values)
	if err != nil {
		return err
	}
	p.props[col.ID] = value{notionapi.PropertyType(col.Type), content}
	return nil
}

// takesSeveral are the types of properties that take several values.
var takesSeveral = map[string]bool{
	string(notionapi.PropertyTypeMultiSelect): true, typePeople: true, typeRelation: true,
}

// writable maps the types of properties that a field can have to functions that convert its texts
// for Notion. There is at least one text, and only one unless the type is in several.
var writable map[string]func(p *drafting, ctx context.Context, col Column, values []string) (any, error)

func init() { // an initializer would be circular
	writable = map[string]func(*drafting, context.Context, Column, []string) (any, error){
		typeRichText: (*drafting).richText,
		typeNumber:   single(numberOf),
		typeSelect:   (*drafting).selected,
		typeStatus:   (*drafting).selected,
		typeDate:     single(dateOfText),
		typePeople:   (*drafting).people,
		typeRelation: (*drafting).related,
		string(notionapi.PropertyTypeMultiSelect): (*drafting).selectedMany,
		string(notionapi.PropertyTypeCheckbox):    single(checkboxOf),
		string(notionapi.PropertyTypeURL):         single(urlOf),
		string(notionapi.PropertyTypeEmail):       single(emailOf),
		string(notionapi.PropertyTypePhoneNumber): single(phoneOf),
	}
}

// single converts a single value that needs no context.
func single(parse func(string) (any, string)) func(*drafting, context.Context, Column, []string) (any, error) {
	return func(_ *drafting, _ context.Context, col Column, values []string) (any, error) {
		content, want := parse(strings.TrimSpace(values[0]))
		if want != "" {
			return nil, wrong(col, values[0], want)
		}
		return content, nil
	}
}

func wrong(col Column, given, want string) error {
	return &task.DraftError{Detail: fmt.Sprintf("property %q is of type %s, and %q is none: want %s", col.Name, col.Type, given, want)}
}

func (p *drafting) richText(_ context.Context, col Column, values []string) (any, error) {
	if !fits(values[0], spanLimit*spansLimit/2) {
		return nil, &task.DraftError{Detail: fmt.Sprintf("the text for property %q is too long: put it into the body", col.Name)}
	}
	return p.texts.write(values[0]), nil
}

func numberOf(s string) (any, string) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, "a number such as 3 or 0.5"
	}
	return n, ""
}

func checkboxOf(s string) (any, string) {
	switch strings.ToLower(s) {
	case "true", "yes":
		return true, ""
	case "false", "no":
		return false, ""
	}
	return nil, "true or false"
}

func urlOf(s string) (any, string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || !fits(s, spanLimit) {
		return nil, "a URL such as https://example.com"
	}
	return s, ""
}

func emailOf(s string) (any, string) {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || !fits(s, 200) {
		return nil, "an address such as ada@example.com"
	}
	return s, ""
}

func phoneOf(s string) (any, string) {
	if !fits(s, 200) {
		return nil, "at most 200 characters"
	}
	return s, ""
}

// dateSpan is a date property's value: a day or a moment, or from one to another.
type dateSpan struct {
	Start string `json:"start"`
	End   string `json:"end,omitempty"`
}

func dateOfText(s string) (any, string) {
	const want = "a day such as 2026-11-30, a time such as 2026-11-30T14:30:00+01:00, or two of a kind with / between them"
	first, last, ranged := strings.Cut(s, "/")
	start, startIsDay, ok := dateText(first)
	if !ok {
		return nil, want
	}
	if !ranged {
		return dateSpan{Start: start}, ""
	}
	end, endIsDay, ok := dateText(last)
	if !ok || endIsDay != startIsDay {
		return nil, want
	}
	return dateSpan{start, end}, ""
}

// dateText returns a day, or a moment with its offset, in Notion's form.
func dateText(s string) (out string, day, ok bool) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(time.DateOnly), true, true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.Format("2006-01-02T15:04:05.000-07:00"), false, err == nil
}

// option finds the option of that name, ignoring case.
func (p *drafting) option(col Column, name string) (named, error) {
	name = task.Name(strings.TrimSpace(name))
	if slices.Contains(col.Options, name) {
		return named{col.inNotion(name)}, nil
	}
	i := slices.IndexFunc(col.Options, func(o string) bool { return strings.EqualFold(o, name) })
	if i >= 0 {
		return named{col.inNotion(col.Options[i])}, nil
	}
	has := "it has none"
	if len(col.Options) > 0 {
		has = "there is " + quotedList(col.Options)
	}
	return named{}, &task.DraftError{Detail: fmt.Sprintf("property %q has no option %q: %s", col.Name, name, has)}
}

func (p *drafting) selected(_ context.Context, col Column, values []string) (any, error) {
	return p.option(col, values[0])
}

func (p *drafting) selectedMany(_ context.Context, col Column, values []string) (any, error) {
	options := []named{}
	for _, name := range splitValues(values) {
		o, err := p.option(col, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(options, o) {
			options = append(options, o)
		}
	}
	return options, nil
}

// splitValues splits a single text at its commas.
func splitValues(values []string) []string {
	if len(values) > 1 {
		return values
	}
	var list []string
	for part := range strings.SplitSeq(values[0], ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func (p *drafting) people(ctx context.Context, _ Column, values []string) (any, error) {
	people := []pageRef{}
	for _, who := range splitValues(values) {
		id, err := p.Person(ctx, who)
		if err != nil {
			return nil, err
		}
		if ref := (pageRef{id}); !slices.Contains(people, ref) {
			people = append(people, ref)
		}
	}
	return people, nil
}

// related returns the pages for a relation: tasks by any name, pages of other databases by id, URL
// or known title.
func (p *drafting) related(ctx context.Context, col Column, values []string) (any, error) {
	var ids []task.ID
	for _, name := range splitValues(values) {
		if col.Source == p.codec.source {
			id, err := p.Named(ctx, name)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
			continue
		}
		id, err := task.ParseTaskID(name)
		if titled := p.tasks.pagesTitled(name); err != nil && len(titled) == 1 {
			id, err = titled[0], nil
		}
		if err != nil {
			return nil, wrong(col, name, "the id or the URL of a page, or a title that tasks show and one page has")
		}
		ids = append(ids, id)
	}
	return refsTo(ids)
}

// newPrefix begins the claim token of a new task that nobody has claimed yet. No claim's token
// begins so.
const newPrefix = "new "

// Create makes the page of a plan, with one request. The request is repeated only if Notion asked
// for a pause of a few seconds. If ctx ends before it is sent, nothing is made. The first plan with
// a body needs another request first, which reads the data source. A page that Notion made but
// could not show is read. Find finds the page by id. The error is a *claim.StoreError.
func (p *Plan) Create(ctx context.Context, id string) (claim.Reading, error) {
	t := p.tasks
	p.props[p.codec.columns.token.ID] = text(newPrefix + id)
	page, at, err := p.send(transport.Making(Impatient(ctx)))
	if err != nil {
		failed := t.noted(err)
		if answered, ok := errors.AsType[*APIError](err); ok {
			if made, perr := task.ParseID(answered.Data("committed_resource_id")); perr == nil {
				if read, rerr := t.Get(context.WithoutCancel(ctx), made); rerr == nil {
					return read, nil
				}
			}
		}
		return claim.Reading{}, failed
	}
	t.client.writing(task.ID(page.ID))
	made, err := t.read(p.codec, page)
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = p.codec.whole(page, &made, func(of relationKey, shown []task.ID) ([]task.ID, error) {
		if of.property == p.codec.columns.dependsOn.ID {
			return p.dependsOn, nil
		}
		return shown, nil
	})
	return reading(made, at), err
}

// send makes the page. The library cannot send Markdown.
func (p *Plan) send(ctx context.Context) (*rawPage, transport.Moment, error) {
	if p.body == "" {
		return p.tasks.client.createPage(ctx, p.codec.source, &notionapi.PageCreateRequest{Properties: p.props})
	}
	made := new(rawPage)
	at, err := p.tasks.client.ask(ctx, http.MethodPost, "/v1/pages", nil, map[string]any{
		"parent": inSource(string(p.codec.source)), "properties": p.props, "markdown": p.body,
	}, made)
	return made, at, err
}

// newSince is how much too early a page's time of creation may seem: Notion cuts it to the minute,
// and ours is an estimate.
const newSince = 2 * time.Minute

// Find returns the page that was made under an id, as a query shows it, which may be out of date. A
// page loses the id when somebody claims the task. So if no page has the id, Find returns the pages
// with that title which the connection made since then, without those that have another such id. It
// takes one query, and, the first time that a page lacks the id, one more request.
func (t *Tasks) Find(ctx context.Context, s creation.Sought) ([]claim.Reading, error) {
	c := t.codec.Load()
	same := notionapi.TextFilterCondition{Equals: s.Title}
	if !fits(s.Title, spanLimit) || s.Title != strings.TrimSpace(s.Title) {
		same = notionapi.TextFilterCondition{StartsWith: strings.TrimSpace(s.Title[:prefix(s.Title, spanLimit/20)])}
	}
	answer, at, err := t.client.query(ctx, c.source, &notionapi.DatabaseQueryRequest{
		Filter: notionapi.AndCompoundFilter{
			titleFilter{Property: c.columns.title.ID, Title: same},
			notionapi.TimestampFilter{Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: dateOf(s.Since.Add(-newSince).UTC().Truncate(time.Minute))}},
		},
		PageSize: pageSize,
	}, c.used()...)
	if err != nil {
		return nil, t.noted(err)
	}
	var near []claim.Reading
	for i := range answer.Results {
		page := &answer.Results[i]
		made, err := t.read(c, page)
		if err != nil {
			return nil, t.noted(err)
		}
		sure := made.Token == newPrefix+s.ID
		if !sure {
			if strings.HasPrefix(made.Token, newPrefix) || made.Title != shortened(s.Title) {
				continue
			}
			if bot, err := t.client.Bot(ctx); err != nil || string(page.CreatedBy) != bot {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if made, err = t.row(ctx, c, page); err != nil {
			return nil, t.noted(err)
		}
		if sure {
			return []claim.Reading{reading(made, at)}, nil
		}
		near = append(near, reading(made, at))
	}
	return near, nil
}
