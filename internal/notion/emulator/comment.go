package emulator

import (
	"cmp"
	"slices"
)

func (c *call) createComment() (render, error) {
	if err := c.body.only("parent", "discussion_id", "rich_text", "attachments", "display_name", "markdown"); err != nil {
		return nil, err
	}
	to, discussion, err := c.commentPlace()
	if err != nil {
		return nil, err
	}
	text, err := c.saying()
	if err != nil {
		return nil, err
	}
	name, err := c.displayName()
	if err != nil {
		return nil, err
	}
	m := &comment{
		ID: newID(), Parent: to, Discussion: discussion, Text: text, Name: name, Created: c.now, CreatedBy: c.user, Seq: c.seq(),
	}
	put(c.tx, c.world.Comments, m.ID, m)
	c.created = m.ID
	return func() map[string]any { return c.encodeComment(m) }, nil
}

// displayName decodes a comment's display name; empty for the author's own.
func (c *call) displayName() (string, error) {
	n := c.body.opt("display_name")
	if !n.present {
		return "", nil
	}
	if kind, err := n.get("type").oneOf("integration", "user", "custom"); err != nil || kind != "custom" {
		return "", err
	}
	return n.get("custom").get("name").text(maxContent)
}

// encodeDisplayName encodes a comment's display name.
func (c *call) encodeDisplayName(m *comment) map[string]any {
	if m.Name != "" {
		return map[string]any{"type": "custom", "resolved_name": m.Name}
	}
	kind, name := "integration", ""
	if u := c.world.Users[m.CreatedBy]; u != nil {
		name = u.Name
		if u.Person {
			kind = "user"
		}
	}
	return map[string]any{"type": kind, "resolved_name": name}
}

// commentPlace returns where a new comment goes: its parent and its discussion.
func (c *call) commentPlace() (parent, string, error) {
	if d := c.body.get("discussion_id"); d.present {
		id, err := d.id()
		if err != nil {
			return parent{}, "", err
		}
		for _, m := range c.world.Comments {
			if m.Discussion == id {
				return m.Parent, id, nil
			}
		}
		return parent{}, "", notFound("discussion", id)
	}
	var to parent
	_, err := c.body.get("parent").variant(
		variant{kind: "page_id", decode: func(n node) (any, error) {
			id, err := n.id()
			if err != nil {
				return nil, err
			}
			to.Page = id
			p, err := c.page(id)
			if err == nil && p.Trashed {
				err = trashed()
			}
			return nil, err
		}},
		variant{kind: "block_id", decode: func(n node) (any, error) {
			id, err := n.id()
			if err == nil {
				to, err = c.container(id)
			}
			return nil, err
		}},
	)
	return to, newID(), err
}

func (c *call) listComments() (render, error) {
	id, err := c.param("block_id").id()
	if err != nil {
		return nil, err
	}
	if _, err := c.container(id); err != nil {
		return nil, err
	}
	var all []any
	for _, m := range c.world.commentsOn(id) {
		if !m.Resolved {
			all = append(all, c.encodeComment(m))
		}
	}
	return c.list("comment", all, c.param)
}

// commentsOn returns the comments on a page or a block, the oldest first.
func (w *world) commentsOn(id string) []*comment {
	var found []*comment
	for _, m := range w.Comments {
		if m.Parent.Page == id || m.Parent.Block == id {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *comment) int { return cmp.Compare(a.Seq, b.Seq) })
	return found
}

func (c *call) encodeComment(m *comment) map[string]any {
	return map[string]any{
		"object":           "comment",
		"id":               m.ID,
		"parent":           c.encodeParent(m.Parent),
		"discussion_id":    m.Discussion,
		"created_time":     stamp(m.Created),
		"last_edited_time": stamp(m.Created),
		"created_by":       partialUser(m.CreatedBy),
		"rich_text":        orEmpty(m.Text),
		"display_name":     c.encodeDisplayName(m),
	}
}
