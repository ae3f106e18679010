package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/transport/transporttest"
)

// broken is a body that ends in an error.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (broken) Close() error { return nil }

func TestAnswersAreWhole(t *testing.T) {
	answer := transporttest.Reply(200, `{"object":`)
	answer.Body = broken{answer.Body}
	for _, tc := range []struct {
		answer *http.Response
		says   []string
	}{
		{answer, []string{"the answer broke off"}},
		{transporttest.Reply(200, strings.Repeat("x", 101)), []string{"longer than 100 bytes", "check notion.base_url"}},
		{transporttest.Reply(200, strings.Repeat("x", 100)), nil},
	} {
		s := &send{timeout: time.Minute, limit: 100, next: transporttest.Server(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
		resp, err := s.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
		for _, says := range tc.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("err = %v, want %q", err, says)
			}
		}
		if tc.says == nil {
			must(t, err)
			same(t, 100, len(need(io.ReadAll(resp.Body))(t)), "bytes")
		}
	}
}

// A proxy with a certificate of its own is an authority that this machine does not know.
func TestUnknownAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	req := need(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))(t)
	s := &send{timeout: 10 * time.Second, limit: 100, next: newNetwork()}
	if _, err := s.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("err = %v, want SSL_CERT_FILE", err)
	}
}

// Whether the time limit ran out or the caller gave up is told apart.
func TestWhoEndedARequest(t *testing.T) {
	hang := transporttest.Server(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	for patience, want := range map[time.Duration]string{time.Hour: "no answer within 10s", time.Second: context.DeadlineExceeded.Error()} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := ask(t, &send{timeout: 10 * time.Second, limit: 100, next: hang}, ctx, http.MethodGet)
			if err == nil || err.Error() != want {
				t.Errorf("err = %v, want %q", err, want)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for _, tc := range []struct{ base, url, want string }{
		{"https://api.notion.com", "/v1/users/me", "https://api.notion.com/v1/users/me"},
		{"http://127.0.0.1:8080", "/v1/users/me", "http://127.0.0.1:8080/v1/users/me"},
		{"http://proxy.example/notion/", "/v1/users/me", "http://proxy.example/notion/v1/users/me"},
		{"http://proxy.example/no%2Ftion", "/v1/pages/x/properties/%3BCh%2Fa?page_size=100", "http://proxy.example/no%2Ftion/v1/pages/x/properties/%3BCh%2Fa?page_size=100"},
	} {
		base := need(parseBaseURL(tc.base))(t)
		got, host := "", ""
		chain := &baseURL{base: base, next: transporttest.Server(func(req *http.Request) (*http.Response, error) {
			got, host = req.URL.String(), req.Host
			return transporttest.Reply(200, "{}"), nil
		})}
		req := transporttest.Request(t, t.Context(), http.MethodGet, tc.url, "")
		before := req.URL.String()
		need(chain.RoundTrip(req))(t)
		if got != tc.want || host != base.Host || req.URL.String() != before {
			t.Errorf("%s at %s went to %s, host %s, want %s, and is now %s", tc.url, tc.base, got, host, tc.want, req.URL)
		}
	}
	for _, base := range []string{"api.notion.com", "ftp://api.notion.com", "https://", "https://user@host", "https://host/?x=1", "https://host/#x", "http://[::1"} {
		if _, err := New(Options{Token: "ntn_1", BaseURL: base}); err == nil {
			t.Errorf("New took the base URL %q", base)
		}
	}
}

// raw is a transport to a server that answers every request with the same bytes.
func raw(reply string) http.RoundTripper {
	t := newNetwork().(*http.Transport)
	t.DisableKeepAlives = true
	t.DialContext = func(context.Context, string, string) (net.Conn, error) {
		mine, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				io.WriteString(theirs, reply)
			}
		}()
		return mine, nil
	}
	return t
}

const secret = "ntn_0123456789abcdefghijklmnopqrstuv"

// What a server sends that does not even speak HTTP ends up in errors of net/http.
func TestRawAnswers(t *testing.T) {
	for reply, says := range map[string]string{
		secret + " " + secret + "\r\n\r\n":          "[redacted]",            // no HTTP
		"HTTP/1.1 " + secret + "\r\n\r\n":           "[redacted]",            // a status of another kind
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n": "malformed MIME header", // a header without a colon
		"HTTP/1.1 429 OK\r\nRetry-After: " + secret + "\r\nX-Notion-Request-Id: " + secret + "\r\nContent-Length: 0\r\n\r\n": "[redacted]",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 512<<10):                                                              "server response headers exceeded",
		"": "EOF",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := need(New(Options{Token: secret, BaseURL: "http://notion.test", Transport: raw(reply)}))(t)
			err := ask(t, c, t.Context(), http.MethodGet)
			if text := fmt.Sprint(err); !strings.Contains(text, says) || strings.Contains(text, secret) {
				t.Errorf("err = %v, want one that says %q, and not the token", err, says)
			}
		})
	}
}

// A short word in the place of a token must not be taken out of everything.
func TestShortTokenStays(t *testing.T) {
	r := &redact{token: "OPEN", next: transporttest.Server(func(*http.Request) (*http.Response, error) { return transporttest.Reply(200, `"OPEN"`), nil })}
	resp := need(r.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")))(t)
	same(t, `"OPEN"`, string(need(io.ReadAll(resp.Body))(t)), "body")
}
