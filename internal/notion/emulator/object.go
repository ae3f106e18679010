package emulator

import (
	"encoding/json"
	"time"
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

// database returns a database, or Notion's 404 for one that does not exist or is not shared.
func (c *call) database(id string) (*database, error) {
	d, ok := c.world.Databases[id]
	if !ok || c.world.Hidden[id] {
		return nil, notFound("database", id)
	}
	if d.Linked {
		return nil, noSources(id)
	}
	return d, nil
}

// noSources is Notion's answer for a linked database, and for one whose data sources are not
// shared.
func noSources(id string) error {
	return invalid("Database with ID %s does not contain any data sources accessible by this API bot.", id)
}

func (c *call) source(id string) (*source, error) {
	s, ok := c.world.Sources[id]
	if !ok || c.world.Hidden[s.Database] {
		return nil, notFound("data_source", id)
	}
	return s, nil
}

// singleSource refuses a database with several data sources to API versions that know only one.
func (c *call) singleSource(d *database) error {
	if c.version.hasSources() || len(c.world.sources(d)) == 1 {
		return nil
	}
	return c.world.severalSources(d)
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

func trashed() error {
	return invalid("Can't edit block that is archived. You must unarchive the block before editing.")
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

// encodeDatabase encodes a database: with its schema for API versions that know only one data
// source, with the list of its data sources for later ones.
func (c *call) encodeDatabase(d *database) map[string]any {
	m := map[string]any{
		"object":           "database",
		"id":               d.ID,
		"cover":            orNull(d.Cover),
		"icon":             orNull(d.Icon),
		"created_time":     c.stamp(d.Created),
		"last_edited_time": c.stamp(d.Edited),
		"title":            orEmpty(d.Title),
		"description":      orEmpty(d.Description),
		"is_inline":        d.Inline,
		"parent":           c.encodeDatabaseParent(d),
		"url":              pageURL("", d.ID),
		"public_url":       nil,
		"in_trash":         d.Trashed,
	}
	if !c.version.trashOnly() {
		m["archived"] = d.Trashed
	}
	if !c.version.hasSources() {
		m["created_by"], m["last_edited_by"] = partialUser(d.CreatedBy), partialUser(d.EditedBy)
		if !d.Linked {
			m["properties"] = c.world.first(d).encodeSchema(c.world)
		}
		return m
	}
	m["is_locked"] = d.Locked
	sources := []any{}
	for _, id := range c.world.sources(d) {
		sources = append(sources, map[string]any{"id": id, "name": plainText(c.world.Sources[id].Name)})
	}
	m["data_sources"] = sources
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

func (s *source) encodeSchema(w *world) map[string]any {
	m := map[string]any{}
	for _, p := range s.Properties {
		m[p.Name] = p.encode(w, s)
	}
	return m
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

// encodeDatabaseParent encodes the parent of a database, which for a row of another database is that
// one, whatever the version.
func (c *call) encodeDatabaseParent(d *database) map[string]any {
	if s := c.world.Sources[d.Parent.Source]; s != nil {
		return c.encodeParent(parent{Database: s.Database})
	}
	return c.encodeParent(d.Parent)
}

// orNull encodes missing JSON as null.
func orNull(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// stamp formats a timestamp of a database: to the minute in old versions, to the millisecond and
// with an offset in later ones.
func (c *call) stamp(t time.Time) string {
	if c.version.hasSources() {
		return t.UTC().Format(shownLayout)
	}
	return stamp(t)
}
