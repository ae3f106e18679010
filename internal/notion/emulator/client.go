package emulator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

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
