package emulator

import (
	"cmp"
	"slices"
	"strings"
)

// order compares rows by a query's sorts, one after the other. Rows that are equal come newest
// first. Notion promises no order there, so nobody should rely on creation order.
type order []sortBy

// sortBy is one of a query's sorts.
type sortBy struct {
	key        func(*page) sortKey
	descending bool
	grows      bool // newer rows usually have larger keys
}

// forward reports whether visiting rows in the order of their creation, rather than in reverse, is
// nearly the sorted order.
func (o order) forward() bool { return len(o) > 0 && o[0].grows && !o[0].descending }

// ranked is a row with its keys.
type ranked struct {
	*page
	keys []sortKey
}

// rank computes the keys of a row, reusing the memory of keys.
func (o order) rank(p *page, keys []sortKey) ranked {
	keys = keys[:0]
	for _, by := range o {
		keys = append(keys, by.key(p))
	}
	return ranked{p, keys}
}

// compare is a total order.
func (o order) compare(a, b ranked) int {
	for i, by := range o {
		x, y := &a.keys[i], &b.keys[i]
		if x.empty || y.empty {
			if c := compareBools(x.empty, y.empty); c != 0 {
				return c // empty values come last in both directions
			}
			continue
		}
		c := cmp.Compare(x.number, y.number)
		if c == 0 {
			c = strings.Compare(x.text, y.text)
		}
		switch {
		case c == 0:
		case by.descending:
			return -c
		default:
			return c
		}
	}
	return cmp.Compare(b.Seq, a.Seq)
}

// compileSorts decodes a query's sorts.
func (c *call) compileSorts(s *source, n node) (order, error) {
	if !n.present {
		return nil, nil
	}
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	var o order
	for _, e := range elements {
		by, err := c.compileSort(s, e)
		if err != nil {
			return nil, err
		}
		o = append(o, by)
	}
	return o, nil
}

func (c *call) compileSort(s *source, n node) (sortBy, error) {
	if err := n.only("property", "timestamp", "direction"); err != nil {
		return sortBy{}, err
	}
	direction, err := n.get("direction").oneOf("ascending", "descending")
	if err != nil {
		return sortBy{}, err
	}
	descending := direction == "descending"
	if t := n.get("timestamp"); t.present {
		kind, err := t.oneOf("created_time", "last_edited_time")
		if err != nil {
			return sortBy{}, err
		}
		if kind == "created_time" {
			return sortBy{func(p *page) sortKey { return p.created().sortKey() }, descending, true}, nil
		}
		return sortBy{func(p *page) sortKey { return p.edited().sortKey() }, descending, true}, nil
	}
	name, err := n.get("property").text(maxContent)
	if err != nil {
		return sortBy{}, err
	}
	p, ok := s.property(name)
	if !ok {
		return sortBy{}, invalid("Could not find sort property with name or id: %s", name)
	}
	return sortBy{func(row *page) sortKey { return c.sortKey(row, p) }, descending, false}, nil
}

// sortKey is a row's key for one sort: number first, then text.
type sortKey struct {
	empty  bool
	number float64
	text   string
}

func (c *call) sortKey(row *page, p property) sortKey {
	v := row.Values[p.ID]
	switch p.Type {
	case "number", "unique_id":
		f, ok := v.float()
		return sortKey{number: f, empty: !ok}
	case "checkbox":
		if v.Checked {
			return sortKey{number: 1}
		}
		return sortKey{}
	case "select", "status":
		o, ok := c.world.chosen(row, p)
		i := slices.IndexFunc(p.Options, func(x option) bool { return x.ID == o.ID })
		return sortKey{number: float64(i), empty: !ok}
	case "multi_select":
		names := v.names(p)
		return sortKey{text: strings.Join(names, ","), empty: len(names) == 0}
	case "date", "created_time", "last_edited_time":
		m := row.moment(p)
		if m == nil {
			return sortKey{empty: true}
		}
		return m.sortKey()
	case "people", "created_by", "last_edited_by":
		var names []string
		for _, id := range row.people(p) {
			if u, ok := c.world.Users[id]; ok {
				names = append(names, strings.ToLower(u.Name))
			}
		}
		return sortKey{text: strings.Join(names, ","), empty: len(names) == 0}
	case "relation":
		related := c.world.related(v)
		return sortKey{number: float64(len(related)), empty: len(related) == 0}
	case "formula", "rollup":
		m, _ := v.rawJSON().(map[string]any)
		f, isNumber := m["number"].(float64)
		s, isText := m["string"].(string)
		return sortKey{number: f, text: strings.ToLower(s), empty: !isNumber && !isText}
	}
	s := v.plain()
	return sortKey{text: strings.ToLower(s), empty: s == ""}
}

func (m moment) sortKey() sortKey { return sortKey{number: float64(m.Unix())} }

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
