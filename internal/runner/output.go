package runner

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// output is an output of the command, which is copied to where it goes, and whose end is kept.
type output struct {
	end  *os.File // the end that is read
	read chan struct{}
	tail tail
	stop func()
}

// newOutput returns an output and the file that the command writes to. to is where it goes: if that
// is a terminal and terminal is set, the file is one, too, so that the command writes as it would
// to to itself.
func newOutput(to io.Writer, terminal bool) (*output, *os.File, error) {
	o := &output{read: make(chan struct{}), stop: func() {}}
	var theirs *os.File
	var err error
	if screen, ok := to.(*os.File); ok && terminal && isTerminal(to) {
		if o.end, theirs, err = pty.Open(); err == nil {
			o.stop = follow(screen, o.end)
		}
	} else {
		o.end, theirs, err = os.Pipe()
	}
	if err != nil {
		return nil, nil, err
	}
	go func() {
		defer close(o.read)
		_, _ = io.Copy(io.MultiWriter(to, &o.tail), o.end)
	}()
	return o, theirs, nil
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

// said waits until all is read, or lastWords have passed, and returns what came last.
func (o *output) said() *tail {
	select {
	case <-o.read:
	case <-time.After(lastWords):
	}
	return &o.tail
}

func (o *output) close() {
	o.said()
	o.stop()
	o.end.Close()
}
