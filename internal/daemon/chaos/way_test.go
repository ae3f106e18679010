package chaos_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// way is a connection to an address that can be cut, and moved to another one.
type way struct {
	listen net.Listener

	mu   sync.Mutex
	to   string
	cut  bool
	open map[net.Conn]bool
}

// newWay makes a way to an address.
func newWay(t testing.TB, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{to: to, listen: l, open: make(map[net.Conn]bool)}
	go w.serve()
	t.Cleanup(func() { l.Close(); w.sever(true) })
	return w
}

// address returns the address at which the way begins.
func (w *way) address() string { return w.listen.Addr().String() }

// sever closes all connections; with cut, it admits no new ones until it is called without.
func (w *way) sever(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

// lead lets the way lead to another address. Connections to the last one are closed.
func (w *way) lead(to string) {
	w.mu.Lock()
	w.to = to
	w.mu.Unlock()
	w.sever(false)
}

func (w *way) serve() {
	for {
		near, err := w.listen.Accept()
		if err != nil {
			return
		}
		go w.carry(near)
	}
}

func (w *way) carry(near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	cut := w.cut || w.to != to
	if !cut {
		w.open[near], w.open[far] = true, true
	}
	w.mu.Unlock()
	if cut {
		return
	}
	go func() { io.Copy(far, near); far.Close(); near.Close() }()
	io.Copy(near, far)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}
