package runner

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"
)

// command is a process that runs for a task, with all it starts: it is in a process
// group of its own, except on a terminal, which only the group that is in front may
// read, and which sends its signals to both.
type command struct {
	*exec.Cmd
	ended chan int // gets the code
	file  string   // what it is told of its task
	guard *guard
	front bool // on a terminal, in the same group as this process
}

// start starts the command, and a guard that takes it along when this process is killed.
func (c *command) start(guardian []string) (err error) {
	c.front = isTerminal(c.Stdin)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.front}
	if c.guard, err = newGuard(guardian); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		c.guard.dismiss()
		return err
	}
	c.guard.over(c.target(), c.file)
	go func() {
		err := c.Wait()
		c.guard.dismiss()
		c.ended <- codeOf(c.ProcessState, err)
	}()
	return nil
}

// target is what signals are sent to: the group, or the process alone.
func (c *command) target() int {
	if c.front {
		return c.Process.Pid
	}
	return -c.Process.Pid
}

// signal sends a signal.
func (c *command) signal(s syscall.Signal) {
	_ = syscall.Kill(c.target(), s) // it may have ended
}

// pass sends a signal on that this process got. A terminal has sent its own to the
// command already.
func (c *command) pass(s syscall.Signal) {
	if c.front && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return
	}
	c.signal(s)
}

// codeOf is the code that the process ended with, as a shell has it.
func codeOf(state *os.ProcessState, err error) int {
	if state == nil {
		return 1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Signalled + int(status.Signal())
	}
	if state.ExitCode() == 0 && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return 1
	}
	return state.ExitCode()
}

func isTerminal(stdin any) bool {
	file, ok := stdin.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
