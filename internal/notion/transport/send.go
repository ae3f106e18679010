package transport

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// answerLimit is the most bytes in an answer: 160 KB for each of a hundred rows. Notion
	// itself takes requests of at most 500 KB, and its full answers have some megabytes.
	answerLimit = 16 << 20
	// valuesLimit is the most values in a JSON answer: 1,000 for each of a hundred rows, where
	// a row of twenty properties has some 300. A decoded value takes much more memory than its
	// bytes.
	valuesLimit = 100_000
	// headerLimit is the most bytes in the header of an answer. The default of net/http is ten
	// megabytes.
	headerLimit = 256 << 10
	// expected is the most memory that is set aside for an answer because of its
	// Content-Length. A longer answer takes more as it comes.
	expected = 1 << 20
)

// errNoAnswer is wrapped by the error of a request that used up its time limit.
var errNoAnswer = errors.New("no answer")

// send makes one request and reads the whole answer, within the time limit.
type send struct {
	next    http.RoundTripper
	timeout time.Duration
	limit   int64 // the most bytes in the answer
}

func (s *send) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), s.timeout)
	defer cancel()
	resp, err := s.exchange(req.WithContext(ctx))
	if err != nil && ctx.Err() != nil && req.Context().Err() == nil {
		return nil, fmt.Errorf("%w within %s", errNoAnswer, s.timeout)
	}
	return resp, err
}

func (s *send) exchange(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if _, strange := errors.AsType[x509.UnknownAuthorityError](err); strange {
		return nil, fmt.Errorf("%w: if a proxy stands in between, set SSL_CERT_FILE to a file with its authority's certificate", err)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if length := resp.ContentLength; length > 0 {
		body.Grow(int(min(length, expected)) + bytes.MinRead) // room to find the end without growing again
	}
	n, err := body.ReadFrom(io.LimitReader(resp.Body, s.limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case n > s.limit:
		return nil, fmt.Errorf("the answer is longer than %d bytes, as none of Notion's is: check notion.base_url", s.limit)
	case values(body.Bytes()) > valuesLimit:
		return nil, fmt.Errorf("the answer has more than %d values, as none of Notion's has: check notion.base_url", valuesLimit)
	}
	return WithBody(resp, body.Bytes()), nil
}

// values returns at least the number of values in a JSON text, nested ones included, without
// reading anything into memory.
func values(text []byte) int {
	n, inString := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '{' || c == '['): // at most one value follows each
			n++
		}
	}
	return n
}

// newNetwork returns a transport for the network. It detects a dead connection by pings, as
// after the machine was suspended. Without them, one request after another would first use up
// its time limit.
func newNetwork() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 10
	t.MaxResponseHeaderBytes = headerLimit
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return t
}

// DefaultBaseURL is Notion's own server.
const DefaultBaseURL = "https://api.notion.com"

// Version is the version of Notion's API in which all requests are made.
const Version = "2025-09-03"

// baseURL sends requests to the configured server, whichever server they name.
type baseURL struct {
	next http.RoundTripper
	base *url.URL
}

func (b *baseURL) RoundTrip(req *http.Request) (*http.Response, error) {
	to := b.base.JoinPath(req.URL.EscapedPath())
	to.RawQuery = req.URL.RawQuery
	req = req.WithContext(req.Context())
	req.URL, req.Host = to, to.Host
	return b.next.RoundTrip(req)
}

func parseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		shown := "no URL"
		if err == nil { // without what may be a secret
			shown = strconv.Quote((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
		}
		return nil, fmt.Errorf("notion.base_url is %s: set it to http:// or https:// with a host and perhaps a path, and nothing else, such as %s", shown, DefaultBaseURL)
	}
	if u.Path == "" {
		u.Path = "/" // else JoinPath makes a relative path, which HTTP/2 does not take
	}
	return u, nil
}

// redact removes the token from everything that comes back. A server may repeat it, in an error
// or as the title of a page, and it must not get into logs, the journal or another database.
type redact struct {
	next  http.RoundTripper
	token string

	once    sync.Once
	pattern *regexp.Regexp // see escaped
}

// shortestToken is the shortest length of a token that is removed. A shorter one is made up for
// a private server, and may be a word of any page.
const shortestToken = 7

// redacted replaces the token.
const redacted = "[redacted]"

func (r *redact) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if len(r.token) < shortestToken {
		return resp, err
	}
	if err != nil {
		if text := err.Error(); strings.Contains(text, r.token) {
			err = &redactedError{strings.ReplaceAll(text, r.token, redacted), err}
		}
		return nil, err
	}
	body, err := Body(resp)
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	resp.Status = strings.ReplaceAll(resp.Status, r.token, redacted)
	for _, values := range resp.Header {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], r.token, redacted)
		}
	}
	if bytes.Contains(body, []byte(r.token)) {
		body = bytes.ReplaceAll(body, []byte(r.token), []byte(redacted))
	}
	if bytes.Contains(body, []byte(`\u00`)) {
		body = r.escaped().ReplaceAll(body, []byte(redacted))
	}
	return WithBody(resp, body), nil
}

// escaped returns the pattern of the token in JSON, which can write any character as its
// number.
func (r *redact) escaped() *regexp.Regexp {
	r.once.Do(func() {
		var pattern strings.Builder
		for _, c := range []byte(r.token) {
			fmt.Fprintf(&pattern, `(?:%s|\\u00(?i:%02x))`, regexp.QuoteMeta(string(rune(c))), c)
		}
		r.pattern = regexp.MustCompile(pattern.String())
	})
	return r.pattern
}

// redactedError is an error whose text contained the token.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
