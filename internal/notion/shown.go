package notion

import "github.com/jomei/notionapi"

// shown is what a page shows beside its task, for the next write to go by.
type shown struct {
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
func (s shown) empty() bool { return s.holder == "" && !s.ticked }

// shownBy returns what a page shows beside its task.
func (c *codec) shownBy(page *notionapi.Page) (s shown) {
	known := true
	for _, p := range page.Properties {
		switch p.GetID() {
		case c.columns.done.ID:
			s.ticked = ticked(p)
		case c.columns.status.ID:
			s.status = plainText(p)
		}
		people, ok := p.(*notionapi.PeopleProperty)
		if !ok || p.GetID() != c.columns.claimedBy.ID {
			continue
		}
		s.holder = c.holder(people)
		for _, user := range people.People {
			_, isAgent := c.users[c.userName(user)]
			known = known && isAgent
			s.users = append(s.users, pageRef{user.ID.String()})
		}
	}
	if known && len(s.users) < 2 {
		s.holder, s.users = "", nil
	}
	return s
}

// ticked reads a checkbox.
func ticked(p notionapi.Property) bool {
	box, ok := p.(*notionapi.CheckboxProperty)
	return ok && box.Checkbox
}
