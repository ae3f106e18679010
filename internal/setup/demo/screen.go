package demo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
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

// Terminal is where the demo shows a screen that changes, and waits for a key.
type Terminal struct {
	In, Out *os.File
	Colours bool // it shows them
}

// redraw is how often the screen is drawn at least, and mostEvents how many events it keeps.
const (
	redraw     = 250 * time.Millisecond
	mostEvents = 100
)

// screen draws what everybody does, in place, on the terminal's second screen, so that nothing that
// was on the first one is lost.
type screen struct {
	out    io.Writer
	size   func() (columns, rows int)
	colour bool
	began  time.Time
	about  string                      // what is shown
	link   string                      // of the board in the browser
	counts func() (statuses []counted) // how many tasks there are of each status

	mu      sync.Mutex
	actors  []string         // in the order in which they appeared
	last    map[string]event // what each did last
	events  []event
	done    chan struct{}
	drawing sync.WaitGroup
}

// counted is how many tasks have a status.
type counted struct {
	name string
	n    int
}

// newScreen takes over the terminal, until close.
func newScreen(t Terminal, about, link string, actors []string, counts func() []counted) *screen {
	s := &screen{
		out: t.Out, colour: t.Colours,
		size: func() (int, int) {
			columns, rows, err := term.GetSize(int(t.Out.Fd()))
			if err != nil || columns <= 0 || rows <= 0 {
				return 80, 24
			}
			return columns, rows
		},
		began: time.Now(), about: about, link: link, actors: actors, counts: counts,
		last: make(map[string]event), done: make(chan struct{}),
	}
	io.WriteString(s.out, ansi.SetModeAltScreenSaveCursor+ansi.ResetModeTextCursorEnable)
	s.drawing.Go(s.run)
	return s
}

func (s *screen) run() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		s.draw(time.Now())
		select {
		case <-tick.C:
		case <-s.done:
			return
		}
	}
}

// add notes an event, and shows it.
func (s *screen) add(e event) {
	s.mu.Lock()
	if !slices.Contains(s.actors, e.who) && e.who != "demo" && e.who != "board" {
		s.actors = append(s.actors, e.who)
	}
	s.last[e.who] = e
	s.events = append(s.events, e)
	if len(s.events) > mostEvents {
		s.events = s.events[1:]
	}
	s.mu.Unlock()
	s.draw(time.Now())
}

// close gives the terminal back.
func (s *screen) close() {
	close(s.done)
	s.drawing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	io.WriteString(s.out, ansi.ResetModeAltScreenSaveCursor+ansi.SetModeTextCursorEnable)
}

// draw draws all of it, in one write, so that it does not flicker.
func (s *screen) draw(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	columns, rows := s.size()
	var out strings.Builder
	out.WriteString(ansi.CursorHomePosition)
	for i, line := range s.lines(columns, rows, now) {
		if i > 0 {
			out.WriteString("\r\n")
		}
		out.WriteString(ansi.Truncate(line, columns-1, "…") + ansi.EraseLineRight)
	}
	out.WriteString(ansi.EraseScreenBelow)
	io.WriteString(s.out, out.String())
}

// lines returns what is shown, as many lines as there are rows at most.
func (s *screen) lines(columns, rows int, now time.Time) []string {
	lines := []string{
		s.styled(ansi.NewStyle().Bold(), "dibs demo") + "  " + s.about + fmt.Sprintf("  %d s", int(now.Sub(s.began).Seconds())),
		"In the browser: " + s.link,
		"",
	}
	for _, who := range s.actors {
		e, did := s.last[who]
		line := fmt.Sprintf("%-9s ", who)
		if did {
			line = s.styled(ansi.NewStyle().Bold(), line) + e.what
			if since := int(now.Sub(e.at).Seconds()); since > 0 {
				line = ansi.Truncate(line, columns-8, "…") + s.styled(ansi.NewStyle().Faint(), fmt.Sprintf("  %d s", since))
			}
		}
		lines = append(lines, line)
	}
	lines = append(lines, "", s.bar(columns), "")
	left := max(0, rows-len(lines))
	for _, e := range s.events[max(0, len(s.events)-left):] {
		lines = append(lines, s.styled(ansi.NewStyle().Faint(), e.String()))
	}
	return lines[:min(len(lines), rows)]
}

// bar shows how many tasks have which status, the finished ones as a bar.
func (s *screen) bar(columns int) string {
	var texts []string
	finished, all := 0, 0
	for _, c := range s.counts() {
		all += c.n
		if c.name == "COMPLETED" || c.name == "CANCELLED" {
			finished += c.n
		}
		if c.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", c.n, strings.ToLower(strings.ReplaceAll(c.name, "_", " "))))
		}
	}
	width := min(20, columns/4)
	full := 0
	if all > 0 {
		full = width * finished / all
	}
	return s.styled(ansi.NewStyle().ForegroundColor(ansi.Green), strings.Repeat("█", full)) + strings.Repeat("░", width-full) +
		"  " + strings.Join(texts, " · ")
}

func (s *screen) styled(style ansi.Style, text string) string {
	if !s.colour {
		return text
	}
	return style.Styled(text)
}

// anyKey waits until a key is pressed, which it reports, or one of the channels is closed.
func (t Terminal) anyKey(done, opened <-chan struct{}) (bool, error) {
	was, err := term.MakeRaw(int(t.In.Fd()))
	if err != nil {
		return false, err
	}
	defer term.Restore(int(t.In.Fd()), was)
	keys := make([]byte, 64) // one key may be several bytes
	for waits := []unix.PollFd{{Fd: int32(t.In.Fd()), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(waits, 0); err != nil || n == 0 {
			break
		}
		// What was typed before was not meant for this, but for a wish to end.
		if n, err := t.In.Read(keys); err != nil || bytes.ContainsAny(keys[:n], "q\x03") {
			return true, nil
		}
	}
	pressed := make(chan struct{})
	go func() {
		defer close(pressed)
		_, _ = t.In.Read(keys) // it ends with the process, at the latest
	}()
	select {
	case <-pressed:
		return true, nil
	case <-done:
	case <-opened:
	}
	return false, nil
}

// Options configures the demo.
type Options struct {
	// JSON prints the summary as one JSON document on Out, and the events on Err.
	JSON bool
	// Keep leaves daemon and server running until the context ends.
	Keep bool
	// Terminal, if set, shows a screen that changes, and keeps the board in the browser open until
	// a key is pressed.
	Terminal *Terminal
	// Command is how dibs is called, for the commands to try next.
	Command string
	// Version is shown by the daemon.
	Version  string
	Out, Err io.Writer
}
