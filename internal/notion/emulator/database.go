package emulator

import (
	"net/http"
	"time"
)

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

func (w *world) severalSources(d *database) error {
	return &apiError{
		status: http.StatusBadRequest, code: "validation_error",
		message: "Databases with multiple data sources are not supported in this API version.",
		additional: map[string]any{
			"error_type":            "multiple_data_sources_for_database",
			"database_id":           d.ID,
			"child_data_source_ids": w.sources(d),
			"minimum_api_version":   version2025,
		},
	}
}

func (c *call) getDatabase() (render, error) {
	d, err := c.database(c.params["database_id"])
	if err != nil {
		return nil, err
	}
	if err := c.singleSource(d); err != nil {
		return nil, err
	}
	return func() map[string]any { return c.encodeDatabase(d) }, nil
}

func (c *call) createDatabase() (render, error) {
	if _, err := c.body.object(); err != nil {
		return nil, err
	}
	properties := c.body.get("properties")
	if c.version.hasSources() {
		properties = c.body.get("initial_data_source").get("properties")
	}
	to, _, err := c.pageParent(c.body.get("parent"))
	if err != nil {
		return nil, err
	}
	if c.version.hasSources() {
		if _, err := c.body.get("parent").get("type").oneOf("page_id", "workspace"); err != nil {
			return nil, err
		}
	}
	if to.Source != "" {
		return nil, c.body.get("parent").get("page_id").should("defined")
	}
	if err := c.takeBlocks(1); err != nil {
		return nil, err
	}
	var title []span
	if n := c.body.opt("title"); n.present {
		if title, err = c.decodeSpans(n); err != nil {
			return nil, err
		}
	}
	if plainText(title) == "" {
		title = textSpans("New database")
	}
	d, err := c.tx.createDatabase(newID(), to, title, properties)
	if err != nil {
		return nil, err
	}
	if d, err = c.describe(d); err != nil {
		return nil, err
	}
	c.created = d.ID
	return func() map[string]any { return c.encodeDatabase(d) }, nil
}

// createDatabase makes a database with one data source.
func (tx *tx) createDatabase(id string, to parent, title []span, properties node) (*database, error) {
	d := &database{
		ID: id, Title: title, Parent: to, Seq: tx.seq(),
		Created: tx.now, Edited: tx.now, CreatedBy: tx.user, EditedBy: tx.user,
	}
	put(tx, tx.world.Databases, d.ID, d)
	if _, err := tx.createSource(d, title, properties); err != nil {
		return nil, err
	}
	return tx.world.Databases[d.ID], nil
}

// createSource adds a data source to a database.
func (tx *tx) createSource(d *database, name []span, properties node) (*source, error) {
	s := &source{
		ID: newID(), Database: d.ID, Name: name, Seq: tx.seq(),
		Created: tx.now, Edited: tx.now, CreatedBy: tx.user, EditedBy: tx.user,
	}
	if err := tx.decodeSchema(s, properties); err != nil {
		return nil, err
	}
	put(tx, tx.world.Sources, s.ID, s)
	tx.editDatabase(d, func(d *database) { d.Sources = append(d.Sources[:len(d.Sources):len(d.Sources)], s.ID) })
	return s, nil
}

// describe sets the fields of a database that the body names.
func (c *call) describe(d *database) (*database, error) {
	next := *d
	for key, to := range map[string]*[]span{"title": &next.Title, "description": &next.Description} {
		if n := c.body.opt(key); n.present {
			spans, err := c.decodeSpans(n)
			if err != nil {
				return nil, err
			}
			*to = spans
		}
	}
	if _, err := c.decodeLooks(&next.Icon, &next.Cover); err != nil {
		return nil, err
	}
	for key, to := range map[string]*bool{"is_inline": &next.Inline, "is_locked": &next.Locked} {
		if n := c.body.opt(key); n.present {
			is, err := n.boolean()
			if err != nil {
				return nil, err
			}
			*to = is
		}
	}
	return c.editDatabase(d, func(d *database) { *d = next }), nil
}

func (c *call) updateDatabase() (render, error) {
	d, err := c.database(c.params["database_id"])
	if err != nil {
		return nil, err
	}
	if err := c.singleSource(d); err != nil {
		return nil, err
	}
	if _, err := c.body.object(); err != nil {
		return nil, err
	}
	if n := c.body.get("archived"); n.present && c.version.trashOnly() {
		return nil, n.should("not present")
	}
	trash, err := c.decodeTrash()
	if err != nil {
		return nil, err
	}
	if d.Trashed && (trash == nil || *trash) {
		return nil, trashed()
	}
	if d, err = c.describe(d); err != nil {
		return nil, err
	}
	if trash != nil {
		d = c.editDatabase(d, func(d *database) { d.Trashed = *trash })
	}
	if n := c.body.opt("properties"); n.present {
		if c.version.hasSources() {
			return nil, n.should("not present")
		}
		if err := c.tx.updateSchema(c.world.first(d), n); err != nil {
			return nil, err
		}
	}
	if !c.version.hasSources() && c.body.get("title").present {
		c.editSource(c.world.first(d), func(s *source) { s.Name = d.Title })
	}
	return func() map[string]any { return c.encodeDatabase(c.world.Databases[d.ID]) }, nil
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

// encodeDatabaseParent encodes the parent of a database, which for a row of another database is that
// one, whatever the version.
func (c *call) encodeDatabaseParent(d *database) map[string]any {
	if s := c.world.Sources[d.Parent.Source]; s != nil {
		return c.encodeParent(parent{Database: s.Database})
	}
	return c.encodeParent(d.Parent)
}

// stamp formats a timestamp of a database: to the minute in old versions, to the millisecond and
// with an offset in later ones.
func (c *call) stamp(t time.Time) string {
	if c.version.hasSources() {
		return t.UTC().Format(shownLayout)
	}
	return stamp(t)
}
