package emulator

import (
	"cmp"
	"slices"
)

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

// encodeRowDatabases encodes the databases that are rows of a data source, in the order of their
// creation.
func (c *call) encodeRowDatabases(s *source) []any {
	var rows []*database
	for _, d := range c.world.Databases {
		if d.Parent.Source == s.ID && !d.Trashed && !c.world.Hidden[d.ID] {
			rows = append(rows, d)
		}
	}
	slices.SortFunc(rows, func(a, b *database) int { return int(a.Seq - b.Seq) })
	var out []any
	for _, d := range rows {
		if c.version.hasSources() {
			out = append(out, c.encodeSource(c.world.first(d)))
		} else {
			out = append(out, c.encodeDatabase(d))
		}
	}
	return out
}

// viewTypes are the types of views that can be made.
var viewTypes = []string{"table", "board", "list", "calendar", "timeline", "gallery", "form", "chart", "map", "dashboard"}

func (c *call) createView() (render, error) {
	err := c.body.only("database_id", "data_source_id", "view_id", "create_database", "name", "type", "filter", "sorts", "quick_filters",
		"configuration", "position", "placement")
	if err != nil {
		return nil, err
	}
	id, err := c.body.get("database_id").id()
	if err != nil {
		return nil, err
	}
	d, err := c.database(id)
	if err != nil {
		return nil, err
	}
	if id, err = c.body.get("data_source_id").id(); err != nil {
		return nil, err
	}
	s, err := c.source(id)
	if err != nil {
		return nil, err
	}
	if s.Database != d.ID {
		return nil, invalid("Data source %s is not in database %s.", s.ID, d.ID)
	}
	v := &view{ID: newID(), Database: d.ID, Source: s.ID, Created: c.now, Seq: c.seq()}
	if v.Name, err = c.body.get("name").text(maxContent); err != nil {
		return nil, err
	}
	if v.Type, err = c.body.get("type").oneOf(viewTypes...); err != nil {
		return nil, err
	}
	if n := c.body.opt("configuration"); n.present {
		if err := s.checkView(v.Type, n); err != nil {
			return nil, err
		}
		v.Config = compact(n.value)
	} else if v.Type == "board" {
		return nil, n.should("defined")
	}
	put(c.tx, c.world.Views, v.ID, v)
	c.created = v.ID
	return func() map[string]any { return c.encodeView(v) }, nil
}

// checkView checks the configuration of a board view: it must be grouped by an existing property of
// the given type. Of other types it checks only the type.
func (s *source) checkView(kind string, n node) error {
	if _, err := n.get("type").oneOf(kind); err != nil || kind != "board" {
		return err
	}
	g := n.get("group_by")
	if _, err := g.object(); err != nil {
		return err
	}
	by, err := g.get("type").oneOf("select", "multi_select", "status", "person", "relation", "date", "checkbox", "formula")
	if err != nil {
		return err
	}
	id, err := g.get("property_id").text(maxContent)
	if err != nil {
		return err
	}
	if p, ok := s.property(id); !ok || p.Type != by {
		return invalid("Could not find property with name or id: %s", id)
	}
	if by == "status" {
		if _, err := g.get("group_by").oneOf("group", "option"); err != nil {
			return err
		}
	}
	_, err = g.get("sort").get("type").oneOf("manual", "ascending", "descending")
	return err
}

func (c *call) getView() (render, error) {
	v, ok := c.world.Views[c.params["view_id"]]
	if !ok || c.world.Hidden[v.Database] {
		return nil, notFound("view", c.params["view_id"])
	}
	return func() map[string]any { return c.encodeView(v) }, nil
}

// listViews lists references to views, without their types.
func (c *call) listViews() (render, error) {
	n := c.param("database_id")
	if !n.present {
		return nil, n.should("defined")
	}
	id, err := n.id()
	if err != nil {
		return nil, err
	}
	d, err := c.database(id)
	if err != nil {
		return nil, err
	}
	var found []*view
	for _, v := range c.world.Views {
		if v.Database == d.ID {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *view) int { return cmp.Compare(a.Seq, b.Seq) })
	var all []any
	for _, v := range found {
		all = append(all, map[string]any{"object": "view", "id": v.ID})
	}
	return c.list("view", all, c.param)
}

func (c *call) encodeView(v *view) map[string]any {
	m := map[string]any{
		"object": "view", "id": v.ID, "name": v.Name, "type": v.Type,
		"parent":         map[string]any{"type": "database_id", "database_id": v.Database},
		"url":            pageURL("", v.Database) + "?v=" + undashed(v.ID),
		"data_source_id": v.Source,
		"filter":         nil, "sorts": nil,
		"created_time": c.stamp(v.Created), "last_edited_time": c.stamp(v.Created),
	}
	if v.Config != nil {
		m["configuration"] = v.Config
	}
	return m
}
