package notion

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// longestTimeout is the longest lease of a task. A longer one is taken for a mistake.
const longestTimeout = 365 * 24 * time.Hour

// codec converts pages to tasks, and changes of tasks to properties.
type codec struct {
	database task.ID
	columns  taskColumns // the properties that pages have
	known    taskColumns // the properties that pages should have, lost ones included
	warnings []string    // about the columns

	statuses map[string]task.Status // by their names in the database
	names    map[task.Status]string // their names in the database
	words    task.Vocabulary
	users    map[string]string // the ids of the agents' Notion users
	agents   map[string]string // the reverse, by canonical id

	scope  []task.Condition // that tasks for agents meet
	hidden []string         // the fields that only the scope needs
}

func newCodec(database task.ID, s TaskSchema, columns taskColumns) (*codec, error) {
	c := &codec{
		database: database,
		columns:  columns,
		known:    columns,
		statuses: make(map[string]task.Status),
		names:    make(map[task.Status]string),
		users:    make(map[string]string),
		agents:   make(map[string]string),
		scope:    s.Only,
	}
	for _, f := range s.fields()[len(s.Fields):] {
		c.hidden = append(c.hidden, f.Name)
	}
	for _, status := range s.statuses() {
		name := s.statusName(status)
		// Follow a renamed option, for the claims that are held.
		c.names[status], _ = columns.status.nowNamed(name)
		c.statuses[c.names[status]] = status
	}
	c.words = task.Vocabulary{Statuses: c.names, Priorities: s.Priorities, Options: columns.priority.Options}
	for agent, user := range s.NotionUsers {
		id, err := task.ParseID(user)
		if err != nil {
			return nil, claim.Errorf(claim.Refused, claim.LandedNo, "the Notion user of agent %q: %q is not a user id", agent, user)
		}
		c.users[agent] = string(id)
		c.agents[string(id)] = agent
	}
	return c, nil
}

// used lists the ids of the properties that task reads.
func (c *codec) used() []string {
	var ids []string
	for _, col := range c.columns.inUse() {
		ids = append(ids, col.ID)
	}
	if c.columns.key.ID != "" {
		ids = append(ids, c.columns.key.ID)
	}
	for _, f := range c.columns.fields {
		if f.Column.ID != "" && !slices.Contains(ids, f.Column.ID) { // the title is read already
			ids = append(ids, f.Column.ID)
		}
	}
	return ids
}

// inUse lists the properties that the database has and every page must have.
func (c *taskColumns) inUse() []Column {
	return slices.DeleteFunc([]Column{
		c.title, c.status, c.claimedBy, c.claimedAt, c.timeout, c.token, c.priority, c.dependsOn, c.note, c.assignee, c.done, c.subItems, c.doneWhen,
	}, func(col Column) bool { return col.ID == "" })
}

// task converts a page. Its relations may be incomplete: they are those that the page shows.
func (c *codec) task(page *notionapi.Page) (task.Task, error) {
	id, err := task.ParseID(page.ID.String())
	if err != nil {
		return task.Task{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion's answer is not a page: %w", err)
	}
	if parent, err := task.ParseID(page.Parent.DatabaseID.String()); err != nil || parent != c.database {
		return task.Task{}, claim.Errorf(claim.NotFound, claim.LandedUnknown, "%w", &foreignError{id, lies(page.Parent)})
	}
	byID := make(map[string]notionapi.Property, len(page.Properties))
	for _, p := range page.Properties {
		byID[p.GetID()] = p
	}
	// A page that lost a property must not look like a free task, or like one without dependencies.
	for _, col := range c.columns.inUse() {
		if p, ok := byID[col.ID]; col.ID != c.columns.note.ID && col.ID != c.columns.doneWhen.ID && (!ok || string(p.GetType()) != col.Type) {
			return task.Task{}, claim.Errorf(claim.Refused, claim.LandedUnknown, "page %s: %w", id, &lostError{col})
		}
	}
	t := task.Task{
		ID:        id,
		Key:       keyOf(byID[c.columns.key.ID]),
		Title:     shortened(task.Plain(plainText(byID[c.columns.title.ID]))),
		URL:       shortened(page.URL),
		Status:    task.Unknown,
		Priority:  task.None,
		ClaimedBy: shortened(c.holder(byID[c.columns.claimedBy.ID])),
		ClaimedAt: moment(byID[c.columns.claimedAt.ID]),
		Token:     shortened(strings.TrimSpace(plainText(byID[c.columns.token.ID]))),
		DependsOn: related(byID[c.columns.dependsOn.ID]),
		SubItems:  related(byID[c.columns.subItems.ID]),
		Note:      shortened(task.Plain(plainText(byID[c.columns.note.ID]))),
		DoneWhen:  shortened(task.Plain(plainText(byID[c.columns.doneWhen.ID]))),
		Created:   page.CreatedTime.UTC(),
		Edited:    page.LastEditedTime.UTC(),
		EditedBy:  unique.Make(page.LastEditedBy.ID.String()).Value(), // few users edit many pages
		Trashed:   page.Archived,
	}
	t.Assignee, t.AssigneeIsAgent = c.assignee(byID[c.columns.assignee.ID])
	t.Timeout, t.OddTimeout = lease(byID[c.columns.timeout.ID])
	if status, ok := c.statuses[plainText(byID[c.columns.status.ID])]; ok {
		t.Status = status
	}
	if ticked(byID[c.columns.done.ID]) {
		t.Status = task.Completed
	}
	if name := shortened(strings.TrimSpace(plainText(byID[c.columns.priority.ID]))); name != "" {
		t.Priority, t.PriorityName = c.words.Rank(name), unique.Make(name).Value() // few names are on many pages
	}
	return t, nil
}

// newStatus reports whether a page has a status option that is not in the last schema.
func (c *codec) newStatus(page *notionapi.Page) bool {
	for _, p := range page.Properties {
		if p.GetID() != c.columns.status.ID {
			continue
		}
		name := plainText(p)
		return name != "" && !slices.Contains(c.columns.status.Options, name)
	}
	return false
}

// holder reads claimed_by.
func (c *codec) holder(p notionapi.Property) string {
	people, ok := p.(*notionapi.PeopleProperty)
	if !ok {
		return strings.TrimSpace(plainText(p))
	}
	var names []string
	for _, user := range people.People {
		names = append(names, c.userName(user))
	}
	return strings.Join(names, ", ")
}

// assignee reads the column of assignees. isAgent says that it has one user, who stands for the
// agent of that name.
func (c *codec) assignee(p notionapi.Property) (name string, isAgent bool) {
	people, ok := p.(*notionapi.PeopleProperty)
	if !ok || len(people.People) == 0 {
		return "", false
	}
	return shortened(c.holder(p)), len(people.People) == 1 && c.agentOf(people.People[0]) != ""
}

// agentOf returns the agent that a Notion user stands for; empty if none.
func (c *codec) agentOf(user notionapi.User) string {
	id, err := task.ParseID(user.ID.String())
	if err != nil {
		return ""
	}
	return c.agents[string(id)]
}

// userName returns the agent that a Notion user stands for, or else the user's own name, or, if
// Notion does not give the name, the user's id.
func (c *codec) userName(user notionapi.User) string {
	if agent := c.agentOf(user); agent != "" {
		return agent
	}
	if name := strings.TrimSpace(user.Name); name != "" {
		return name
	}
	return user.ID.String()
}

// properties converts a change to a page's properties, without its note. It skips properties that
// the database never had. If the database has lost one that identifies a claim, it returns an error.
func (c *codec) properties(w claim.Write, on shown) (notionapi.Properties, error) {
	for _, set := range []struct {
		is         bool
		known, now Column
	}{
		{w.Status != nil, c.known.status, c.columns.status},
		{w.ClaimedBy != nil, c.known.claimedBy, c.columns.claimedBy},
		{w.ClaimedAt != nil, c.known.claimedAt, c.columns.claimedAt},
		{w.Token != nil, c.known.token, c.columns.token},
	} {
		if set.is && set.known.ID != "" && set.now.ID == "" {
			return nil, &lostError{set.known}
		}
	}
	props := make(notionapi.Properties)
	if w.Status != nil {
		name, ok := c.names[*w.Status]
		if !ok {
			return nil, fmt.Errorf("%q is not a status that a task can be given", *w.Status)
		}
		col := c.columns.status
		props[col.ID] = option(notionapi.PropertyType(col.Type), name)
		if done := *w.Status == task.Completed; c.columns.done.ID != "" && (done || on.ticked) {
			props[c.columns.done.ID] = value{notionapi.PropertyTypeCheckbox, done}
		}
	}
	if w.ClaimedBy != nil {
		by, err := c.claimedBy(*w.ClaimedBy, on)
		if err != nil {
			return nil, err
		}
		props[c.columns.claimedBy.ID] = by
	}
	if w.ClaimedAt != nil {
		props[c.columns.claimedAt.ID] = date(*w.ClaimedAt)
	}
	if w.Token != nil && c.columns.token.ID != "" {
		props[c.columns.token.ID] = text(*w.Token)
	}
	if w.Timeout != nil && c.columns.timeout.ID != "" {
		props[c.columns.timeout.ID] = minutes(*w.Timeout)
	}
	return props, nil
}

func (c *codec) claimedBy(agent string, on shown) (notionapi.Property, error) {
	switch c.columns.claimedBy.Type {
	case typeSelect:
		if strings.Contains(agent, ",") {
			return nil, fmt.Errorf("agent %q: Notion takes no comma in a select option: use another name, or make property %q a text",
				agent, c.columns.claimedBy.Name)
		}
		return option(notionapi.PropertyTypeSelect, agent), nil
	case typePeople:
		if agent != "" && agent == on.holder {
			return value{notionapi.PropertyTypePeople, on.users}, nil
		}
		people := []pageRef{}
		if agent != "" {
			user, ok := c.users[agent]
			if !ok {
				return nil, fmt.Errorf("agent %q: no Notion user stands for it, and property %q takes users only: name one in agents[].notion_user, or make %[2]q a text",
					agent, c.columns.claimedBy.Name)
			}
			people = append(people, pageRef{user})
		}
		return value{notionapi.PropertyTypePeople, people}, nil
	default:
		return text(agent), nil
	}
}

// plainText returns the text of a title or a text, or the name of an option.
func plainText(p notionapi.Property) string {
	var spans []notionapi.RichText
	switch p := p.(type) {
	case *notionapi.TitleProperty:
		spans = p.Title
	case *notionapi.RichTextProperty:
		spans = p.RichText
	case *notionapi.SelectProperty:
		return p.Select.Name
	case *notionapi.StatusProperty:
		return p.Status.Name
	}
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.PlainText)
	}
	return b.String()
}

// shortened cuts a text that is too long for a line of a log, or for an entry of a log database.
// Nothing depends on a text of that length.
func shortened(s string) string {
	if fits(s, spanLimit) {
		return s
	}
	return s[:prefix(s, spanLimit-1)] + "…"
}

func moment(p notionapi.Property) time.Time {
	if d, ok := p.(*notionapi.DateProperty); ok && d.Date != nil && d.Date.Start != nil {
		return time.Time(*d.Date.Start).UTC()
	}
	return time.Time{}
}

// lease reads a lease's length in minutes. An impossible number counts as none. odd says that
// writing the length back would change the number.
func lease(p notionapi.Property) (length time.Duration, odd bool) {
	n, ok := p.(*notionapi.NumberProperty)
	if !ok || n.Number == 0 {
		return 0, false
	}
	if !(n.Number > 0) || n.Number > longestTimeout.Minutes() {
		return 0, true
	}
	return time.Duration(n.Number * float64(time.Minute)), n.Number != math.Trunc(n.Number)
}

// keyOf reads a unique id. Without a valid prefix there is no key.
func keyOf(p notionapi.Property) string {
	u, ok := p.(*notionapi.UniqueIDProperty)
	if !ok {
		return ""
	}
	key, _ := task.ParseKey(u.UniqueID.String())
	return key
}

func related(p notionapi.Property) []task.ID {
	r, ok := p.(*notionapi.RelationProperty)
	if !ok {
		return nil
	}
	var ids []task.ID
	for _, page := range r.Relation {
		if id, err := task.ParseID(page.ID.String()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
