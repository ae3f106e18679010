package server

import (
	"context"
	"net"
	"sync"
)

// Pipe is a listener for connections within this process, without a socket. It is safe for
// concurrent use, and works inside a synctest bubble.
type Pipe struct {
	conns     chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

// NewPipe returns a listener that Dial reaches.
func NewPipe() *Pipe {
	return &Pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the next Accept.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (p *Pipe) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

// Addr returns a placeholder.
func (p *Pipe) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
