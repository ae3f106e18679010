package runner

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/term"
)

// guard is the guard's process as dibs run sees it, see Guard.
type guard struct {
	cmd     *exec.Cmd
	pipe    *os.File
	orders  *json.Encoder
	reports <-chan report // closed when the process has ended
	stderr  *os.File      // the command's, to be read
	read    chan struct{} // closed when all of it was
	tail    tail
	// front says that the command is on a terminal: it is in the group of this process, as
	// only the group that is in front may read, and gets the signals of the keyboard.
	front bool
}

// newGuard starts a guard. The command that it starts later has the same input and outputs.
func (o *Options) newGuard() (*guard, error) {
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	reports, theirReports, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirReports.Close()
	stderr, theirStderr, err := os.Pipe()
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	defer theirStderr.Close()
	g := &guard{
		cmd: exec.Command(o.Guard[0], o.Guard[1:]...), pipe: orders, orders: json.NewEncoder(orders),
		stderr: stderr, read: make(chan struct{}), front: isTerminal(o.Stdin),
	}
	g.cmd.Env, g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = o.Env, o.Stdin, o.Stdout, os.Stderr
	g.cmd.ExtraFiles = []*os.File{theirOrders, theirReports, theirStderr}
	// No signal of the keyboard gets there, nor one to this process's group.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd.WaitDelay = lastWords
	adopt(true) // should the guard be killed
	if err := g.cmd.Start(); err != nil {
		orders.Close()
		reports.Close()
		stderr.Close()
		return nil, err
	}
	said := make(chan report, 3)
	go func() {
		defer close(said)
		defer reports.Close()
		for in := json.NewDecoder(reports); ; {
			var r report
			if in.Decode(&r) != nil {
				return
			}
			said <- r
		}
	}()
	go func() {
		defer close(g.read)
		_, _ = io.Copy(io.MultiWriter(o.Stderr, &g.tail), stderr)
	}()
	g.reports = said
	return g, nil
}

// lastWords is how long what the command wrote is waited for when it has ended: what it left
// running may keep its stderr open.
const lastWords = 2 * time.Second

// said is what the command said last.
func (g *guard) said() string {
	select {
	case <-g.read:
	case <-time.After(lastWords):
	}
	return g.tail.text()
}

// tell gives an order. That the guard is gone is noticed by its reports.
func (g *guard) tell(o order) { _ = g.orders.Encode(o) }

// run has the guard start a command.
func (g *guard) run(command, env []string, file string) {
	o := order{Run: command, Env: env, File: file}
	if g.front {
		o.Group = syscall.Getpgrp()
	}
	g.tell(o)
}

// dismiss ends the guard. What still runs goes on.
func (g *guard) dismiss() {
	adopt(false)
	g.tell(order{Leave: true})
	_ = g.cmd.Wait() // it has reported what there is to know
	g.said()
	g.pipe.Close()
	g.stderr.Close()
}

// sweep kills what a guard that was killed has left: it is this process's now. pid is the
// command, 0 if none is known of.
func (g *guard) sweep(pid int) {
	if pid != 0 && !g.front {
		pid = -pid
	}
	for ended := reap(pid); ; {
		signalAll(pid, syscall.SIGKILL)
		select {
		case _, more := <-ended:
			if !more {
				return
			}
		case <-time.After(killAgain):
		}
	}
}

func isTerminal(stdin any) bool {
	file, ok := stdin.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
