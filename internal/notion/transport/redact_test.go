package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"dibs/internal/notion/transport/transporttest"
)

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
