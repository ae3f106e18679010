package notion

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
func (c *codec) shownBy(page *page) shown {
	s := shown{ticked: page.Properties[c.columns.done.ID].ticked(), status: page.Properties[c.columns.status.ID].text()}
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
