package runner

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"dibs/internal/task"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// output is an output of the command. It is copied to where it goes, and its end is kept.
type output struct {
	tail    tail
	end     *os.File      // the end that is read; nil if the command writes to where it goes itself
	read    chan struct{} // closed when all was read
	writing atomic.Bool   // whoever reads what is copied has yet to take something
	hurry   chan struct{} // closed to wait no longer
	stop    func()

	file  *os.File // a regular file that the command writes to itself
	begun int64    // how long that was
}

// newOutput returns an output that goes to to, and the file that the command writes to.
//
// Where to is a terminal and terminal is set, the command's file is one, too, so that the command
// writes as it would to to itself. Where it is a regular file, the command writes to it, so that
// processes that it leaves running can go on doing so.
func newOutput(to io.Writer, terminal bool) (*output, *os.File, error) {
	o := &output{read: make(chan struct{}), hurry: make(chan struct{}), stop: func() {}}
	file, _ := to.(*os.File)
	if info, err := stat(file); terminal && err == nil && info.Mode().IsRegular() {
		theirs, err := syscall.Dup(int(file.Fd()))
		if err != nil {
			return nil, nil, err
		}
		o.file, o.begun = file, info.Size()
		close(o.read)
		return o, os.NewFile(uintptr(theirs), file.Name()), nil
	}
	theirs, err := (*os.File)(nil), error(nil)
	if terminal && isTerminal(to) {
		if o.end, theirs, err = pty.Open(); err == nil {
			o.stop = follow(file, o.end)
		}
	}
	if theirs == nil { // no terminal is wanted, or there is none to be had, as in some containers
		if o.end, theirs, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
	}
	go o.copy(to)
	return o, theirs, nil
}

func stat(file *os.File) (os.FileInfo, error) {
	if file == nil {
		return nil, os.ErrInvalid
	}
	return file.Stat()
}

// copy copies what the command writes. If it cannot be written, it is still read, so that the
// command is not held up.
func (o *output) copy(to io.Writer) {
	defer close(o.read)
	buf := make([]byte, 32<<10)
	for broken := false; ; {
		n, err := o.end.Read(buf)
		_, _ = o.tail.Write(buf[:n])
		if n > 0 && !broken {
			o.writing.Store(true)
			_, failed := to.Write(buf[:n])
			o.writing.Store(false)
			broken = failed != nil
		}
		if err != nil {
			return
		}
	}
}

// follow keeps a terminal as large as another one, until stop.
func follow(screen, same *os.File) (stop func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	_ = pty.InheritSize(screen, same)
	go func() {
		for range resized {
			_ = pty.InheritSize(screen, same)
		}
	}()
	return func() {
		signal.Stop(resized)
		close(resized)
	}
}

// drain waits until all is read and written, and returns what came last. A process that the command
// left running may keep the output open: then lastWords are enough. Whoever reads what is copied
// may take its time.
func (o *output) drain() *tail {
	for {
		select {
		case <-o.read:
		case <-o.hurry:
		case <-time.After(lastWords):
			if o.writing.Load() {
				continue
			}
		}
		return o.now()
	}
}

// now returns what came last so far.
func (o *output) now() *tail {
	if o.file != nil {
		o.tail.readEnd(o.file, o.begun)
	}
	return &o.tail
}

// close ends the copy.
func (o *output) close() {
	o.drain()
	o.abandon()
}

// abandon ends the copy at once.
func (o *output) abandon() {
	o.stop()
	if o.end != nil {
		o.end.Close()
	}
}

// readEnd takes the end of a regular file, as far as it was written from begun on. It is empty where
// the system does not let the file be opened anew.
func (t *tail) readEnd(file *os.File, begun int64) {
	again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return
	}
	defer again.Close()
	info, err := again.Stat()
	if err != nil {
		return
	}
	from := max(begun, info.Size()-tailBytes)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = info.ModTime()
	t.data, _ = io.ReadAll(io.NewSectionReader(again, from, info.Size()-from))
}

// How much of a command's last output becomes the reason of its failure.
const (
	tailBytes = 4096
	tailLines = 10
)

// tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	data []byte
	at   time.Time // of the last input
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > 0 {
		t.at = time.Now()
	}
	t.data = append(t.data, p...)
	if over := len(t.data) - tailBytes; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// last returns the last line that is not empty, without what controls a terminal.
func (t *tail) last() string {
	lines := strings.Split(t.text(), "\n")
	return lines[len(lines)-1]
}

// wrote returns when the last input came.
func (t *tail) wrote() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// text returns the last lines, without what controls a terminal.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(task.Plain(strings.ToValidUTF8(string(t.data), ""))) {
		if line = strings.TrimSpace(task.OneLine(line, unicode.ReplacementChar)); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// lastWords is how long to wait for the command's outputs after it ended: processes that it left
// running may keep them open.
const lastWords = 2 * time.Second

func isTerminal(stdin any) bool {
	file, ok := stdin.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
