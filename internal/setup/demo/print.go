package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// event is something that somebody did.
type event struct {
	at   time.Time
	who  string
	what string
}

// printer shows events as they happen: one per line, or on a screen that changes.
type printer struct {
	mu     sync.Mutex
	w      io.Writer
	screen *screen // nil for lines
}

func newPrinter(o Options) *printer {
	if o.JSON {
		return &printer{w: o.Err}
	}
	return &printer{w: o.Out}
}

// line shows who did what. It drops control characters, which a title may contain.
func (p *printer) line(who, format string, args ...any) {
	e := event{at: time.Now(), who: who, what: strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, fmt.Sprintf(format, args...))}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen != nil {
		p.screen.add(e)
		return
	}
	fmt.Fprintln(p.w, e)
}

func (e event) String() string {
	return fmt.Sprintf("%s  %-8s %s", e.at.Format("15:04:05.0"), e.who, e.what)
}

// open changes from lines to a screen; close changes back.
func (p *printer) open(s *screen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen = s
}

func (p *printer) close() {
	p.mu.Lock()
	s := p.screen
	p.screen = nil
	p.mu.Unlock()
	if s != nil {
		s.close()
	}
}
