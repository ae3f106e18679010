package server

import (
	"net"
	"sync"
)

// Turns gives the connections of a listener to one server after another.
type Turns struct {
	net.Listener
	accepted chan net.Conn
	failed   chan struct{} // closed once nobody comes any more
	err      error
	closed   chan struct{}
	once     sync.Once
}

// TakeTurns begins to accept the connections of a listener, which the returned one closes.
func TakeTurns(l net.Listener) *Turns {
	t := &Turns{Listener: l, accepted: make(chan net.Conn), failed: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		defer close(t.failed)
		for {
			var conn net.Conn
			if conn, t.err = l.Accept(); t.err != nil {
				return
			}
			select {
			case t.accepted <- conn:
			case <-t.closed:
				conn.Close()
			}
		}
	}()
	return t
}

// Close closes the listener.
func (t *Turns) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.Listener.Close()
}

// Turn is a listener that gets the connections until it is closed; the next one goes on.
func (t *Turns) Turn() net.Listener { return &turn{Turns: t, over: make(chan struct{})} }

type turn struct {
	*Turns
	ended sync.Once
	over  chan struct{}
}

func (t *turn) Accept() (net.Conn, error) {
	select { // first, for a connection may wait, too
	case <-t.over:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-t.accepted:
		return conn, nil
	case <-t.over:
		return nil, net.ErrClosed
	case <-t.failed:
		return nil, t.err
	}
}

func (t *turn) Close() error {
	t.ended.Do(func() { close(t.over) })
	return nil
}
