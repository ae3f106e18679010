package transport

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	if said := resp.ContentLength; said > 0 {
		body.Grow(int(min(said, expected)) + bytes.MinRead) // room to find the end without growing again
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
