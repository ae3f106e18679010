package emulator

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// call is one request being carried out.
type call struct {
	*tx
	params  map[string]string // of the path
	query   url.Values
	body    node
	version version
	// past is how old the data is that a query or a page's read returns.
	past time.Duration
	// step is what dates are rounded up to; zero cuts them to the minute.
	step time.Duration
	// first puts appended blocks before the others, again lets what is in the trash be trashed.
	first, again bool
	// early renders the answer before the call is rolled back.
	early bool
	// created is the id of the object that the call made.
	created string
}

// render returns the body of an answer. It is called after the transaction is committed or rolled
// back, with the lock still held.
type render func() map[string]any

// answer is what goes back to the client.
type answer struct {
	status int
	header http.Header
	body   []byte
	// cut closes the connection instead of answering.
	cut bool
}

func jsonAnswer(status int, header http.Header, requestID string, body map[string]any) *answer {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("X-Notion-Request-Id", requestID)
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &answer{status: status, header: header, body: compact(body)}
}

func errorAnswer(err error) *answer {
	e, isE := errors.AsType[*apiError](err)
	if !isE {
		e = &apiError{status: http.StatusInternalServerError, code: "internal_server_error", message: err.Error()}
	}
	id := newID()
	return jsonAnswer(e.status, e.header(), id, e.body(id))
}

// maxRead is how much of a body is read: more than is accepted, so that a client that sends too
// much can still read the refusal.
const maxRead = 32 * maxBody

// maxUnauthorized is how much is read of a body without the token.
const maxUnauthorized = 64 << 10

// effect says what a request does.
type effect int

const (
	reads   effect = iota
	queries        // reads rows through an index, which may lag behind
	writes
	events // sent to the webhook, not asked of the emulator
)

// route is one endpoint.
type route struct {
	method, pattern string
	effect          effect
	handle          func(*call) (render, error)
	since, until    version // until is the first version without it
}

// propertyParam is the only path parameter that is not a UUID.
const propertyParam = "property_id"

// version is a Notion-Version.
type version string

// The supported versions, in ascending order.
const (
	version2022 version = "2022-06-28"
	version2025 version = "2025-09-03"
	version2026 version = "2026-03-11"
)

var versions = []version{version2022, version2025, version2026}

// hasSources reports whether databases have data sources in the version.
func (v version) hasSources() bool { return v >= version2025 }

// trashOnly reports whether in_trash has replaced archived.
func (v version) trashOnly() bool { return v >= version2026 }

// spoken decodes Options.Versions.
func spoken(names []string) ([]version, error) {
	if len(names) == 0 {
		return versions, nil
	}
	var all []version
	for _, v := range versions {
		if slices.Contains(names, string(v)) {
			all = append(all, v)
		}
	}
	for _, name := range names {
		if !slices.Contains(versions, version(name)) {
			return nil, fmt.Errorf("no version of the API is called %q: want %s", name, orList(versions))
		}
	}
	return all, nil
}

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

// maxResults is how many rows one query returns, over all its pages, unless SetQueryLimit changes
// it.
const maxResults = 10_000

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

// param returns a parameter of the request's query as a node.
func (c *call) param(name string) node {
	if !c.query.Has(name) {
		return node{path: "query." + name}
	}
	return node{path: "query." + name, value: c.query.Get(name), present: true}
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
