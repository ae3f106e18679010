package emulator

import (
	"cmp"
	"maps"
	"slices"
)

// encodeBelow encodes the databases and pages directly on a page as blocks, in the order of their
// creation.
func (c *call) encodeBelow(pageID string) []any {
	below := parent{Page: pageID}
	type child struct {
		seq    int64
		encode func() map[string]any
	}
	var children []child
	for _, d := range c.world.Databases {
		if d.Parent == below && !d.Trashed && !c.world.Hidden[d.ID] {
			children = append(children, child{d.Seq, func() map[string]any { return c.encodeDatabaseBlock(d) }})
		}
	}
	for _, p := range c.world.Pages {
		if p.Parent == below && p.live() && !c.world.hidden(p) {
			children = append(children, child{p.Seq, func() map[string]any { return c.encodePageBlock(p) }})
		}
	}
	slices.SortFunc(children, func(a, b child) int { return cmp.Compare(a.seq, b.seq) })
	out := []any{}
	for _, ch := range children {
		out = append(out, ch.encode())
	}
	return out
}

// encodeDatabaseBlock encodes a database as a child_database block.
func (c *call) encodeDatabaseBlock(d *database) map[string]any {
	m := c.encodeDatabase(d)
	for _, key := range []string{"cover", "icon", "is_inline", "is_locked", "properties", "data_sources", "title", "description", "url", "public_url"} {
		delete(m, key)
	}
	maps.Copy(m, map[string]any{
		"object":         "block",
		"created_by":     partialUser(d.CreatedBy),
		"last_edited_by": partialUser(d.EditedBy),
		"type":           "child_database",
		"child_database": map[string]any{"title": plainText(d.Title)},
		"has_children":   false,
	})
	return m
}
