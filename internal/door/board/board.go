// Package board serves the pages in the browser: who works on what and until when, what waits and
// why, what just happened, and how it goes. It is a client of the daemon like any other, stores
// nothing, and asks only the daemon.
//
// One loop follows the daemon (follow.go) and keeps the state that pages show (state.go). An address
// says all that a page shows: a list, and what is beside it (frame.go). html/template writes it; an
// open page is told that something has changed (live.go), and the module in static has the browser
// read its address again and change what is otherwise. Only browsers with the cookie of a one-time
// link get in (frame.go).
package board

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"dibs/internal/task"
)

// maxStreams is how many pages may be kept up to date at a time.
const maxStreams = 100

// New returns a board that shows nothing yet; Serve or Follow fills it.
func New(o Options) *Board {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Board{
		Options: o, state: newState(rand.Text()[:8]), sessions: newSessions(), static: staticFiles(),
		streams: make(chan struct{}, maxStreams), entered: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	b.contents = contents{daemon: o.Daemon, told: b.state.touched, known: make(map[task.ID]content), reading: make(map[task.ID]bool)}
	b.lists = map[string]writer{
		"/": b.now, "/tasks": b.tasks, "/list": b.list, "/agents": b.agents, "/activity": b.activity, "/insights": b.insights, "/health": b.health, "/search": b.search,
	}
	b.beside = b.besides
	b.follower = newFollower(b.Daemon, b.state)
	b.attended.daemon = b.Daemon
	return b
}

// Entered returns a channel that has a value when a link was used up; Link then returns the next
// one.
func (b *Board) Entered() <-chan struct{} { return b.entered }

// Serve follows the daemon and serves pages on l until ctx ends, and then returns nil. It closes l.
// It is called once.
func (b *Board) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: b.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(b.Log.Handler(), slog.LevelDebug),
	}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { b.Follow(ctx) })
	context.AfterFunc(ctx, func() {
		b.stop()
		server.Close()
	})
	err := server.Serve(l)
	cancel()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// stop ends the streams.
func (b *Board) stop() { b.stopOnce.Do(func() { close(b.stopped) }) }

// Link returns the link that opens the board served at base, such as http://127.0.0.1:8080, once,
// in one browser. It stays the same until it is used.
func (b *Board) Link(base string) string { return base + enterPath + "?token=" + b.sessions.token() }

// Handler answers the requests of browsers.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.StripPrefix("/static/", b.staticHandler()))
	mux.HandleFunc("GET "+enterPath, b.enter)

	inside := http.NewServeMux()
	for path := range b.lists {
		inside.HandleFunc("GET "+strings.TrimSuffix(path, "/")+map[bool]string{true: "/{$}"}[path == "/"], b.listPage)
	}
	for former, path := range map[string]string{"/events": "/activity", "/timeline": "/activity", "/charts": "/insights", "/report": "/insights"} {
		inside.HandleFunc("GET "+former, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, (&url.URL{Path: path, RawQuery: r.URL.RawQuery}).String(), http.StatusMovedPermanently)
		})
	}
	inside.HandleFunc("GET /story/{id}", b.storyPage)
	inside.HandleFunc("GET /insights.csv", b.chartCSV)
	inside.HandleFunc("GET /report.csv", b.reportCSV)
	inside.HandleFunc("GET /tasks/{id}", b.taskPage)
	inside.HandleFunc("GET /tasks/{id}/page", b.contentPage)
	inside.HandleFunc("GET /live", b.live)
	if !b.ReadOnly {
		inside.HandleFunc("GET /tasks/{id}/{action}", b.confirmPage)
		inside.HandleFunc("POST /tasks/{id}/{action}", b.act)
		for _, form := range []string{"/new", "/sweep", "/pause"} {
			inside.HandleFunc("GET "+form, b.formPage)
		}
		inside.HandleFunc("GET /bulk", b.bulkPage)
		inside.HandleFunc("POST /bulk", b.bulkPage)
		inside.HandleFunc("POST /new", b.add)
		inside.HandleFunc("POST /sweep", b.sweep)
		inside.HandleFunc("POST /pause", b.pause)
		inside.HandleFunc("POST /resume", b.resume)
		inside.HandleFunc("POST /sync", b.sync)
	}
	inside.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		b.say(w, http.StatusNotFound, "There is no such page here", "The board has pages for now, the board, agents, activity, insights and health; this is none of them.")
	})
	mux.Handle("/", b.admitted(patient(inside)))
	return b.checked(mux)
}

// Follow keeps the board's state up to date until ctx ends.
func (b *Board) Follow(ctx context.Context) { b.follower.follow(ctx) }

// besides returns what an address asks for beside a list: a task, or a form.
func (b *Board) besides(ctx context.Context, q url.Values) (view, error) {
	id, do := q.Get("task"), q.Get("do")
	switch {
	case id != "" && do == "":
		return b.task(ctx, id, q)
	case b.ReadOnly:
		return view{}, &missing{"There is nothing to do here", "This board is for reading only."}
	case id != "":
		return b.asked(ctx, id, do, q)
	}
	return b.form(ctx, do, q)
}
