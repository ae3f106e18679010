package emulator

import (
	"net/http"
	"net/url"
	"strings"
)

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
