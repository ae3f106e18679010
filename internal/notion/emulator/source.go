package emulator

import (
	"slices"
)

func (c *call) getSource() (render, error) {
	s, err := c.source(c.params["data_source_id"])
	if err != nil {
		return nil, err
	}
	return func() map[string]any { return c.encodeSource(s) }, nil
}

func (c *call) createSource() (render, error) {
	if _, err := c.body.object(); err != nil {
		return nil, err
	}
	id, err := c.body.get("parent").get("database_id").id()
	if err == nil {
		err = c.body.get("parent").typed("database_id")
	}
	if err != nil {
		return nil, err
	}
	d, err := c.database(id)
	if err != nil {
		return nil, err
	}
	if err := c.takeBlocks(1); err != nil {
		return nil, err
	}
	var name []span
	if n := c.body.opt("title"); n.present {
		if name, err = c.decodeSpans(n); err != nil {
			return nil, err
		}
	}
	s, err := c.tx.createSource(d, name, c.body.get("properties"))
	if err != nil {
		return nil, err
	}
	if s, err = c.adorn(s); err != nil {
		return nil, err
	}
	c.created = s.ID
	return func() map[string]any { return c.encodeSource(s) }, nil
}

func (c *call) updateSource() (render, error) {
	s, err := c.source(c.params["data_source_id"])
	if err != nil {
		return nil, err
	}
	if _, err := c.body.object(); err != nil {
		return nil, err
	}
	trash, err := c.decodeTrash()
	if err != nil {
		return nil, err
	}
	if n := c.body.get("archived"); n.present && c.version.trashOnly() {
		return nil, n.should("not present")
	}
	if trash != nil {
		if *trash && c.world.onlySource(s) {
			return nil, invalid("Cannot delete the last data source of a database.")
		}
		s = c.editSource(s, func(s *source) { s.Trashed = *trash })
	}
	if n := c.body.opt("title"); n.present {
		name, err := c.decodeSpans(n)
		if err != nil {
			return nil, err
		}
		s = c.editSource(s, func(s *source) { s.Name = name })
	}
	if s, err = c.adorn(s); err != nil {
		return nil, err
	}
	if n := c.body.opt("properties"); n.present {
		if err := c.updateSchema(s, n); err != nil {
			return nil, err
		}
	}
	return func() map[string]any { return c.encodeSource(c.world.Sources[s.ID]) }, nil
}

// adorn sets the icon of a data source that the body names.
func (c *call) adorn(s *source) (*source, error) {
	next := *s
	named, err := c.decodeLooks(&next.Icon, nil)
	if err != nil || !named {
		return s, err
	}
	return c.editSource(s, func(s *source) { s.Icon = next.Icon }), nil
}

// updateSchema changes, adds, renames and (with null) removes properties, by name or id.
func (tx *tx) updateSchema(s *source, n node) error {
	m, err := n.object()
	if err != nil {
		return err
	}
	next := *s
	next.Properties = slices.Clone(s.Properties)
	for _, key := range sortedKeys(m) {
		if err := tx.updateProperty(&next, key, n.get(key)); err != nil {
			return err
		}
	}
	if err := next.checkNames(tx.world, s.Properties); err != nil {
		return err
	}
	tx.editSource(s, func(s *source) { s.Properties = next.Properties })
	return nil
}

func (tx *tx) updateProperty(s *source, key string, n node) error {
	old, known := s.property(key)
	if n.null() {
		if !known {
			return invalid("%s is not a property that exists.", key)
		}
		if old.Type == "title" {
			return invalid("Cannot delete the title property.")
		}
		s.Properties = slices.DeleteFunc(s.Properties, func(p property) bool { return p.ID == old.ID })
		return nil
	}
	p := property{ID: s.newPropertyID(), Name: key}
	if known {
		p = old
	}
	m, err := n.object()
	if err != nil {
		return err
	}
	if name := n.opt("name"); name.present {
		if p.Name, err = name.text(maxContent); err != nil {
			return err
		}
		if other, taken := s.property(p.Name); taken && (!known || other.ID != old.ID) {
			return invalid("%s is already the name of a property.", p.Name)
		}
	}
	if onlyName := known && len(m) == 1 && n.get("name").present; !onlyName {
		if p, err = tx.decodeProperty(s, p, n); err != nil {
			return err
		}
	}
	if !known && p.Type == "title" {
		return invalid("Cannot create a second title property.")
	}
	if i := slices.IndexFunc(s.Properties, func(q property) bool { return q.ID == p.ID }); i >= 0 {
		s.Properties[i] = p
	} else {
		s.Properties = append(s.Properties, p)
	}
	return nil
}

func (s *source) encodeSchema(w *world) map[string]any {
	m := map[string]any{}
	for _, p := range s.Properties {
		m[p.Name] = p.encode(w, s)
	}
	return m
}

func (c *call) encodeSource(s *source) map[string]any {
	d := c.world.Databases[s.Database]
	m := map[string]any{
		"object":           "data_source",
		"id":               s.ID,
		"cover":            orNull(d.Cover),
		"icon":             orNull(s.Icon),
		"created_time":     stamp(s.Created),
		"last_edited_time": stamp(s.Edited),
		"created_by":       partialUser(s.CreatedBy),
		"last_edited_by":   partialUser(s.EditedBy),
		"title":            orEmpty(s.Name),
		"description":      orEmpty(d.Description),
		"is_inline":        d.Inline,
		"properties":       s.encodeSchema(c.world),
		"parent":           map[string]any{"type": "database_id", "database_id": s.Database},
		"database_parent":  c.encodeDatabaseParent(d),
		"url":              pageURL("", d.ID),
		"public_url":       nil,
		"in_trash":         s.Trashed || d.Trashed,
	}
	if !c.version.trashOnly() {
		m["archived"] = m["in_trash"]
	}
	return m
}
