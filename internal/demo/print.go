package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// printer prints events as they happen, one per line.
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

// line prints who did what. It drops control characters, which a title may contain.
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
