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
		name   string
		answer *http.Response
		says   string
	}{
		{"broken off", answer, "the answer broke off"},
		{"too long", transporttest.Reply(200, strings.Repeat("x", 101)), "longer than 100 bytes"},
		{"said to be wrong", transporttest.Reply(200, strings.Repeat("x", 101)), "check notion.base_url"},
		{"of the longest length", transporttest.Reply(200, strings.Repeat("x", 100)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &send{timeout: time.Minute, limit: 100, next: transporttest.Server(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
			resp, err := s.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("err = %v, want %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(resp.Body); err != nil || len(data) != 100 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
}

// Whether the time limit ran out or the caller gave up is told apart.
// A proxy with a certificate of its own is an authority that this machine does not know.
func TestUnknownAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &send{timeout: 10 * time.Second, limit: 100, next: newNetwork()}
	if _, err = s.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("err = %v, want SSL_CERT_FILE", err)
	}
}

func TestWhoEndedARequest(t *testing.T) {
	hang := transporttest.Server(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	for _, tc := range []struct {
		name     string
		patience time.Duration // of the caller
		want     string
	}{
		{"the limit", time.Hour, "no answer within 10s"},
		{"the caller", time.Second, context.DeadlineExceeded.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				s := &send{timeout: 10 * time.Second, limit: 100, next: hang}
				_, err := s.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, ""))
				if err == nil || err.Error() != tc.want {
					t.Errorf("err = %v, want %q", err, tc.want)
				}
			})
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
	for _, tc := range []struct{ name, reply, says string }{
		{"no HTTP", secret + " " + secret + "\r\n\r\n", "[redacted]"},
		{"a status of another kind", "HTTP/1.1 " + secret + "\r\n\r\n", "[redacted]"},
		{"a header without a colon", "HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n", "malformed MIME header"},
		{"the token as a header", "HTTP/1.1 429 OK\r\nRetry-After: " + secret + "\r\nX-Notion-Request-Id: " + secret + "\r\nContent-Length: 0\r\n\r\n", "[redacted]"},
		{"a header without an end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 512<<10), "server response headers exceeded"},
		{"nothing", "", "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Options{Token: secret, BaseURL: "http://notion.test", Transport: raw(tc.reply)})
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, "/v1/users/me", ""))
				if text := fmt.Sprint(err); !strings.Contains(text, tc.says) || strings.Contains(text, secret) {
					t.Errorf("err = %v, want one that says %q, and not the token", err, tc.says)
				}
			})
		})
	}
}

// A short word in the place of a token must not be taken out of everything.
func TestShortTokenStays(t *testing.T) {
	r := &redact{token: "OPEN", next: transporttest.Server(func(*http.Request) (*http.Response, error) { return transporttest.Reply(200, `"OPEN"`), nil })}
	resp, err := r.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != `"OPEN"` {
		t.Errorf("the body is %q, %v", body, err)
	}
}
