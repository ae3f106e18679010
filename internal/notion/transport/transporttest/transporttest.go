// Package transporttest holds what tests of requests to Notion share: a server that is a
// function, answers, and requests.
package transporttest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Paths of a page and of a query.
const (
	PagePath  = "/v1/pages/2f835e81-2bbb-81b6-9700-e18108a40b1f"
	QueryPath = "/v1/data_sources/2f835e81-2bbb-81b6-9700-e18108a40b1f/query"
)

// Server is a function that answers requests. It implements http.RoundTripper.
type Server func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f Server) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f(req)
	if req.Body != nil {
		req.Body.Close()
	}
	return resp, err
}

// Reply returns an answer; headers are pairs of a name and a value.
func Reply(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// Failure returns the body of an error of Notion's.
func Failure(code, message string, data map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"object": "error", "code": code, "message": message,
		"additional_data": data, "request_id": "req-1",
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// Request returns a request to Notion.
func Request(t testing.TB, ctx context.Context, method, path, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://api.notion.com"+path, content)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Body returns a request's body, read as a server reads it.
func Body(t testing.TB, req *http.Request) string {
	t.Helper()
	if req.Body == nil {
		return ""
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
