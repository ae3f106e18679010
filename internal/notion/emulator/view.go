package emulator

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// view is a view of a data source.
type view struct {
	ID       string          `json:"id"`
	Database string          `json:"database"`
	Source   string          `json:"source"`
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Config   json.RawMessage `json:"config,omitempty"`
	Created  time.Time       `json:"created"`
	Seq      int64           `json:"seq"`
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
