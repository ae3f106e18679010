package emulator

import (
	"slices"
	"time"
)

// hit is an object that a search found.
type hit struct {
	object string
	title  string
	edited time.Time
	seq    int64
	encode func() map[string]any
}

// search finds pages and databases by their titles, those edited last first.
func (c *call) search() (render, error) {
	if c.body.present {
		if err := c.body.only("query", "filter", "sort", "start_cursor", "page_size"); err != nil {
			return nil, err
		}
	}
	wanted, err := c.searchFilter()
	if err != nil {
		return nil, err
	}
	words := ""
	if q := c.body.opt("query"); q.present {
		if words, err = q.text(maxContent); err != nil {
			return nil, err
		}
	}
	ascending, err := c.searchSort()
	if err != nil {
		return nil, err
	}
	hits := slices.DeleteFunc(c.searchable(), func(h hit) bool {
		return wanted != "" && h.object != wanted || !contains(h.title, words)
	})
	slices.SortFunc(hits, func(a, b hit) int {
		o := b.edited.Compare(a.edited)
		if o == 0 {
			o = int(b.seq - a.seq)
		}
		if ascending {
			o = -o
		}
		return o
	})
	var all []any
	for _, h := range hits {
		all = append(all, h.encode())
	}
	kind := "page_or_database"
	if c.version.hasSources() {
		kind = "page_or_data_source"
	}
	return c.list(kind, all, c.body.opt)
}

// searchFilter returns the kind of object asked for, "" for any.
func (c *call) searchFilter() (string, error) {
	f := c.body.opt("filter")
	if !f.present {
		return "", nil
	}
	if _, err := f.get("property").oneOf("object"); err != nil {
		return "", err
	}
	if c.version.hasSources() {
		return f.get("value").oneOf("page", "data_source")
	}
	return f.get("value").oneOf("page", "database")
}

func (c *call) searchSort() (ascending bool, err error) {
	s := c.body.opt("sort")
	if !s.present {
		return false, nil
	}
	if _, err := s.get("timestamp").oneOf("last_edited_time"); err != nil {
		return false, err
	}
	direction, err := s.get("direction").oneOf("ascending", "descending")
	return direction == "ascending", err
}

// searchable returns all objects that are shared and not in the trash.
func (c *call) searchable() []hit {
	var hits []hit
	for _, p := range c.world.Pages {
		if p.live() && !c.world.hidden(p) {
			hits = append(hits, hit{"page", c.world.title(p), p.Edited, p.Seq, func() map[string]any { return c.encodePage(p, nil) }})
		}
	}
	for _, d := range c.world.Databases {
		if d.Trashed || d.Linked || c.world.Hidden[d.ID] {
			continue
		}
		if !c.version.hasSources() {
			if len(c.world.sources(d)) == 1 {
				hits = append(hits, hit{"database", plainText(d.Title), d.Edited, d.Seq, func() map[string]any { return c.encodeDatabase(d) }})
			}
			continue
		}
		for _, id := range c.world.sources(d) {
			s := c.world.Sources[id]
			hits = append(hits, hit{"data_source", plainText(s.Name), s.Edited, s.Seq, func() map[string]any { return c.encodeSource(s) }})
		}
	}
	return hits
}

func (c *call) getMe() (render, error) {
	return func() map[string]any {
		m := c.world.encodeUser(botID)
		m["bot"] = map[string]any{
			"owner":            map[string]any{"type": "workspace", "workspace": true},
			"workspace_name":   workspaceName,
			"workspace_id":     workspaceID,
			"workspace_limits": map[string]any{"max_file_upload_size_in_bytes": 5 << 20},
		}
		return m
	}, nil
}

func (c *call) getUser() (render, error) {
	id := c.params["user_id"]
	if _, ok := c.world.Users[id]; !ok {
		return nil, notFound("user", id)
	}
	return func() map[string]any { return c.world.encodeUser(id) }, nil
}

func (c *call) listUsers() (render, error) {
	var all []any
	ids := sortedKeys(c.world.Users)
	slices.SortStableFunc(ids, func(a, b string) int { return compareBools(b == botID, a == botID) })
	for _, id := range ids {
		all = append(all, c.world.encodeUser(id))
	}
	return c.list("user", all, c.param)
}
