// Package emulator is a server that speaks Notion's REST API well enough for any Notion client to
// work against it. It reproduces what matters to software that shares a database: dates cut to the
// minute, no conditional writes, a fixed rate-limit window, writes that are saved and still answer
// an error, queries that return old rows.
//
// The emulator is an [http.Handler]. Tests use it through [Emulator.Client], an in-memory HTTP
// client that works inside a testing/synctest bubble. Further methods bypass the API, as a person
// does who edits in Notion's own interface. Faults, latency, rate and block limits are injected.
//
// Every request takes effect atomically, at one instant; the Date header of its answer is that
// instant, cut to the second.
//
// # Events
//
// With a webhook it posts a verification token until the answer is 2xx, and then events as Notion does,
// signed with the token (X-Notion-Signature). Each type has Notion's delay, longer by a random part, so
// that events overtake each other; properties_updated of a minute, and content_updated of 30 seconds,
// are one event. An answer other than 2xx within ten seconds is a failure: the event comes again, under
// the same id, after 1, 5 and 15 minutes and 1, 2, 5 and 11 hours, and is lost after that.
//
// # Faults
//
// A POST to /_emulator/faults, with the token as the bearer, makes things go wrong, and DELETE ends
// that: {"kind": "LoseEvent", "event": "page.*", "skip": 2, "times": 1}. With event a fault strikes the
// attempts to send such events (LoseEvent, RepeatEvent, Delay, Stop, DropRequest, DropAnswer), without
// it the requests of its method and path.
package emulator

import (
	"cmp"
	"log/slog"
	"net/http"
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
