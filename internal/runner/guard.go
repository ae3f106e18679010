package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// guard is a process that outlives this one should it be killed, and then kills the
// command and removes its file. It learns of that by the end of a pipe.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// newGuard starts a guard, which runs Guard.
func newGuard(guardian []string) (*guard, error) {
	g := &guard{cmd: exec.Command(guardian[0], guardian[1:]...)}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of the terminal's gets there
	g.cmd.Stderr = os.Stderr
	var err error
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// removes is what a line begins with that says which file is to be removed.
const removes = "remove "

// over says what is to be killed, and which file is to be removed.
func (g *guard) over(target int, file string) {
	fmt.Fprintf(g.pipe, "%s%q\n%d\n", removes, file, target)
}

// dismiss ends the guard: there is nothing to be killed or removed any more.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, "done")
	g.pipe.Close()
	_ = g.cmd.Wait()
}

// Guard reads from another process what to kill and to remove when that process ends
// without having said that it is done. It is what the guard's process does.
func Guard(from io.Reader) error {
	target, file := 0, ""
	for lines := bufio.NewScanner(from); lines.Scan(); {
		line := lines.Text()
		if line == "done" {
			return nil
		}
		var err error
		if name, ok := strings.CutPrefix(line, removes); ok {
			file, err = strconv.Unquote(name)
		} else if target, err = strconv.Atoi(strings.TrimSpace(line)); target == 0 || target == -1 {
			err = strconv.ErrRange
		}
		if err != nil {
			return fmt.Errorf("%q is no process: this command is part of dibs run, and not for people", line)
		}
	}
	var errs []error
	if target != 0 {
		errs = append(errs, syscall.Kill(target, syscall.SIGKILL))
	}
	if file != "" {
		errs = append(errs, os.Remove(file))
	}
	return errors.Join(errs...)
}
