package emulator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (c *call) getPage() (render, error) {
	p, err := c.page(c.params["page_id"])
	if err != nil {
		return nil, err
	}
	only, err := c.only(c.world.source(p))
	if err != nil {
		return nil, err
	}
	if c.past > 0 {
		p = cmp.Or(c.world.at(p.ID, c.now.Add(-c.past)), append(c.world.past[p.ID], p)[0])
	}
	return func() map[string]any { return c.encodePage(p, only) }, nil
}

// getMarkdown answers a page, or a block and everything below it.
func (c *call) getMarkdown() (render, error) {
	id := c.params["page_id"]
	if _, err := c.container(id); err != nil {
		return nil, err
	}
	w := &markdownText{world: c.world, left: cmp.Or(c.world.MarkdownLimit, maxMarkdown)}
	if b, ok := c.world.Blocks[id]; ok {
		w.left--
		w.block(b, 0, 1)
	} else {
		w.below(id, 0)
	}
	for _, p := range c.world.pagesBelow(id) {
		if c.world.hidden(p) {
			w.unloaded(p.ID, "child_page", 0)
			continue
		}
		fmt.Fprintf(&w.out, "<page url=%q>%s</page>\n", pageURL(c.world.title(p), p.ID), c.world.title(p))
	}
	body := map[string]any{
		"object": "page_markdown", "id": id, "markdown": w.out.String(),
		"truncated": len(w.unknown) > 0, "unknown_block_ids": orEmpty(w.unknown),
	}
	return func() map[string]any { return body }, nil
}

func (c *call) createPage() (render, error) {
	known := []string{"parent", "properties", "children", "icon", "cover", "content", "template", "position"}
	if c.version.hasSources() {
		known = append(known, "markdown")
	}
	if err := c.body.only(known...); err != nil {
		return nil, err
	}
	to, s, err := c.pageParent(c.body.get("parent"))
	if err != nil {
		return nil, err
	}
	only, err := c.only(s)
	if err != nil {
		return nil, err
	}
	children, err := c.content()
	if err != nil {
		return nil, err
	}
	if err := c.takeBlocks(1 + countBlocks(children)); err != nil {
		return nil, err
	}
	p, err := c.tx.createPage(to, s, c.body.opt("properties"))
	if err != nil {
		return nil, err
	}
	if p, err = c.decorate(p); err != nil {
		return nil, err
	}
	c.appendBlocks(p.ID, parent{Page: p.ID}, children, len(c.world.Children[p.ID]))
	c.created = p.ID
	return func() map[string]any { return c.encodePage(p, only) }, nil
}

// createPage makes a page with the given properties.
func (tx *tx) createPage(to parent, s *source, properties node) (*page, error) {
	values, err := tx.decodeProperties(s, properties)
	if err != nil {
		return nil, err
	}
	p := &page{
		ID: newID(), Parent: to, Values: values, Seq: tx.seq(),
		Created: tx.now, Edited: tx.now, CreatedBy: tx.user, EditedBy: tx.user,
	}
	if s != nil {
		tx.number(p, s.ID)
		put(tx, tx.world.Rows, s.ID, append(tx.world.Rows[s.ID], p.ID))
	}
	put(tx, tx.world.Pages, p.ID, p)
	if s != nil {
		tx.relateAll(p, nil)
	}
	return tx.world.Pages[p.ID], nil
}

// number assigns the unique_id of a new row.
func (tx *tx) number(p *page, sourceID string) {
	s := tx.world.Sources[sourceID]
	i := slices.IndexFunc(s.Properties, func(p property) bool { return p.Type == "unique_id" })
	if i < 0 {
		return
	}
	id := s.Properties[i].ID
	if p.Values[id].Number == nil {
		next := *s
		next.Unique++
		put(tx, tx.world.Sources, s.ID, &next)
		n := float64(next.Unique)
		p.Values[id] = value{Number: &n}
	}
}

// decodeProperties decodes a page's properties, by name or id.
func (tx *tx) decodeProperties(s *source, n node) (map[string]value, error) {
	values := map[string]value{}
	if !n.present {
		return values, nil
	}
	m, err := n.object()
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, key := range sortedKeys(m) {
		p := property{ID: titleID, Name: "title", Type: "title"}
		ok := key == titleID
		if s != nil {
			p, ok = s.property(key)
		}
		if !ok {
			wrong = append(wrong, key+" is not a property that exists.")
			continue
		}
		v, fits, err := valueOf(p, n.get(key))
		if err != nil {
			return nil, err
		}
		if !fits {
			wrong = append(wrong, p.Name+" is expected to be "+p.Type+".")
			continue
		}
		if values[p.ID], err = tx.decodeValue(s, p, v); err != nil {
			return nil, err
		}
	}
	if len(wrong) > 0 {
		return nil, invalid("%s", strings.Join(wrong, " "))
	}
	return values, nil
}

// relateAll updates the other sides of a row's two-way relations, given its values before.
func (tx *tx) relateAll(p *page, before map[string]value) {
	for _, prop := range tx.world.source(p).Properties {
		if prop.Type == "relation" {
			tx.relate(p, prop, before[prop.ID].Pages, p.Values[prop.ID].Pages)
		}
	}
}

// editPage sets properties of a page; those not named keep their values.
func (tx *tx) editPage(p *page, properties node) (*page, error) {
	values, err := tx.decodeProperties(tx.world.source(p), properties)
	if err != nil || len(values) == 0 {
		return p, err
	}
	edited := tx.edit(p, func(p *page) { maps.Copy(p.Values, values) })
	if tx.world.source(p) != nil {
		tx.relateAll(edited, p.Values)
	}
	return tx.world.Pages[p.ID], nil
}

func (c *call) updatePage() (render, error) {
	known := []string{"properties", "icon", "cover", "is_locked", "in_trash", "is_archived", "template", "erase_content"}
	if !c.version.trashOnly() {
		known = append(known, "archived")
	}
	if err := c.body.only(known...); err != nil {
		return nil, err
	}
	p, err := c.page(c.params["page_id"])
	if err != nil {
		return nil, err
	}
	only, err := c.only(c.world.source(p))
	if err != nil {
		return nil, err
	}
	trash, err := c.decodeTrash()
	if err != nil {
		return nil, err
	}
	if p.Trashed && (trash == nil || *trash && !c.again) || !p.Trashed && c.world.inTrash(p) {
		return nil, trashed()
	}
	if trash != nil && *trash != p.Trashed {
		p = c.edit(p, func(p *page) { p.Trashed = *trash })
	}
	if p, err = c.setFlags(p); err != nil {
		return nil, err
	}
	if _, err = c.editPage(p, c.body.opt("properties")); err != nil {
		return nil, err
	}
	if _, err = c.decorate(c.world.Pages[p.ID]); err != nil {
		return nil, err
	}
	// Looked up here, so that the answer shows the old values after a rollback.
	return func() map[string]any { return c.encodePage(c.world.Pages[p.ID], only) }, nil
}

// setFlags archives and locks a page, or undoes that, as the body says.
func (c *call) setFlags(p *page) (*page, error) {
	next := *p
	for key, to := range map[string]*bool{"is_archived": &next.Archived, "is_locked": &next.Locked} {
		if n := c.body.opt(key); n.present {
			is, err := n.boolean()
			if err != nil {
				return nil, err
			}
			*to = is
		}
	}
	if next.Archived == p.Archived && next.Locked == p.Locked {
		return p, nil
	}
	return c.edit(p, func(p *page) { p.Archived, p.Locked = next.Archived, next.Locked }), nil
}

// getPropertyItem answers one property of a page in full: as a paginated list for the types with
// many values, else as a single item.
func (c *call) getPropertyItem() (render, error) {
	p, err := c.page(c.params["page_id"])
	if err != nil {
		return nil, err
	}
	prop := property{ID: titleID, Name: "title", Type: "title"}
	ok := c.params[propertyParam] == titleID
	if s := c.world.source(p); s != nil {
		prop, ok = s.property(c.params[propertyParam])
		ok = ok && (prop.Name == c.params[propertyParam] || prop.inURL(c.params[propertyParam]))
	}
	if !ok {
		return nil, notFound("property", c.params[propertyParam])
	}
	var elements []any
	switch v := c.world.encodeValue(p, prop).(type) {
	case []span:
		for _, s := range v {
			elements = append(elements, s)
		}
	case []any:
		elements = v
	default:
		return func() map[string]any {
			m := c.world.encodeProperty(p, prop)
			m["object"] = "property_item"
			return m
		}, nil
	}
	if !slices.Contains([]string{"title", "rich_text", "relation", "people"}, prop.Type) {
		return func() map[string]any {
			return map[string]any{"object": "property_item", "id": prop.ID, "type": prop.Type, prop.Type: elements}
		}, nil
	}
	return c.listItems(prop, elements)
}

// listItems answers one page of a property's values. They have no ids, so the cursor counts them.
func (c *call) listItems(prop property, elements []any) (render, error) {
	size, err := pageSize(c.param("page_size"))
	if err != nil {
		return nil, err
	}
	after, err := decodeCursor(c.param("start_cursor"))
	if err != nil {
		return nil, err
	}
	from := 0
	if after != nil {
		if after.ID != prop.ID || after.Returned > len(elements) {
			return nil, badCursor(after.encode())
		}
		from = after.Returned
	}
	to := min(from+size, len(elements))
	results := []any{}
	for _, e := range elements[from:to] {
		results = append(results, map[string]any{"object": "property_item", "id": prop.ID, "type": prop.Type, prop.Type: e})
	}
	next := ""
	if to < len(elements) {
		next = cursor{ID: prop.ID, Returned: to}.encode()
	}
	var nextURL any
	if next != "" {
		nextURL = "https://api.notion.com/v1/pages/" + c.params["page_id"] + "/properties/" + prop.ID + "?start_cursor=" + next
	}
	return func() map[string]any {
		m := listBody("property_item", results, next)
		m["property_item"] = map[string]any{"id": prop.ID, "type": prop.Type, prop.Type: map[string]any{}, "next_url": nextURL}
		return m
	}, nil
}
