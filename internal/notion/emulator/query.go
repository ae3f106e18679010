package emulator

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// maxResults is how many rows one query returns, over all its pages, unless SetQueryLimit changes
// it.
const maxResults = 10_000

// cursor says where the next page of a list begins: after the object ID in its version of the time
// At (Unix nanoseconds), when Returned objects had been given. Because it names the last object,
// changes anywhere in the list neither repeat nor skip anything.
type cursor struct {
	ID       string `json:"id"`
	At       int64  `json:"at,omitempty"`
	Returned int    `json:"n,omitempty"`
}

func (c cursor) encode() string { return base64.RawURLEncoding.EncodeToString(compact(c)) }

// decodeCursor decodes start_cursor; nil for the first page.
func decodeCursor(n node) (*cursor, error) {
	if n.unset() {
		return nil, nil
	}
	s, err := n.text(maxContent)
	if err != nil {
		return nil, err
	}
	c := &cursor{}
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || json.Unmarshal(data, c) != nil || c.ID == "" {
		return nil, badCursor(s)
	}
	return c, nil
}

func badCursor(s string) error { return invalid("The start_cursor provided is invalid: %s", s) }

// pageSize decodes page_size, which is text in a query parameter.
func pageSize(n node) (int, error) {
	if !n.present {
		return maxElements, nil
	}
	f, ok := n.value.(float64)
	if s, isText := n.value.(string); isText && n.path == "query.page_size" {
		i, err := strconv.Atoi(s)
		f, ok = float64(i), err == nil
	}
	switch {
	case !ok || f != float64(int(f)):
		return 0, n.mistyped("a number")
	case f > maxElements:
		return 0, n.should("≤ `%d`", maxElements)
	case f < 1:
		return 0, n.should("≥ `1`")
	}
	return int(f), nil
}

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

// query is a decoded query for rows.
type query struct {
	match predicate
	order order
	size  int
	after *cursor
	// trashed and archived ask for the rows in the trash, or the archived rows, instead of the
	// others.
	trashed, archived bool
}

func (c *call) decodeQuery(s *source) (*query, error) {
	q := &query{match: func(*page) bool { return true }}
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
func (q *query) returned() int {
	if q.after == nil {
		return 0
	}
	return q.after.Returned
}

// rows returns one page of the result, whether more follow, and whether the limit on results cut
// off more.
func (q *query) rows(c *call, s *source) (rows []*page, more, full bool) {
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

// listBody returns a page of a list.
func listBody(kind string, results []any, next string) map[string]any {
	m := map[string]any{"object": "list", "results": results, "next_cursor": nil, "has_more": false, "type": kind, kind: map[string]any{}}
	if next != "" {
		m["has_more"], m["next_cursor"] = true, next
	}
	return m
}

// list answers one page of a list of objects with ids. get returns page_size and start_cursor from
// the request's query or its body.
func (c *call) list(kind string, all []any, get func(string) node) (render, error) {
	n, err := pageSize(get("page_size"))
	if err != nil {
		return nil, err
	}
	after, err := decodeCursor(get("start_cursor"))
	if err != nil {
		return nil, err
	}
	if after != nil {
		i := slices.IndexFunc(all, func(x any) bool { return x.(map[string]any)["id"] == after.ID })
		if i < 0 {
			return nil, badCursor(after.encode())
		}
		all = all[i+1:]
	}
	next := ""
	if len(all) > n {
		all = all[:n]
		next = cursor{ID: all[n-1].(map[string]any)["id"].(string)}.encode()
	}
	return func() map[string]any { return listBody(kind, append([]any{}, all...), next) }, nil
}

// param returns a parameter of the request's query as a node.
func (c *call) param(name string) node {
	if !c.query.Has(name) {
		return node{path: "query." + name}
	}
	return node{path: "query." + name, value: c.query.Get(name), present: true}
}
