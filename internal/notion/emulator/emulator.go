package emulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configures an emulator.
type Options struct {
	// Token is the only bearer token accepted. If empty, it is the one in the state file, else a
	// random one.
	Token string
	// Limit is the number of requests allowed in each fixed 60-second window; 0 for any number.
	Limit int
	// Versions are the values of Notion-Version to accept, of "2022-06-28", "2025-09-03" and
	// "2026-03-11". Others are refused, as Notion refuses an unknown one. Empty accepts all three.
	Versions []string
	// StateFile keeps the state. It is loaded if it exists, and written atomically after every
	// change, before the change is answered. Empty keeps nothing.
	StateFile string
	// Begin is a state file to start from if StateFile is empty. It is never written, see
	// WriteState.
	Begin string
	// Log gets one line per request; nil discards.
	Log *slog.Logger
}

// Emulator is a Notion workspace behind Notion's API. It is safe for
// concurrent use.
type Emulator struct {
	token string
	log   *slog.Logger
	file  stateFile

	// mu guards the fields below. Nothing waits while it is locked.
	mu       sync.Mutex
	world    *world
	versions []version // accepted, in ascending order
	window   window
	faults   []*injected
	faultSeq int
	requests []*Request
	latency  func(*http.Request) (before, after time.Duration)
	late     map[*time.Timer]bool // writes that take effect after their answer
	closed   chan struct{}        // made by its first user, see stopping
	isClosed bool
	pipes    *pipes
	sender   *sender // nil without a webhook
}

// New makes an emulator, with the state of the state file if there is one.
func New(o Options) (*Emulator, error) {
	e := &Emulator{
		token:  o.Token,
		log:    o.Log,
		file:   stateFile{path: o.StateFile},
		window: window{limit: o.Limit},
		late:   map[*time.Timer]bool{},
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if e.versions, err = spoken(o.Versions); err != nil {
		return nil, err
	}
	if e.world, err = (&stateFile{path: cmp.Or(o.StateFile, o.Begin)}).load(); err != nil {
		return nil, err
	}
	if e.token == "" {
		e.token = cmp.Or(e.world.Token, newToken())
	}
	e.world.Token = e.token
	return e, nil
}

// Token returns the bearer token that the emulator accepts.
func (e *Emulator) Token() string { return e.token }

// Close ends requests that wait, drops late writes and events that are not sent yet, closes the connections of clients made by
// Client, and writes the state file. The emulator can still be read afterwards.
func (e *Emulator) Close() error {
	e.mu.Lock()
	for t := range e.late {
		t.Stop()
	}
	clear(e.late)
	if !e.isClosed && e.closed != nil {
		close(e.closed)
	}
	e.isClosed = true
	pipes, sender := e.pipes, e.sender
	e.pipes, e.sender = nil, nil
	e.mu.Unlock()
	sender.close()
	if pipes != nil {
		pipes.close()
	}
	return e.save()
}

// stopping returns a channel that Close closes. Its first caller makes it, so that inside a
// synctest bubble it belongs to the bubble.
func (e *Emulator) stopping() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed == nil {
		e.closed = make(chan struct{})
		if e.isClosed {
			close(e.closed)
		}
	}
	return e.closed
}

// do runs f as one transaction, rolls it back if f fails, and returns once the state file has the
// change.
func (e *Emulator) do(f func(*tx) error) error {
	e.mu.Lock()
	tx := e.begin(personID)
	tx.direct = true
	err := f(tx)
	changed := e.end(tx, err == nil)
	e.mu.Unlock()
	if err != nil || !changed {
		return err
	}
	return e.save()
}

// begin starts a transaction of that user. The caller has the lock until it ends it.
func (e *Emulator) begin(user string) *tx {
	return &tx{world: e.world, now: time.Now(), user: user, watched: e.sender.hears()}
}

// end commits a transaction, or rolls it back, and reports whether it changed anything. Every change
// of the world passes here.
func (e *Emulator) end(tx *tx, keep bool) (changed bool) {
	if !keep {
		tx.rollback()
	}
	if !tx.changed() {
		return false
	}
	e.file.touch()
	for _, ev := range tx.events() {
		e.sender.publish(ev)
	}
	return true
}

// save writes the state file, if there is one and it is out of date.
func (e *Emulator) save() error {
	return e.file.save(func() ([]byte, int64) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.world.marshal(), e.file.version
	})
}

// WriteState writes the current state to a file from which another emulator can start.
func (e *Emulator) WriteState(path string) error {
	e.mu.Lock()
	data := e.world.marshal()
	e.mu.Unlock()
	return replaceFile(path, data)
}

// SetBlockLimit sets how many blocks (pages, blocks, databases) can still be made, as in a free
// workspace with more than one member: then creating is refused, while properties can still be
// edited. A negative n removes the limit.
func (e *Emulator) SetBlockLimit(n int) error {
	return e.do(func(tx *tx) error {
		limit := &n
		if n < 0 {
			limit = nil
		}
		assign(tx, &tx.world.BlocksLeft, limit)
		return nil
	})
}

// SetQueryLimit sets how many rows one query returns, over all its pages; 0 restores Notion's
// documented 10,000.
func (e *Emulator) SetQueryLimit(n int) error {
	return e.do(func(tx *tx) error {
		assign(tx, &tx.world.QueryLimit, n)
		return nil
	})
}

// SetLatency sets how long a request takes to reach the server, and its answer to come back. f is
// called for each request, possibly by several goroutines at once; nil means no latency.
func (e *Emulator) SetLatency(f func(*http.Request) (before, after time.Duration)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latency = f
}

// wait sleeps for d; it returns false if the request's context or the emulator ended first.
func (e *Emulator) wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-e.stopping():
	}
	return false
}

var _ http.Handler = (*Emulator)(nil)

// Client returns an HTTP client whose connections end in this emulator, whatever host and scheme a
// URL names. A real HTTP server answers, but over pipes instead of sockets, so that the client
// works inside a testing/synctest bubble. The first request starts the server and Close stops it;
// both must then happen inside the bubble.
func (e *Emulator) Client() *http.Client {
	t := &http.Transport{
		DialContext:         e.dial,
		DialTLSContext:      e.dial, // even https is served without TLS
		MaxIdleConnsPerHost: 64,
	}
	return &http.Client{Transport: t}
}

func (e *Emulator) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	e.mu.Lock()
	if e.isClosed {
		e.mu.Unlock()
		return nil, errors.New("the emulator is closed")
	}
	if e.pipes == nil {
		e.pipes = listen(e)
	}
	p := e.pipes
	e.mu.Unlock()
	return p.dial(ctx)
}

// pipes is an HTTP server without sockets.
type pipes struct {
	server *http.Server
	conns  chan net.Conn
	done   chan struct{} // closed by close
	once   sync.Once
	wg     sync.WaitGroup
}

func listen(e *Emulator) *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	p.server = &http.Server{Handler: e, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelError)}
	p.wg.Go(func() { p.server.Serve(p) }) // returns when p is closed
	return p
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// close closes all connections and waits for the server to end.
func (p *pipes) close() {
	p.server.Close()
	p.Close()
	p.wg.Wait()
}

// Accept, Close and Addr make pipes a net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "emulator" }

// Addressed admits only requests whose host is localhost, an IP address or one of these names. This
// stops DNS rebinding: the page in a browser whose own name was made to resolve to this server
// still sends that name.
func Addressed(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(host)
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && host != "localhost" && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("the request is for the host %.100q: ask for localhost or the address, or start the emulator with --host and that name", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Request is one request that reached the emulator.
type Request struct {
	Time     time.Time `json:"time"` // arrival, after the latency
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	RawQuery string    `json:"query,omitempty"`
	Version  string    `json:"version"` // the Notion-Version header
	Body     []byte    `json:"body,omitempty"`
	// Status is the answer's: 0 before it is sent, and if the connection was cut instead.
	Status int `json:"status"`
}

// arrived logs a request and returns its entry, to pass to answered.
func (e *Emulator) arrived(r *http.Request, body []byte) *Request {
	entry := &Request{
		Time: time.Now(), Method: r.Method, Path: r.URL.Path, RawQuery: r.URL.RawQuery,
		Version: r.Header.Get("Notion-Version"), Body: body,
	}
	if !e.knows(r) {
		entry.Body = nil // a body without the token is not kept
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, entry)
	return entry
}

func (e *Emulator) answered(entry *Request, a *answer) {
	e.mu.Lock()
	if !a.cut {
		entry.Status = a.status
	}
	line := *entry
	e.mu.Unlock()
	e.log.Info("request", "method", line.Method, "path", line.Path, "status", line.Status, "took", time.Since(line.Time))
}

// Requests returns the requests since the start or the last ResetRequests, in the order of their
// arrival.
func (e *Emulator) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Request, len(e.requests))
	for i, r := range e.requests {
		out[i] = *r
		out[i].Body = slices.Clone(r.Body)
	}
	return out
}

// ResetRequests forgets the requests so far.
func (e *Emulator) ResetRequests() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = nil
}

// windowLength is the length of Notion's rate-limit windows.
const windowLength = time.Minute

// window counts the requests of one connection in fixed windows, back to back
// from the first request on.
type window struct {
	limit int // 0 for any
	start time.Time
	count int
}

// admit counts a request that arrives now, or returns the refusal.
func (e *Emulator) admit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.admit(time.Now())
}

func (w *window) admit(now time.Time) error {
	if w.limit <= 0 {
		return nil
	}
	if w.start.IsZero() {
		w.start = now
	}
	if passed := now.Sub(w.start) / windowLength; passed > 0 {
		w.start, w.count = w.start.Add(passed*windowLength), 0
	}
	if w.count >= w.limit {
		return rateLimited("public_api_request_rate_limit", w.start.Add(windowLength).Sub(now))
	}
	w.count++
	return nil
}

// SetVersions changes Options.Versions.
func (e *Emulator) SetVersions(names ...string) error {
	all, err := spoken(names)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.versions = all
	return nil
}

// parseVersion returns the version of a request, which must be accepted.
func (e *Emulator) parseVersion(h http.Header) (version, error) {
	v := version(h.Get("Notion-Version"))
	e.mu.Lock()
	accepted := e.versions
	e.mu.Unlock()
	switch {
	case slices.Contains(accepted, v):
		return v, nil
	case v == "":
		return "", &apiError{
			status:  http.StatusBadRequest,
			code:    "missing_version",
			message: "Notion-Version header failed validation: Notion-Version header should be defined, instead was `undefined`.",
		}
	}
	return "", invalid("Notion-Version header failed validation: Notion-Version header should be %s, instead was `%q`.", orList(accepted), v)
}

// knows reports whether a request has the token.
func (e *Emulator) knows(r *http.Request) bool {
	return r.Header.Get("Authorization") == "Bearer "+e.token
}

// apply carries out a call as one transaction, saved before the answer.
func (e *Emulator) apply(c *call, route *route) *answer {
	return e.run(c, route, true)
}

// dryRun carries out a call and rolls it back: the answer shows the old state.
func (e *Emulator) dryRun(c *call, route *route) *answer {
	return e.run(c, route, false)
}

func (e *Emulator) run(c *call, route *route, keep bool) *answer {
	a, changed := e.runLocked(c, route, keep)
	if changed {
		if err := e.save(); err != nil {
			e.log.Error("state not saved", "err", err)
			return errorAnswer(err)
		}
	}
	return a
}

func (e *Emulator) runLocked(c *call, route *route, keep bool) (a *answer, changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.tx = e.begin(botID)
	c.oneSource = !c.version.hasSources()
	c.tx.step = c.step
	show, err := route.handle(c)
	if err == nil && c.early {
		body := show()
		show = func() map[string]any { return body }
	}
	changed = e.end(c.tx, err == nil && keep)
	if err != nil {
		return errorAnswer(err), changed
	}
	id := newID()
	body := show()
	body["request_id"] = id
	return jsonAnswer(http.StatusOK, nil, id, body), changed
}
