package notion

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unique"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// codec converts pages to tasks, and changes of tasks to properties.
type codec struct {
	database, source task.ID
	columns          taskColumns
	warnings         []string // about the columns

	statuses map[string]task.Status // by their names in the database
	names    map[task.Status]string // their names in the database
	words    task.Vocabulary
	users    map[string]string // the ids of the agents' Notion users
	agents   map[string]string // the reverse, by canonical id

	scope  []task.Condition // that tasks for agents meet
	hidden []string         // the fields that only the scope needs
}

func newCodec(db Database, s TaskSchema, columns taskColumns, warnings []string) (*codec, error) {
	c := &codec{
		database: db.ID,
		source:   db.Source,
		columns:  columns,
		warnings: warnings,
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
		if name := s.statusName(status); status == task.Cancelled && columns.status.Type == typeStatus && !slices.Contains(columns.status.Options, name) {
			continue // the board does without it: Notion would refuse it
		}
		c.names[status] = s.statusName(status)
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
		c.title, c.status, c.claimedBy, c.claimedAt, c.timeout, c.token, c.priority, c.dependsOn, c.note, c.assignee, c.done, c.subItems, c.doneWhen, c.touches,
	}, func(col Column) bool { return col.ID == "" })
}

// task converts a page. Its relations may be incomplete: they are those that the page shows.
func (c *codec) task(page *rawPage) (task.Task, error) {
	id, err := task.ParseID(page.ID)
	if err != nil {
		return task.Task{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion's answer is not a page: %w", err)
	}
	if is, elsewhere := page.Parent.in(c.database, c.source); !is && elsewhere {
		return task.Task{}, claim.Errorf(claim.NotFound, claim.LandedUnknown, "%w", &foreignError{id})
	} else if !is {
		return task.Task{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion does not say in which data source page %s is", id)
	}
	// A page that lost a property must not look like a free task, or like one without dependencies.
	for _, col := range c.columns.inUse() {
		p := page.Properties[col.ID]
		if col.ID != c.columns.note.ID && col.ID != c.columns.doneWhen.ID && (p == nil || p.Type != col.Type) {
			return task.Task{}, claim.Errorf(claim.Refused, claim.LandedUnknown, "page %s: %w", id, &lostError{col})
		}
	}
	of := func(col Column) *property { return page.Properties[col.ID] }
	t := task.Task{
		ID:        id,
		Key:       of(c.columns.key).key(),
		Title:     shortened(task.Plain(of(c.columns.title).text())),
		URL:       shortened(page.URL),
		Status:    task.Unknown,
		Priority:  task.None,
		ClaimedBy: shortened(c.holder(of(c.columns.claimedBy))),
		ClaimedAt: of(c.columns.claimedAt).moment(),
		Token:     shortened(strings.TrimSpace(of(c.columns.token).text())),
		DependsOn: of(c.columns.dependsOn).related(),
		SubItems:  of(c.columns.subItems).related(),
		Note:      shortened(task.Plain(of(c.columns.note).text())),
		DoneWhen:  shortened(task.Plain(of(c.columns.doneWhen).text())),
		Touches:   of(c.columns.touches).lines(),
		Created:   page.Created.UTC(),
		Edited:    page.Edited.UTC(),
		EditedBy:  unique.Make(string(page.EditedBy)).Value(), // few users edit many pages
		Trashed:   page.trashed(),
	}
	t.Assignee, t.AssigneeIsAgent = c.assignee(of(c.columns.assignee))
	t.Timeout = of(c.columns.timeout).lease()
	name := of(c.columns.status).text()
	if status, ok := c.statuses[name]; ok {
		t.Status = status
	}
	if of(c.columns.done).ticked() {
		t.Status = task.Completed
	}
	if t.Status == task.Unknown {
		t.StatusName = unique.Make(shortened(name)).Value()
	}
	if name := shortened(strings.TrimSpace(of(c.columns.priority).text())); name != "" {
		t.Priority, t.PriorityName = c.words.Rank(name), unique.Make(name).Value() // few names are on many pages
	}
	return t, nil
}

// relationKey is one relation property of one page.
type relationKey struct{ page, property string }

// whole makes the relations of a task whole that its page shows in part. all
// returns a relation of which that part is shown.
func (c *codec) whole(page *rawPage, row *task.Task, all func(of relationKey, shown []task.ID) ([]task.ID, error)) error {
	for id, ids := range map[string]*[]task.ID{c.columns.dependsOn.ID: &row.DependsOn, c.columns.subItems.ID: &row.SubItems} {
		if p := page.Properties[id]; p == nil || !p.HasMore {
			continue
		}
		var err error
		if *ids, err = all(relationKey{page.ID, id}, *ids); err != nil {
			return err
		}
	}
	return nil
}

// newStatus reports whether a page has a status option that is not in the last schema.
func (c *codec) newStatus(page *rawPage) bool {
	name := page.Properties[c.columns.status.ID].text()
	return name != "" && !slices.Contains(c.columns.status.Options, name)
}

// holder reads claimed_by.
func (c *codec) holder(p *property) string {
	if p == nil || p.Type != typePeople {
		return task.Name(strings.TrimSpace(p.text()))
	}
	var names []string
	for _, user := range p.People {
		names = append(names, c.userName(user))
	}
	return strings.Join(names, ", ")
}

// assignee reads the column of assignees. isAgent says that it has one user, who stands for the
// agent of that name.
func (c *codec) assignee(p *property) (name string, isAgent bool) {
	if p == nil || len(p.People) == 0 {
		return "", false
	}
	return shortened(c.holder(p)), len(p.People) == 1 && c.agentOf(p.People[0]) != ""
}

// agentOf returns the agent that a Notion user stands for; empty if none.
func (c *codec) agentOf(user person) string {
	id, err := task.ParseID(user.ID)
	if err != nil {
		return ""
	}
	return c.agents[string(id)]
}

// nameless returns the users that a page shows as holders or assignees by their ids alone.
func (c *codec) nameless(page *rawPage) (users []*person) {
	for _, col := range []Column{c.columns.claimedBy, c.columns.assignee} {
		p := page.Properties[col.ID]
		for i := 0; p != nil && p.Type == typePeople && i < len(p.People); i++ {
			if user := &p.People[i]; user.Name == "" && user.ID != "" && c.agentOf(*user) == "" {
				users = append(users, user)
			}
		}
	}
	return users
}

// userName returns the agent that a Notion user stands for, or else the user's own name, or, if
// Notion does not give the name, the user's id.
func (c *codec) userName(user person) string {
	if agent := c.agentOf(user); agent != "" {
		return agent
	}
	if name := task.Name(strings.TrimSpace(user.Name)); name != "" {
		return name
	}
	return user.ID
}

// properties converts a change to a page's properties, without its note. It skips properties that
// the database does not have.
func (c *codec) properties(w claim.Write, on basis) (notionapi.Properties, error) {
	if on.ticked && w.Status == nil && w.Token != nil && *w.Token == "" && on.status == c.names[task.InProgress] {
		w.Status = new(task.Completed) // a person ticked the box in the middle of the attempt that is taken off
	}
	props := make(notionapi.Properties)
	if w.Status != nil {
		name, ok := c.names[*w.Status]
		if !ok {
			return nil, fmt.Errorf("%q is not a status that a task can be given", *w.Status)
		}
		col := c.columns.status
		props[col.ID] = option(notionapi.PropertyType(col.Type), col.inNotion(name))
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
	if w.Token != nil {
		props[c.columns.token.ID] = text(*w.Token)
	}
	if w.Timeout != nil && c.columns.timeout.ID != "" {
		props[c.columns.timeout.ID] = minutes(*w.Timeout)
	}
	return props, nil
}

func (c *codec) claimedBy(agent string, on basis) (notionapi.Property, error) {
	switch c.columns.claimedBy.Type {
	case typeSelect:
		if strings.Contains(agent, ",") {
			return nil, fmt.Errorf("agent %q: Notion takes no comma in a select option: use another name, or make property %q a text",
				agent, c.columns.claimedBy.Name)
		}
		return option(notionapi.PropertyTypeSelect, c.columns.claimedBy.inNotion(agent)), nil
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

// basis is what a page shows beside its task, for the next write to go by.
type basis struct {
	// holder is the page's holder if that is a Notion user who stands for no agent, or several
	// users. A sweep changes a stale claim but not its holder, so it has to write such a name
	// back. That works only on the page where it was read.
	holder string
	users  []pageRef
	// ticked is set if the box for done is ticked. A write that makes the task anything else than
	// COMPLETED takes the tick off; any other leaves the box to people.
	ticked bool
	// status is the name of the page's status, which says nothing while the box is ticked.
	status string
}

// empty reports whether there is nothing to go by.
func (s basis) empty() bool { return s.holder == "" && !s.ticked }

// basisOf returns what a page shows beside its task.
func (c *codec) basisOf(page *rawPage) basis {
	s := basis{ticked: page.Properties[c.columns.done.ID].ticked(), status: page.Properties[c.columns.status.ID].text()}
	by := page.Properties[c.columns.claimedBy.ID]
	if by == nil || by.Type != typePeople {
		return s
	}
	known := true
	for _, user := range by.People {
		_, isAgent := c.users[c.userName(user)]
		known = known && isAgent
		s.users = append(s.users, pageRef{user.ID})
	}
	if s.holder = c.holder(by); known && len(s.users) < 2 {
		s.holder, s.users = "", nil
	}
	return s
}

// lostError says that a property in use is gone, or has another type.
type lostError struct{ column Column }

func (e *lostError) Error() string {
	return fmt.Sprintf("property %q of type %s is gone or of another type", e.column.Name, e.column.Type)
}

// lost reports whether an error says that a property is lost.
func lost(err error) bool {
	_, isGone := errors.AsType[*lostError](err)
	return isGone
}

// foreignError says that a page is not in the tasks database.
type foreignError struct{ page task.ID }

func (e *foreignError) Error() string {
	return fmt.Sprintf("page %s belongs to another database, or to another data source of the tasks database", e.page)
}

// foreign reports whether an error says that a page is elsewhere.
func foreign(err error) bool {
	_, isOf := errors.AsType[*foreignError](err)
	return isOf
}
