package runner

import (
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// supervisor is the supervisor's process as dibs run sees it, see Supervise.
type supervisor struct {
	cmd     *exec.Cmd
	pipe    *os.File
	orders  *json.Encoder
	reports <-chan report // closed when the process ended
	stdout  *output       // the command's
	stderr  *output
	// front says that the command uses a terminal. It then is in this process's group, as only the
	// foreground group may read, and gets the signals of the keyboard.
	front bool
}

// newSupervisor starts a supervisor. The command that it starts later inherits its input, and writes
// to outputs that are copied.
func (o *Options) newSupervisor() (*supervisor, error) {
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
	stderr, theirStderr, err := newOutput(o.Stderr, false)
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	defer theirStderr.Close()
	stdout, theirStdout, err := newOutput(o.Stdout, true)
	if err != nil {
		orders.Close()
		reports.Close()
		stderr.abandon()
		return nil, err
	}
	defer theirStdout.Close()
	s := &supervisor{
		cmd: exec.Command(o.Supervisor[0], o.Supervisor[1:]...), pipe: orders, orders: json.NewEncoder(orders),
		stdout: stdout, stderr: stderr, front: isTerminal(o.Stdin),
	}
	s.cmd.Env, s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = o.Env, o.Stdin, os.Stderr, os.Stderr
	s.cmd.ExtraFiles = []*os.File{theirOrders, theirReports, theirStderr, theirStdout}
	// It gets no signals of the keyboard, nor those to this process's group.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = lastWords
	adopt(true) // in case the supervisor is killed
	if err := s.cmd.Start(); err != nil {
		orders.Close()
		reports.Close()
		stderr.abandon()
		stdout.abandon()
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
	s.reports = said
	return s, nil
}

// lastWords is how long to wait for the command's outputs after it ended: processes that it left
// running may keep them open.
const lastWords = 2 * time.Second

// send sends an order. If the supervisor is gone, its reports end.
func (s *supervisor) send(o order) { _ = s.orders.Encode(o) }

// run makes the supervisor start a command.
func (s *supervisor) run(command, env, files []string) {
	o := order{Run: command, Env: env, Files: files}
	if s.front {
		o.Group = syscall.Getpgrp()
	}
	s.send(o)
}

// dismiss ends the supervisor. Processes that still run continue.
func (s *supervisor) dismiss() {
	adopt(false)
	s.send(order{Leave: true})
	_ = s.cmd.Wait() // it has reported everything
	var outputs sync.WaitGroup
	outputs.Go(s.stdout.close)
	outputs.Go(s.stderr.close)
	outputs.Wait()
	s.pipe.Close()
}

// killRest kills the processes of a supervisor that was killed: they are this process's children
// now. pid is the command, 0 if unknown.
func (s *supervisor) killRest(pid int) {
	if pid != 0 && !s.front {
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
