package runner

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// guard is a process that outlives this one should it be killed, and then kills the
// command. It learns of that by the end of a pipe.
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

// over says what is to be killed.
func (g *guard) over(target int) { fmt.Fprintln(g.pipe, target) }

// dismiss ends the guard: there is nothing to be killed any more.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, "done")
	g.pipe.Close()
	_ = g.cmd.Wait()
}

// Guard reads from another process what to kill when that process ends without having
// said that it is done. It is what the guard's process does.
func Guard(from io.Reader) error {
	target := 0
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if lines.Text() == "done" {
			return nil
		}
		var err error
		if target, err = strconv.Atoi(strings.TrimSpace(lines.Text())); err != nil || target == 0 || target == -1 {
			return fmt.Errorf("%q is no process: this command is part of dibs run, and not for people", lines.Text())
		}
	}
	if target == 0 {
		return nil
	}
	return syscall.Kill(target, syscall.SIGKILL)
}
