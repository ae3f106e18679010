package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/run/runner"
	"dibs/internal/setup/connect"
	"dibs/internal/task"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// workerFlag marks a process as one of several workers. It works until its stdin ends. To endsFile it
// writes how each task ended, as JSON, and reads an answer from stdin before it claims another.
const workerFlag = "worker"

const (
	endsFile = 3
	// goAhead answers that it may claim another task, and noMore, which also comes unasked, that it
	// may not.
	goAhead byte = '.'
	noMore  byte = '!'
)

// errEnough is why a worker claims no more tasks.
var errEnough = errors.New("too many tasks in a row failed")

// mostWorkers is how many workers one command may start.
const mostWorkers = 100

// workers runs dibs run several times at once, each in a process of its own, under a name of its
// own, so that none can harm another. They stop when this process does, however it ends. Their
// failures are counted together.
func (a *app) workers(self string, n int, failures *runner.Failures, patience time.Duration, args []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	var writing sync.Mutex
	all, leashes := make([]*worker, n), make([]io.WriteCloser, n)
	for i := range n {
		w, err := a.startWorker(self, i+1, patience, args, &writing)
		if err != nil {
			for _, l := range leashes[:i] {
				l.Close()
			}
			return fmt.Errorf("a worker could not be started: %w", err)
		}
		all[i], leashes[i] = w, w.leash
	}
	var counting sync.WaitGroup
	for _, w := range all {
		counting.Go(func() { countEnds(w.ends, failures, w.leash, leashes) })
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				for _, w := range all {
					_ = w.cmd.Process.Signal(s) // it may have ended
				}
			case <-done:
				return
			}
		}
	}()
	codes := make([]int, n)
	for i, w := range all {
		codes[i] = w.wait()
	}
	close(done)
	counting.Wait()
	if err := failures.Err(); err != nil {
		return a.reopening(err)
	}
	if code := together(codes); code != 0 {
		return ended{code}
	}
	return nil
}

// worker is a process that runs dibs run.
type worker struct {
	cmd       *exec.Cmd
	leash     io.WriteCloser // its stdin: it works until that ends
	ends      *os.File       // see endsFile
	out, errs *lines
}

// startWorker starts the worker of that number, from 1.
func (a *app) startWorker(self string, number int, patience time.Duration, args []string, writing *sync.Mutex) (*worker, error) {
	name := a.agent
	if name != task.AutoAgent {
		name = fmt.Sprintf("%s-%d", a.agent, number)
	}
	prefix := fmt.Sprintf("[%d] ", number)
	w := &worker{
		cmd:  exec.Command(self, slices.Concat([]string{"run", "--" + workerFlag, "--agent", name}, args)...),
		out:  &lines{to: a.stdout, prefix: prefix, writing: writing},
		errs: &lines{to: a.stderr, prefix: prefix, writing: writing},
	}
	if a.json {
		w.out.prefix = ""
	}
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.WaitDelay = w.out, w.errs, patience
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals reach it through this process
	var err error
	if w.leash, err = w.cmd.StdinPipe(); err == nil {
		w.ends, err = startWithPipe(w.cmd)
	}
	return w, err
}

// wait waits until the worker has ended, and returns its exit code as a shell would.
func (w *worker) wait() int {
	err := w.cmd.Wait()
	w.out.flush()
	w.errs.flush()
	status, _ := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case status.Signaled():
		return runner.Signalled + int(status.Signal())
	case err != nil && !exited:
		return api.ExitFailure
	}
	return status.ExitStatus()
}

// together returns the exit code of several workers: the first that is not 0. That a worker found
// nothing to claim counts only if no worker found anything.
func together(codes []int) int {
	if !slices.ContainsFunc(codes, func(code int) bool { return code != api.ExitNotClaimed }) {
		return api.ExitNotClaimed
	}
	for _, code := range codes {
		if code != 0 && code != api.ExitNotClaimed {
			return code
		}
	}
	return 0
}

// again returns the arguments that repeat a command, without the flags that are left out.
func again(cmd *cobra.Command, args []string, without ...string) []string {
	var all []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if !slices.Contains(without, f.Name) {
				all = append(all, "--"+f.Name+"="+value)
			}
		}
	})
	return append(append(all, "--"), args...)
}

// startWithPipe starts a worker, and returns the end of a pipe of which the worker's is endsFile.
func startWithPipe(cmd *exec.Cmd) (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer to.Close()
	cmd.ExtraFiles = []*os.File{to}
	if err := cmd.Start(); err != nil {
		from.Close()
		return nil, err
	}
	return from, nil
}

// countEnds counts what a worker writes until it has ended, and answers it. After too many failures
// all workers are told.
func countEnds(ends io.ReadCloser, failures *runner.Failures, leash io.Writer, all []io.WriteCloser) {
	defer ends.Close()
	for in := json.NewDecoder(ends); ; {
		var end runner.End
		if in.Decode(&end) != nil {
			return
		}
		if failures.Count(end) == nil {
			_, _ = leash.Write([]byte{goAhead}) // it may have ended
			continue
		}
		for _, l := range all {
			_, _ = l.Write([]byte{noMore})
		}
	}
}

// obey makes a worker end once its stdin does: whoever started it is gone. ctx ends with errEnough
// once it is to claim no more. count reports how a task ended, and waits for the answer.
func obey(parent context.Context, stdin io.Reader) (ctx context.Context, count func(runner.End) error) {
	ctx, cancel := context.WithCancelCause(parent)
	ends, answers := json.NewEncoder(os.NewFile(endsFile, "ends")), make(chan struct{}, 1)
	go func() {
		for in := bufio.NewReader(stdin); ; {
			answer, err := in.ReadByte()
			switch {
			case err != nil:
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // it then asks its command to stop
				return
			case answer == noMore:
				cancel(errEnough)
			case answer == goAhead:
				answers <- struct{}{}
			}
		}
	}()
	return ctx, func(end runner.End) error {
		if err := ends.Encode(end); err != nil {
			return err
		}
		select {
		case <-answers:
		case <-ctx.Done(): // nothing is claimed any more
		}
		return nil
	}
}

// lines writes whole lines, each with a prefix, so that those of several workers do not mix.
type lines struct {
	to      io.Writer
	prefix  string
	writing *sync.Mutex
	begun   []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.begun = append(l.begun, p...)
	end := bytes.LastIndexByte(l.begun, '\n') + 1
	if end == 0 && len(l.begun) < 64<<10 {
		return len(p), nil
	}
	if end == 0 {
		end = len(l.begun)
	}
	err := l.write(l.begun[:end])
	l.begun = append(l.begun[:0], l.begun[end:]...)
	return len(p), err
}

func (l *lines) write(whole []byte) error {
	var out strings.Builder
	for line := range bytes.Lines(whole) {
		out.WriteString(l.prefix)
		out.Write(line)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := io.WriteString(l.to, out.String())
	return err
}

// flush writes a last line that does not end.
func (l *lines) flush() {
	if len(l.begun) > 0 {
		_ = l.write(append(l.begun, '\n'))
	}
}

// reopening adds to an error about failed tasks how to open them again.
func (a *app) reopening(err error) error {
	failing, ok := errors.AsType[*runner.FailingError](err)
	if !ok || failing.Open == failing.Tasks {
		return err
	}
	command := a.program() + " reopen"
	for _, agent := range failing.Agents {
		command += " --failed-by " + connect.ShellWord(agent)
	}
	return fmt.Errorf("%w; this opens them again: %s --since %s", err, command, failing.Since.Local().Format(time.RFC3339))
}
