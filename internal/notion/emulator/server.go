package emulator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ServeHTTP answers a request of Notion's API, or of the emulator's own API below /_emulator/.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	most := int64(maxRead)
	if !e.knows(r) {
		most = maxUnauthorized
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if strings.HasPrefix(r.URL.Path, controlPath) {
		e.control(w, r, body)
		return
	}
	before, after := e.latencyOf(r)
	if !e.wait(r, before) {
		panic(http.ErrAbortHandler)
	}
	logged := e.arrived(r, body)
	a := e.serve(r, body)
	if !a.cut && !e.wait(r, after) {
		a = &answer{cut: true}
	}
	e.answered(logged, a)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	w.Write(a.body) // an error means that the client is gone
}

func (e *Emulator) latencyOf(r *http.Request) (before, after time.Duration) {
	e.mu.Lock()
	f := e.latency
	e.mu.Unlock()
	if f == nil {
		return 0, 0
	}
	return f(r)
}

// serve carries out a request. It checks in Notion's order: JSON, path, token, version, rate limit.
func (e *Emulator) serve(r *http.Request, body []byte) *answer {
	c, route, err := e.parse(r, body)
	if err == nil {
		err = e.admit()
	}
	if err != nil {
		return errorAnswer(err)
	}
	f := e.strike(r, body, route)
	if f == nil {
		return e.apply(c, route)
	}
	return e.faulty(f, r, c, route)
}

func (e *Emulator) parse(r *http.Request, body []byte) (*call, *route, error) {
	c := &call{query: r.URL.Query(), body: node{path: "body"}}
	if len(body) > maxBody {
		return nil, nil, invalid("body failed validation: body.length should be ≤ `%d`.", maxBody)
	}
	if len(body) == maxUnauthorized && !e.knows(r) {
		return nil, nil, unauthorized(r.Header) // the rest was not read
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &c.body.value); err != nil {
			return nil, nil, invalidJSON()
		}
		c.body.present = true
	}
	route, params := findRoute(r.Method, r.URL.EscapedPath())
	if route == nil {
		return nil, nil, invalidURL()
	}
	if !e.knows(r) {
		return nil, nil, unauthorized(r.Header)
	}
	var err error
	if c.version, err = e.parseVersion(r.Header); err != nil {
		return nil, nil, err
	}
	if c.version < route.since || route.until != "" && c.version >= route.until {
		return nil, nil, invalidURL()
	}
	c.params, err = parseParams(params)
	return c, route, err
}

// parseParams converts the ids of a path to their canonical form.
func parseParams(params map[string]string) (map[string]string, error) {
	for name, v := range params {
		if name == propertyParam {
			continue
		}
		id, err := node{path: "path." + name, value: v, present: true}.id()
		if err != nil {
			return nil, err
		}
		params[name] = id
	}
	return params, nil
}

// routes lists the endpoints; the first that matches counts.
var routes = []route{
	{method: http.MethodGet, pattern: "/v1/users/me", handle: (*call).getMe},
	{method: http.MethodGet, pattern: "/v1/users", handle: (*call).listUsers},
	{method: http.MethodGet, pattern: "/v1/users/{user_id}", handle: (*call).getUser},

	{method: http.MethodPost, pattern: "/v1/databases", effect: writes, handle: (*call).createDatabase},
	{method: http.MethodGet, pattern: "/v1/databases/{database_id}", handle: (*call).getDatabase},
	{method: http.MethodPatch, pattern: "/v1/databases/{database_id}", effect: writes, handle: (*call).updateDatabase},
	{method: http.MethodPost, pattern: "/v1/databases/{database_id}/query", effect: queries, handle: (*call).queryDatabase, until: version2025},

	{method: http.MethodPost, pattern: "/v1/data_sources", effect: writes, handle: (*call).createSource, since: version2025},
	{method: http.MethodGet, pattern: "/v1/data_sources/{data_source_id}", handle: (*call).getSource, since: version2025},
	{method: http.MethodPatch, pattern: "/v1/data_sources/{data_source_id}", effect: writes, handle: (*call).updateSource, since: version2025},
	{method: http.MethodPost, pattern: "/v1/data_sources/{data_source_id}/query", effect: queries, handle: (*call).querySource, since: version2025},

	{method: http.MethodPost, pattern: "/v1/pages", effect: writes, handle: (*call).createPage},
	{method: http.MethodGet, pattern: "/v1/pages/{page_id}", handle: (*call).getPage},
	{method: http.MethodPatch, pattern: "/v1/pages/{page_id}", effect: writes, handle: (*call).updatePage},
	{method: http.MethodGet, pattern: "/v1/pages/{page_id}/markdown", handle: (*call).getMarkdown, since: version2025},
	{method: http.MethodGet, pattern: "/v1/pages/{page_id}/properties/{" + propertyParam + "}", handle: (*call).getPropertyItem},

	{method: http.MethodGet, pattern: "/v1/blocks/{block_id}", handle: (*call).getBlock},
	{method: http.MethodDelete, pattern: "/v1/blocks/{block_id}", effect: writes, handle: (*call).trashBlock},
	{method: http.MethodGet, pattern: "/v1/blocks/{block_id}/children", handle: (*call).listChildren},
	{method: http.MethodPatch, pattern: "/v1/blocks/{block_id}/children", effect: writes, handle: (*call).appendChildren},

	{method: http.MethodPost, pattern: "/v1/comments", effect: writes, handle: (*call).createComment},
	{method: http.MethodGet, pattern: "/v1/comments", handle: (*call).listComments},

	{method: http.MethodPost, pattern: "/v1/views", effect: writes, handle: (*call).createView, since: version2025},
	{method: http.MethodGet, pattern: "/v1/views", handle: (*call).listViews, since: version2025},
	{method: http.MethodGet, pattern: "/v1/views/{view_id}", handle: (*call).getView, since: version2025},

	{method: http.MethodPost, pattern: "/v1/search", handle: (*call).search},
}

// findRoute returns a request's endpoint, nil if there is none, and the parameters in its path.
func findRoute(method, path string) (*route, map[string]string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i := range routes {
		r := &routes[i]
		if r.method != method {
			continue
		}
		if params, ok := r.match(segments); ok {
			return r, params
		}
	}
	return nil, nil
}

func (r *route) match(segments []string) (map[string]string, bool) {
	pattern := strings.Split(strings.Trim(r.pattern, "/"), "/")
	if len(pattern) != len(segments) {
		return nil, false
	}
	params := map[string]string{}
	for i, p := range pattern {
		s, err := url.PathUnescape(segments[i])
		if err != nil {
			return nil, false
		}
		if name, ok := strings.CutPrefix(p, "{"); ok {
			params[strings.TrimSuffix(name, "}")] = s
		} else if p != s {
			return nil, false
		}
	}
	return params, true
}
