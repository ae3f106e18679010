package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// printer prints what happens as it happens, one line each.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

func newPrinter(o Options) *printer {
	if o.JSON {
		return &printer{w: o.Err}
	}
	return &printer{w: o.Out}
}

// line prints who did what. Control characters, which a title could hold, do
// not reach the terminal.
func (p *printer) line(who, format string, args ...any) {
	what := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, fmt.Sprintf(format, args...))
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%s  %-8s %s\n", time.Now().Format("15:04:05.0"), who, what)
}
