package emulator

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

func (c *call) queryDatabase() (render, error) {
	d, err := c.database(c.params["database_id"])
	if err != nil {
		return nil, err
	}
	if err := c.singleSource(d); err != nil {
		return nil, err
	}
	return c.queryRows(c.world.first(d))
}

func (c *call) querySource() (render, error) {
	s, err := c.source(c.params["data_source_id"])
	if err != nil {
		return nil, err
	}
	return c.queryRows(s)
}

func (c *call) queryRows(s *source) (render, error) {
	q, err := c.decodeQuery(s)
	if err != nil {
		return nil, err
	}
	only, err := c.only(s)
	if err != nil {
		return nil, err
	}
	rows, more, full := q.rows(c, s)
	below := c.encodeRowDatabases(s)
	kind := "page_or_database"
	if c.version.hasSources() {
		kind = "page_or_data_source"
	}
	return func() map[string]any {
		results := []any{}
		for _, p := range rows {
			results = append(results, c.encodePage(p, only))
		}
		if !more && !full && !q.trashed && !q.archived {
			results = append(results, below...)
		}
		m := listBody(kind, results, "")
		if more {
			last := rows[len(rows)-1]
			next := cursor{ID: last.ID, At: last.Edited.UnixNano(), Returned: q.returned() + len(rows)}
			m["has_more"], m["next_cursor"] = true, next.encode()
		}
		if full {
			m["request_status"] = map[string]any{"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
		}
		return m
	}, nil
}

// rowQuery is a decoded query for rows.
type rowQuery struct {
	match predicate
	order order
	size  int
	after *cursor
	// trashed and archived ask for the rows in the trash, or the archived rows, instead of the
	// others.
	trashed, archived bool
}

func (c *call) decodeQuery(s *source) (*rowQuery, error) {
	q := &rowQuery{match: func(*page) bool { return true }}
	known := []string{"filter", "sorts", "start_cursor", "page_size", "is_archived", "result_type"}
	if !c.version.trashOnly() {
		known = append(known, "archived")
	}
	if c.body.present {
		if err := c.body.only(known...); err != nil {
			return nil, err
		}
	}
	var err error
	if f := c.body.opt("filter"); f.present {
		if q.match, err = c.compileFilter(s, f, 0); err != nil {
			return nil, err
		}
	}
	if q.order, err = c.compileSorts(s, c.body.opt("sorts")); err != nil {
		return nil, err
	}
	if q.size, err = pageSize(c.body.opt("page_size")); err != nil {
		return nil, err
	}
	if q.after, err = decodeCursor(c.body.get("start_cursor")); err != nil {
		return nil, err
	}
	if q.after != nil && c.world.Pages[q.after.ID] == nil {
		return nil, badCursor(q.after.encode())
	}
	if n := c.body.opt("is_archived"); n.present {
		if q.archived, err = n.boolean(); err != nil {
			return nil, err
		}
	}
	trash, err := c.decodeTrash()
	q.trashed = trash != nil && *trash
	return q, err
}

// returned returns how many rows the earlier pages had.
func (q *rowQuery) returned() int {
	if q.after == nil {
		return 0
	}
	return q.after.Returned
}

// rows returns one page of the result, whether more follow, and whether the limit on results cut
// off more.
func (q *rowQuery) rows(c *call, s *source) (rows []*page, more, full bool) {
	left := max(cmp.Or(c.world.QueryLimit, maxResults)-q.returned(), 0)
	size := min(q.size, left)
	first := firsts{order: q.order, most: size + 1} // one more, to know whether more follow
	var last *ranked
	if q.after != nil {
		p := c.world.at(q.after.ID, time.Unix(0, q.after.At))
		if p == nil {
			p = c.world.Pages[q.after.ID]
		}
		last = new(q.order.rank(p, nil))
	}
	// Visit rows nearly in the query's order: then most rows are not among the first and cost no
	// time.
	ids := c.world.Rows[s.ID]
	all := slices.Backward(ids)
	if q.order.forward() {
		all = slices.All(ids)
	}
	var keys []sortKey
	for _, id := range all {
		p := c.world.Pages[id]
		if c.past > 0 {
			p = c.world.at(id, c.now.Add(-c.past))
		}
		if p == nil || p.Archived != q.archived || c.world.inTrash(p) != q.trashed || !q.match(p) || c.world.hidden(p) {
			continue
		}
		row := q.order.rank(p, keys)
		keys = row.keys
		if last == nil || q.order.compare(row, *last) > 0 {
			first.add(row)
		}
	}
	rows = first.sorted()
	if len(rows) <= size {
		return rows, false, false
	}
	return rows[:size], size < left, size == left
}

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

// firsts keeps the first rows of many in an order, at most a given number. It does not sort the
// others: a large board has many.
type firsts struct {
	order order
	most  int
	rows  []ranked // a heap, the last row on top
}

// add keeps a row if it is among the first. It copies the keys.
func (f *firsts) add(r ranked) {
	if len(f.rows) < f.most {
		r.keys = slices.Clone(r.keys)
		heap.Push(f, r)
		return
	}
	if top := &f.rows[0]; f.order.compare(r, *top) < 0 {
		top.page, top.keys = r.page, append(top.keys[:0], r.keys...)
		heap.Fix(f, 0)
	}
}

// sorted empties f and returns its rows in order.
func (f *firsts) sorted() []*page {
	slices.SortFunc(f.rows, f.order.compare)
	pages := make([]*page, len(f.rows))
	for i, r := range f.rows {
		pages[i] = r.page
	}
	f.rows = nil
	return pages
}

// For container/heap.

func (f *firsts) Len() int           { return len(f.rows) }
func (f *firsts) Less(i, j int) bool { return f.order.compare(f.rows[i], f.rows[j]) > 0 }
func (f *firsts) Swap(i, j int)      { f.rows[i], f.rows[j] = f.rows[j], f.rows[i] }
func (f *firsts) Push(x any)         { f.rows = append(f.rows, x.(ranked)) }

// Pop is never called: add replaces the last row in place.
func (f *firsts) Pop() any {
	r := f.rows[len(f.rows)-1]
	f.rows = f.rows[:len(f.rows)-1]
	return r
}
