package notion

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// roundTrip is a function that answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f(req)
	if req.Body != nil {
		req.Body.Close()
	}
	return resp, err
}

// reply makes an answer; headers are pairs of a name and a value.
func reply(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// apiError is the body of an error of Notion's.
func apiError(code, message string, data map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"object": "error", "code": code, "message": message,
		"additional_data": data, "request_id": "req-1",
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func request(t *testing.T, ctx context.Context, method, path, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, libraryURL+path, content)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// bodyOf reads a request's body, as a transport does.
func bodyOf(t *testing.T, req *http.Request) string {
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

const (
	pagePath  = "/v1/pages/2f835e81-2bbb-81b6-9700-e18108a40b1f"
	queryPath = "/v1/databases/2f835e81-2bbb-81b6-9700-e18108a40b1f/query"
)
