package transport

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

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
