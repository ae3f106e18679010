package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// answerLimit is the most bytes that an answer may have: 160 KB for each of a
	// hundred rows. Notion itself takes requests of 500 KB at the most, and its full
	// answers have some megabytes.
	answerLimit = 16 << 20
	// valuesLimit is the most values that an answer in JSON may have: 1,000 for each
	// of a hundred rows, where a row of twenty properties has some 300. To read one
	// takes much more memory than its bytes do.
	valuesLimit = 100_000
	// headerLimit is the most bytes that the header of an answer may have. The
	// default of net/http is ten megabytes.
	headerLimit = 256 << 10
	// expected is the most that is set aside for an answer because its header says
	// that it is so long. A longer one takes more as it comes.
	expected = 1 << 20
)

// errNoAnswer is behind the error of a request that used up its time limit.
var errNoAnswer = errors.New("no answer")

// send makes one request and reads the whole answer, within the time limit.
type send struct {
	next    http.RoundTripper
	timeout time.Duration
	limit   int64 // on the size of the answer, in bytes
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
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if said := resp.ContentLength; said > 0 {
		body.Grow(int(min(said, expected)) + bytes.MinRead) // or it grows once more to find the end
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

// values counts the values of a text in JSON, those in others too, and never too few.
// Nothing is read into memory for it.
func values(text []byte) int {
	n, inString := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '{' || c == '['): // each has at most one value behind it
			n++
		}
	}
	return n
}

// newNetwork returns a transport that connects to the network. It notices a
// connection that is dead, as after the machine was suspended, by pings. Without them,
// one request after another would use up its time limit first.
func newNetwork() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 10
	t.MaxResponseHeaderBytes = headerLimit
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return t
}
