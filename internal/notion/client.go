package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

const (
	// libraryURL is where the library sends its requests; baseURL redirects them.
	libraryURL = "https://api.notion.com"
	// apiVersion is the version that the library speaks.
	apiVersion = "2022-06-28"
)

// Options configures a Client. Only Token is required.
type Options struct {
	Token string
	// BaseURL is the server, with http or https and perhaps a path to put before
	// every request's. The default is https://api.notion.com.
	BaseURL string
	// Rate is how many requests a second may be sent, as an average over any
	// window of 60 seconds. The default is 3.
	Rate float64
	// Burst is how many of them may be sent at once. The default is 10.
	Burst int
	// Timeout is how long a request may take, from its sending to the end of the
	// answer; waiting for a permit does not count. The default is 10 seconds.
	Timeout time.Duration
	// Transport sends the requests. The default is a transport of the client's own.
	Transport http.RoundTripper
	// Log gets a line for every request, at debug level, and for every pause.
	Log *slog.Logger
}

// Client is one connection to a Notion workspace: one token, one rate limit, one
// idea of Notion's time. It is safe for concurrent use, and a process should have
// one only, since the rate limit belongs to the token.
type Client struct {
	api     *notionapi.Client
	http    *http.Client
	token   string
	permits *permits
	breaker *breaker
	meter   *meter
	clock   *clock
	sources *sources
	// tasks is the tasks database that was opened last, if any.
	tasks atomic.Pointer[task.ID]
}

// New returns a client. It sends nothing.
func New(o Options) (*Client, error) {
	switch token := strings.TrimSpace(o.Token); {
	case token == "":
		return nil, errors.New("no Notion token: set notion.token, notion.token_file or NOTION_TOKEN")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the Notion token contains characters that no token has: check notion.token")
	default:
		o.Token = token
	}
	base, err := parseBaseURL(cmp.Or(o.BaseURL, libraryURL))
	if err != nil {
		return nil, err
	}
	permits, err := newPermits(cmp.Or(o.Rate, 3), cmp.Or(o.Burst, 10))
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("a request timeout of %s: want more than nothing, see notion.timeout", o.Timeout)
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	c := &Client{
		token:   o.Token,
		permits: permits,
		meter:   newMeter(o.Log),
		clock:   newClock(),
		sources: new(sources),
	}
	var chain http.RoundTripper
	chain = &send{next: o.Transport, timeout: cmp.Or(o.Timeout, 10*time.Second), limit: answerLimit}
	chain = &redact{next: chain, token: o.Token}
	chain = &baseURL{next: chain, base: base}
	chain = &tell{next: chain, clock: c.clock}
	chain = &typed{next: chain}
	chain = &measured{next: chain, meter: c.meter}
	chain = &pace{next: chain, permits: c.permits, log: o.Log}
	c.breaker = &breaker{next: chain, log: o.Log}
	chain = c.breaker
	chain = &retry{next: chain, base: 500 * time.Millisecond}
	chain = &source{next: chain, sources: c.sources}
	chain = &repair{next: chain, sources: c.sources}
	c.http = &http.Client{Transport: chain}
	c.api = notionapi.NewClient(notionapi.Token(o.Token),
		notionapi.WithHTTPClient(c.http), notionapi.WithVersion(apiVersion), notionapi.WithRetry(1))
	return c, nil
}

// Now is the best estimate of Notion's time: what the answers' Date headers said,
// and the time that has passed since. Before the first answer it is this
// machine's time.
func (c *Client) Now() time.Time { return c.clock.now() }

// Uses reports whether token is the client's own.
func (c *Client) Uses(token string) bool { return strings.TrimSpace(token) == c.token }

// Down says since when nothing is sent because Notion is down, and why; nil if it
// is up for all that is known.
func (c *Client) Down() error { return c.breaker.check() }

// Paused says that Notion asked to be left alone for longer than a few seconds from
// now, and when to try again; nil if it did not.
func (c *Client) Paused() error {
	if err := c.permits.check(); err != nil {
		return heldBack(err)
	}
	return nil
}

// SetRate changes Options.Rate and Options.Burst.
func (c *Client) SetRate(perSecond float64, burst int) error {
	return c.permits.setRate(perSecond, burst)
}

// Permit waits until n requests may be sent with nothing waiting between them,
// and returns a context that carries those permits: a request made with it goes
// out at once. It fails at once while Notion is down, or asked to be left alone
// for longer than a few seconds, and the error says when to try again. Permits
// that are not used when ctx ends, or a few seconds later, are given back, and a
// request that comes after that waits in line again. So whoever may not use all of
// them should take them with a context of its own and cancel that when done.
func (c *Client) Permit(ctx context.Context, n int) (context.Context, error) {
	if err := c.breaker.check(); err != nil {
		return nil, heldBack(err)
	}
	ctx, err := c.permits.grant(ctx, n)
	if err != nil {
		return nil, heldBack(err)
	}
	return ctx, nil
}

// get makes a request that the library has no call for.
func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.getIn(ctx, apiVersion, path, query, answer)
}

// getIn makes such a request in a version of the API.
func (c *Client) getIn(ctx context.Context, version, path string, query url.Values, answer any) error {
	address := libraryURL + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Notion-Version", version)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}
