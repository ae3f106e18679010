package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/internal/claim"
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
	props, err := c.properties(claim.Write{Status: new(task.Open), ClaimedBy: &d.For}, shown{})
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
	if said, err := json.Marshal(d.Body); err != nil || len(said) > sizeLimit {
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
	if len(f.Values) > 1 && !several[col.Type] {
		return &task.DraftError{Detail: fmt.Sprintf("property %q is of type %s, which takes one value, not %d", col.Name, col.Type, len(f.Values))}
	}
	content, err := write(p, ctx, col, f.Values)
	if err != nil {
		return err
	}
	p.props[col.ID] = value{notionapi.PropertyType(col.Type), content}
	return nil
}
