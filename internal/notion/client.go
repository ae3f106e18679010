package notion

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
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

// notSent returns the error of a failed wait for permits.
func notSent(err error) *claim.StoreError {
	return &claim.StoreError{Kind: claim.Unavailable, Landed: claim.LandedNo, RetryAfter: transport.RetryAfter(err), Err: err}
}

// Users knows the names of users of the workspace by their ids: people, connections, and Notion's
// own agents, as far as the connection may read them. It is safe for concurrent use.
type Users struct {
	client *Client

	mu    sync.Mutex
	known map[string]learned
}

// learned is a user's name, empty if it could not be read, and when it was asked for.
type learned struct {
	name string
	at   time.Time
}

// heading is the title of a related page, empty if it is not known, and when to read it (again).
type heading struct {
	title string
	due   time.Time
}

// Users returns the names of users, as far as they are known. It sends nothing.
func (c *Client) Users() *Users { return &c.users }

// Name returns the name of a user; empty if it is not known. It sends nothing.
func (u *Users) Name(id string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known[id].name
}

// Choice is the data source of a database that is used.
type Choice struct {
	Wanted string  `json:",omitempty"` // the name or the id that was given; empty if none was
	Source task.ID // empty until it is found
}

// UnmarshalJSON implements json.Unmarshaler. A string is the form in which an earlier version of dibs
// kept a data source that nobody had named.
func (c *Choice) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.Source) == nil {
		return nil
	}
	type fields Choice
	return json.Unmarshal(data, (*fields)(c))
}

// sources records which data source of each database is used. It is safe for concurrent use.
type sources struct {
	mu   sync.Mutex
	keys map[task.ID]string // the configuration's keys for the data sources, by database
	used map[task.ID]Choice
}

func (s *sources) of(database task.ID) (c Choice, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[database], s.keys[database]
}

// set records the data source of a database, unless another one was named meanwhile.
func (s *sources) set(database task.ID, c Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.used[database]; !ok || was.Wanted == c.Wanted {
		s.used[database] = c
	}
}

// writes remembers when pages were written last, in Notion's time. It is safe for concurrent use.
type writes struct {
	mu sync.Mutex
	at lately[task.ID, time.Time]
}

// writing records that a page is written now.
func (c *Client) writing(page task.ID) {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	c.writes.at.put(page, c.Now())
}

// Wrote reports whether this client wrote the page of a task, or a comment on it, at since or later,
// in Notion's time.
func (c *Client) Wrote(page task.ID, since time.Time) bool {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	at, ok := c.writes.at.get(page)
	return ok && !at.Before(since)
}

// memory is how long something about a page is remembered. A page is read right before it is
// written.
const memory = time.Hour

// lately is a cache of something about recently read pages. It is not safe for concurrent use.
type lately[K comparable, V any] struct {
	of map[K]dated[V]
	// full limits the entries. When it is reached, or memory has passed since tidied, old ones are
	// dropped.
	full   int
	tidied time.Time
}

type dated[V any] struct {
	value V
	at    time.Time
}

func (l *lately[K, V]) put(id K, v V) {
	now := time.Now()
	if len(l.of) >= l.full || now.Sub(l.tidied) > memory {
		for id, s := range l.of {
			if now.Sub(s.at) > memory {
				delete(l.of, id)
			}
		}
		l.full, l.tidied = 2*len(l.of)+64, now
	}
	if l.of == nil {
		l.of = make(map[K]dated[V])
	}
	l.of[id] = dated[V]{v, now}
}

func (l *lately[K, V]) get(id K) (V, bool) {
	s, ok := l.of[id]
	return s.value, ok
}

func (l *lately[K, V]) forget(id K) { delete(l.of, id) }
