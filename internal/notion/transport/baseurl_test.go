package transport

import (
	"net/http"
	"testing"

	"dibs/internal/notion/transport/transporttest"
)

func TestBaseURL(t *testing.T) {
	for _, tc := range []struct{ base, url, want string }{
		{"https://api.notion.com", "/v1/users/me", "https://api.notion.com/v1/users/me"},
		{"http://127.0.0.1:8080", "/v1/users/me", "http://127.0.0.1:8080/v1/users/me"},
		{"http://proxy.example/notion/", "/v1/users/me", "http://proxy.example/notion/v1/users/me"},
		{"http://proxy.example/no%2Ftion", "/v1/pages/x/properties/%3BCh%2Fa?page_size=100", "http://proxy.example/no%2Ftion/v1/pages/x/properties/%3BCh%2Fa?page_size=100"},
	} {
		base, err := parseBaseURL(tc.base)
		if err != nil {
			t.Fatal(err)
		}
		got, host := "", ""
		chain := &baseURL{base: base, next: transporttest.Server(func(req *http.Request) (*http.Response, error) {
			got, host = req.URL.String(), req.Host
			return transporttest.Reply(200, "{}"), nil
		})}
		req := transporttest.Request(t, t.Context(), http.MethodGet, tc.url, "")
		before := req.URL.String()
		if _, err := chain.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if got != tc.want || host != base.Host {
			t.Errorf("%s at %s went to %s, host %s, want %s", tc.url, tc.base, got, host, tc.want)
		}
		if req.URL.String() != before {
			t.Error("the request was changed")
		}
	}
}

func TestBaseURLsThatAreNone(t *testing.T) {
	for _, base := range []string{"api.notion.com", "ftp://api.notion.com", "https://", "https://user@host", "https://host/?x=1", "https://host/#x", "http://[::1"} {
		if _, err := New(Options{Token: "ntn_1", BaseURL: base}); err == nil {
			t.Errorf("New took the base URL %q", base)
		}
	}
}
