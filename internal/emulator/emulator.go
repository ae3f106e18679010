// Package emulator is a server that speaks Notion's REST API well enough for
// any Notion client to work against it, and that shows how Notion behaves where
// that matters to software that shares a database: dates cut to the minute, no
// conditional writes, a fixed rate-limit window, writes that are saved and still
// answer an error, queries that answer from the past.
//
// The emulator is an [http.Handler]. Tests use it through [Emulator.Client], an
// in-memory HTTP client that works inside a testing/synctest bubble, and reach
// past the API with methods that stand for a person editing in Notion's own
// interface. Faults, latency, rate and block limits are injected.
//
// Every request takes effect atomically, at one instant; the Date header of its
// answer is that instant, cut to the second.
package emulator

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options says how an emulator is to behave.
type Options struct {
	// Token is the only bearer token accepted. If empty, it is the one in the
	// state file, else a random one.
	Token string
	// Limit is the number of requests allowed in each fixed 60-second window; 0 for any.
	Limit int
	// Versions are the values of Notion-Version that are accepted, of "2022-06-28",
	// "2025-09-03" and "2026-03-11". Others are refused, as Notion refuses one that it does
	// not know. Empty accepts all three.
	Versions []string
	// StateFile keeps the state: it is loaded if it exists, and written
	// atomically after every change, before the change is answered. Empty keeps nothing.
	StateFile string
	// Begin is a state file to begin with, where StateFile is empty, and that is not written:
	// see WriteState.
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

	// mu guards all below. It is never held while anything waits.
	mu       sync.Mutex
	world    *world
	versions []version // that are accepted, in ascending order
	window   window
	faults   []*injected
	faultSeq int
	requests []*Request
	latency  func(*http.Request) (before, after time.Duration)
	late     map[*time.Timer]bool // writes that are to land after their answer
	closed   chan struct{}        // made by the first to wait for it, see stopping
	isClosed bool
	pipes    *pipes
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

// Token is the bearer token that the emulator accepts.
func (e *Emulator) Token() string { return e.token }

// Close ends held requests, forgets writes that were to land late, closes the
// connections of clients made by Client, and writes the state file. The
// emulator can still be read afterwards.
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
	pipes := e.pipes
	e.pipes = nil
	e.mu.Unlock()
	if pipes != nil {
		pipes.close()
	}
	return e.save()
}

// stopping is closed when the emulator is. The channel is made by whoever asks
// first, so that inside a synctest bubble it belongs to the bubble.
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

// do runs f as one change of the world, takes it back if f fails, and answers
// only after the change is in the state file.
func (e *Emulator) do(f func(*tx) error) error {
	e.mu.Lock()
	tx := &tx{world: e.world, now: time.Now(), user: personID, direct: true}
	err := f(tx)
	if err != nil {
		tx.rollback()
	}
	changed := tx.changed()
	if changed {
		e.file.touch()
	}
	e.mu.Unlock()
	if err != nil || !changed {
		return err
	}
	return e.save()
}

// save writes the state file, if there is one and it is out of date.
func (e *Emulator) save() error {
	return e.file.save(func() ([]byte, int64) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.world.marshal(), e.file.version
	})
}

// WriteState writes what StateFile would have now to a file, for another emulator to go on
// with.
func (e *Emulator) WriteState(path string) error {
	e.mu.Lock()
	data := e.world.marshal()
	e.mu.Unlock()
	return replaceFile(path, data)
}

// SetBlockLimit sets how many blocks (pages, blocks, databases) can still be
// made, as in a free workspace with more than one member: creating more is
// refused, while properties can still be edited. A negative n lifts the limit.
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

// SetQueryLimit sets how many rows one query gives, over all its pages, which
// Notion says are 10,000; 0 sets it back.
func (e *Emulator) SetQueryLimit(n int) error {
	return e.do(func(tx *tx) error {
		assign(tx, &tx.world.QueryLimit, n)
		return nil
	})
}

// SetLatency sets what f says as the time that passes before a request reaches
// the server, and before its answer leaves it. f is called for each request,
// and may be called by several goroutines at once; nil for no latency.
func (e *Emulator) SetLatency(f func(*http.Request) (before, after time.Duration)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latency = f
}

// wait sleeps for d; false if the request's context or the emulator ended first.
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
