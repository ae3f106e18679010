package daemon_test

import (
	"context"
	"errors"
	"net"
	"sync"

	"dibs/internal/door/server"
)

// wires is the network between members in a bubble.
type wires struct {
	mu   sync.Mutex
	at   map[string]*server.Pipe
	cut  map[string]bool // unreachable addresses
	open map[string][]net.Conn
}

// plug is a listener; closing it frees its address.
type plug struct {
	*server.Pipe
	address string
}

func (p plug) Addr() net.Addr  { return p }
func (p plug) Network() string { return "wires" }
func (p plug) String() string  { return p.address }

// Listen implements member.Network.
func (w *wires) Listen(_ context.Context, address string) (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at, w.cut, w.open = make(map[string]*server.Pipe), make(map[string]bool), make(map[string][]net.Conn)
	}
	w.at[address] = server.NewPipe()
	return plug{w.at[address], address}, nil
}

// Dial implements member.Network.
func (w *wires) Dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	to, cut := w.at[address], w.cut[address]
	w.mu.Unlock()
	if to == nil || cut {
		return nil, errors.New("no way to " + address)
	}
	conn, err := to.Dial(ctx)
	if err == nil {
		w.mu.Lock()
		w.open[address] = append(w.open[address], conn)
		w.mu.Unlock()
	}
	return conn, err
}

// sever closes the connections to an address and, with cut, makes it unreachable.
func (w *wires) sever(address string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[address] = cut
	for _, conn := range w.open[address] {
		conn.Close()
	}
	w.open[address] = nil
}
