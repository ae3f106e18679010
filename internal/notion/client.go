package notion

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// Options configures a Client: how it reaches Notion, and how fast. Only Token is
// required.
type Options = transport.Options

// APIError is an error answered by Notion, or by the edge in front of it.
type APIError = transport.APIError

// Client is one connection to a Notion workspace: one token, one rate limit, one estimate of
// Notion's time. It is safe for concurrent use. A process should have only one, because the rate
// limit belongs to the token.
type Client struct {
	token   string
	carrier *transport.Transport
	sources sources
	log     *slog.Logger // nil if there is none
	writes  writes
	bot     atomic.Pointer[string] // see Bot
	users   Users
	// tasks is the data source of the tasks that was opened last, if any.
	tasks atomic.Pointer[task.ID]
}

// New returns a client. It sends nothing.
func New(o Options) (*Client, error) {
	o.Token = strings.TrimSpace(o.Token)
	switch {
	case o.Token == "":
		return nil, errors.New("no Notion token: set notion.token, notion.token_file or NOTION_TOKEN")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the Notion token contains characters that no token has: check notion.token")
	}
	carrier, err := transport.New(o)
	if err != nil {
		return nil, err
	}
	c := &Client{token: o.Token, carrier: carrier, log: o.Log, sources: sources{
		keys: make(map[task.ID]string), used: make(map[task.ID]Choice),
	}}
	c.users = Users{client: c, known: make(map[string]learned)}
	return c, nil
}

// Patient returns a context whose requests wait out a pause that Notion asks for, up to longest,
// see transport.Patient.
func Patient(ctx context.Context, longest time.Duration) context.Context {
	return transport.Patient(ctx, longest)
}

// Impatient returns a context for a waiting user, see transport.Impatient.
func Impatient(ctx context.Context) context.Context { return transport.Impatient(ctx) }

// Awaited is Impatient for reading a page for a claim's holder. The requests use the lane of the
// logs: they do not take a claim's place, and the mirror's queries do not take theirs.
func Awaited(ctx context.Context) context.Context {
	return transport.InLaneUnlessChosen(Impatient(ctx), transport.LaneLog)
}

// Background returns a context for a read that nobody waits for: its requests use the lane of the
// mirror's queries, unless it has a lane already.
func Background(ctx context.Context) context.Context {
	return transport.InLaneUnlessChosen(ctx, transport.LaneSync)
}

// Now returns the best estimate of Notion's time, see transport.Transport.Now.
func (c *Client) Now() time.Time { return c.carrier.Now() }

// DoubtsNow reports whether the last answer contradicted Now. The next one decides.
func (c *Client) DoubtsNow() bool { return c.carrier.DoubtsNow() }

// Uses reports whether token is the client's own.
func (c *Client) Uses(token string) bool { return strings.TrimSpace(token) == c.token }

// Down returns an error while nothing is sent because Notion is down; it says since when, and why.
// It returns nil while Notion is up, as far as is known.
func (c *Client) Down() error { return c.carrier.Down() }

// Back returns a channel that is closed when Notion answers again after it was down.
func (c *Client) Back() <-chan struct{} { return c.carrier.Back() }

// Await records that somebody waits for Notion, see transport.Transport.Await.
func (c *Client) Await() { c.carrier.Await() }

// Paused returns an error during a pause that Notion asked for; it says when the pause ends. It
// returns nil if there is none, or if it ends within a few seconds. The error is a
// *claim.StoreError.
func (c *Client) Paused() error {
	if err := c.carrier.Paused(); err != nil {
		return notSent(err)
	}
	return nil
}

// SetRate changes Options.Rate and Options.Burst.
func (c *Client) SetRate(perSecond float64, burst int) error {
	return c.carrier.SetRate(perSecond, burst)
}

// Stats counts the requests that were sent, and those that wait.
func (c *Client) Stats() transport.Stats { return c.carrier.Stats() }

// Permit waits until n requests may be sent without a wait between them, and returns a context that
// carries these permits, see transport.Transport.Permit. A caller that may not use them all must
// end ctx when done. The error is a *claim.StoreError.
func (c *Client) Permit(ctx context.Context, n int) (context.Context, error) {
	ctx, err := c.carrier.Permit(ctx, n)
	if err != nil {
		return nil, notSent(err)
	}
	return ctx, nil
}
