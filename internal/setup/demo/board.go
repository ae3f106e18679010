package demo

import (
	"context"
	"fmt"
	"net"
	"sync"

	"dibs/internal/door/board"
)

// show serves the demo's board in the browser; link opens it, and closed stops it.
func (d *demo) show(ctx context.Context) (link string, closed func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("a board in the browser: %w", err)
	}
	base := "http://" + l.Addr().String()
	b := board.New(board.Options{Daemon: d.client, User: "a visitor of the demo"})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() { b.Serve(ctx, l) })
	serving.Go(func() {
		for {
			select {
			case <-b.Entered():
				d.print.line("board", "the link was used; for another browser: %s", b.Link(base))
			case <-ctx.Done():
				return
			}
		}
	})
	d.link = func() string { return b.Link(base) }
	return b.Link(base), func() {
		cancel()
		serving.Wait()
	}, nil
}
