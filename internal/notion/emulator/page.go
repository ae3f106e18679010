package emulator

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// page returns a page, or Notion's 404 for one that does not exist or is not shared.
func (c *call) page(id string) (*page, error) {
	p, ok := c.world.Pages[id]
	if !ok || c.world.hidden(p) {
		return nil, notFound("page", id)
	}
	return p, nil
}

// hidden reports whether a page is not shared, or is in a database that is not.
func (w *world) hidden(p *page) bool {
	s := w.source(p)
	return w.Hidden[p.ID] || s != nil && w.Hidden[s.Database]
}

func (c *call) getPage() (render, error) {
	p, err := c.page(c.params["page_id"])
	if err != nil {
		return nil, err
	}
	only, err := c.only(c.world.source(p))
	if err != nil {
		return nil, err
	}
	return func() map[string]any { return c.encodePage(p, only) }, nil
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

// pageParent decodes the parent of a new page; s is nil below a page.
func (c *call) pageParent(n node) (to parent, s *source, err error) {
	forms := []variant{
		{kind: "page_id", decode: func(n node) (any, error) {
			if to.Page, err = n.id(); err == nil {
				_, err = c.page(to.Page)
			}
			return nil, err
		}},
		{kind: "database_id", decode: func(n node) (any, error) {
			id, err := n.id()
			if err != nil {
				return nil, err
			}
			d, err := c.database(id)
			if err != nil {
				return nil, err
			}
			if len(c.world.sources(d)) > 1 {
				return nil, c.world.severalSources(d)
			}
			s = c.world.first(d)
			return nil, nil
		}},
		{kind: "workspace", decode: func(n node) (any, error) { return nil, n.truth() }},
	}
	if c.version.hasSources() {
		forms = append(forms, variant{kind: "data_source_id", decode: func(n node) (any, error) {
			id, err := n.id()
			if err == nil {
				s, err = c.source(id)
			}
			return nil, err
		}})
	}
	if _, err := n.variant(forms...); err != nil {
		return parent{}, nil, err
	}
	if s != nil {
		to.Source = s.ID
	}
	return to, s, nil
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
	if p.Trashed && (trash == nil || *trash) || !p.Trashed && c.world.inTrash(p) {
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

// decodeTrash returns whether the body trashes or restores; nil if neither.
func (c *call) decodeTrash() (*bool, error) {
	for _, key := range []string{"in_trash", "archived"} {
		if n := c.body.opt(key); n.present {
			b, err := n.boolean()
			return &b, err
		}
	}
	return nil, nil
}

func trashed() error {
	return invalid("Can't edit block that is archived. You must unarchive the block before editing.")
}

// decorate sets the icon and the cover of a page that the body names.
func (c *call) decorate(p *page) (*page, error) {
	next := *p
	named, err := c.decodeLooks(&next.Icon, &next.Cover)
	if err != nil || !named {
		return p, err
	}
	return c.edit(p, func(p *page) { p.Icon, p.Cover = next.Icon, next.Cover }), nil
}

// decodeLooks sets the icon and the cover that the body names; a null removes one. cover is nil for
// an object without.
func (c *call) decodeLooks(icon, cover *json.RawMessage) (named bool, err error) {
	for _, look := range []struct {
		key   string
		to    *json.RawMessage
		forms []variant
	}{{"icon", icon, icons}, {"cover", cover, covers}} {
		n := c.body.opt(look.key)
		if !n.present || look.to == nil {
			continue
		}
		named, *look.to = true, nil
		if n.null() {
			continue
		}
		shown, err := n.variant(look.forms...)
		if err != nil {
			return false, err
		}
		*look.to = compact(shown)
	}
	return named, nil
}

// encodePage encodes a page; only lists the ids of the properties to show, nil for all.
func (c *call) encodePage(p *page, only []string) map[string]any {
	m := map[string]any{
		"object":           "page",
		"id":               p.ID,
		"created_time":     stamp(p.Created),
		"last_edited_time": stamp(p.Edited),
		"created_by":       partialUser(p.CreatedBy),
		"last_edited_by":   partialUser(p.EditedBy),
		"cover":            orNull(p.Cover),
		"icon":             orNull(p.Icon),
		"parent":           c.encodeParent(p.Parent),
		"in_trash":         c.world.inTrash(p),
		"is_archived":      p.Archived,
		"is_locked":        p.Locked,
		"properties":       c.world.encodeProperties(p, only),
		"url":              pageURL(c.world.title(p), p.ID),
		"public_url":       nil,
	}
	if !c.version.trashOnly() {
		m["archived"] = m["in_trash"]
	}
	return m
}

// orNull encodes missing JSON as null.
func orNull(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// encodeParent encodes an object's parent for the request's version.
func (c *call) encodeParent(p parent) map[string]any {
	switch {
	case p.Source != "" && c.version.hasSources():
		return map[string]any{"type": "data_source_id", "data_source_id": p.Source, "database_id": c.world.Sources[p.Source].Database}
	case p.Source != "":
		return map[string]any{"type": "database_id", "database_id": c.world.Sources[p.Source].Database}
	case p.Database != "":
		return map[string]any{"type": "database_id", "database_id": p.Database}
	case p.Page != "":
		return map[string]any{"type": "page_id", "page_id": p.Page}
	case p.Block != "":
		return map[string]any{"type": "block_id", "block_id": p.Block}
	}
	return map[string]any{"type": "workspace", "workspace": true}
}
