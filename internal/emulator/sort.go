package emulator

import (
	"cmp"
	"slices"
	"strings"
)

// order puts rows in a query's order; it is total.
type order func(a, b *page) int

// newestFirst is the order of rows that a query's sorts leave equal. Notion
// promises none, so nobody should expect the order of creation.
func newestFirst(a, b *page) int { return cmp.Compare(b.Seq, a.Seq) }

// compileSorts reads a query's sorts.
func (c *call) compileSorts(s *source, n node) (order, error) {
	if n.absent() {
		return newestFirst, nil
	}
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	var keys []order
	for _, e := range elements {
		key, err := c.compileSort(s, e)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return func(a, b *page) int {
		for _, key := range keys {
			if o := key(a, b); o != 0 {
				return o
			}
		}
		return newestFirst(a, b)
	}, nil
}

func (c *call) compileSort(s *source, n node) (order, error) {
	if err := n.only("property", "timestamp", "direction"); err != nil {
		return nil, err
	}
	sign := 1
	if d := n.get("direction"); d.present {
		direction, err := d.oneOf("ascending", "descending")
		if err != nil {
			return nil, err
		}
		if direction == "descending" {
			sign = -1
		}
	}
	if t := n.get("timestamp"); t.present {
		kind, err := t.oneOf("created_time", "last_edited_time")
		if err != nil {
			return nil, err
		}
		if kind == "created_time" {
			return func(a, b *page) int { return sign * a.created().Compare(b.created().Time) }, nil
		}
		return func(a, b *page) int { return sign * a.edited().Compare(b.edited().Time) }, nil
	}
	name, err := n.get("property").text(maxContent)
	if err != nil {
		return nil, err
	}
	p, ok := s.property(name)
	if !ok {
		return nil, invalid("Could not find sort property with name or id: %s", name)
	}
	return func(a, b *page) int {
		x, y := c.sortKey(a, p), c.sortKey(b, p)
		if x.empty || y.empty {
			return compareBools(x.empty, y.empty) // empty ones come last, whatever the direction
		}
		return sign * cmp.Or(cmp.Compare(x.number, y.number), strings.Compare(x.text, y.text))
	}, nil
}

// sortKey is what a row is sorted by: numbers before text.
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
		return sortKey{number: float64(m.Unix())}
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
