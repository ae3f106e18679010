package runner

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// supervisor is the supervisor's process as dibs run sees it, see Supervise.
type supervisor struct {
	cmd     *exec.Cmd
	pipe    *os.File
	orders  *json.Encoder
	idle    bool          // no command was to be started yet
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
		stdout: stdout, stderr: stderr, front: isTerminal(o.Stdin), idle: true,
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
	heard := make(chan report, 3)
	go func() {
		defer close(heard)
		defer reports.Close()
		for in := json.NewDecoder(reports); ; {
			var r report
			if in.Decode(&r) != nil {
				return
			}
			heard <- r
		}
	}()
	s.reports = heard
	return s, nil
}

// send sends an order. If the supervisor is gone, its reports end. Before a command was to be started
// there is nothing to signal.
func (s *supervisor) send(o order) {
	if !s.idle || o.Leave {
		_ = s.orders.Encode(o)
	}
}

// run makes the supervisor start a command in a folder; empty for the current one.
func (s *supervisor) run(dir string, command, env, files []string) {
	o := order{Run: command, Dir: dir, Env: env, Files: files}
	if s.front {
		o.Group = syscall.Getpgrp()
	}
	s.idle = false
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

// latest returns the last line of the output that the command wrote to last.
func (s *supervisor) latest() string {
	out, err := s.stdout.now(), s.stderr.now()
	if line := err.last(); line != "" && err.wrote().After(out.wrote()) {
		return line
	}
	return out.last()
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

// The supervisor is a process between dibs run and its command. If dibs run is killed, it kills the
// command and everything that the command started. On Linux it becomes the parent of orphaned
// descendants, so that it loses none of them, whatever session, group or environment they have; on
// other systems it knows only the command's process group. To the daemon, it is the process that
// keeps the claim alive: it ends last, after dibs run has reported the outcome of the task, or is
// gone.

// order is an order of dibs run to its supervisor: to start a command, to send a signal, or to end
// and leave running processes alone.
type order struct {
	Run   []string
	Dir   string // where it runs; empty for the supervisor's
	Env   []string
	Group int      // the process group of the command; 0 for one of its own
	Files []string // removed if dibs run is killed

	Signal     syscall.Signal
	Everything bool // everything that was started gets the signal, not only the command's group

	Leave bool
}

// report is a report of the supervisor to dibs run: that the command was started or could not be,
// with the code that a shell has for that; the code with which it ended; that nothing runs any more.
type report struct {
	PID    int
	Failed string
	Ended  bool
	Code   int
	Clear  bool
}

// The supervisor reads orders from the first of these files and writes reports to the second. The
// others become the command's stderr and stdout; the supervisor closes its own copies. All are
// pipes, but stdout may be a terminal.
const ordersFile, reportsFile, stderrFile, stdoutFile = 3, 4, 5, 6

// killAgain is how often remaining processes are killed again: they may start more meanwhile.
const killAgain = 20 * time.Millisecond

// stopPasses limits how often more processes to stop are looked for.
const stopPasses = 20

// Supervise runs in the supervisor's process. It returns once nothing is left to supervise.
func Supervise() error {
	for _, fd := range []int{ordersFile, reportsFile, stderrFile} {
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return errors.New("this command is part of dibs run, and not for people: only dibs run may start it")
		}
		syscall.CloseOnExec(fd)
	}
	syscall.CloseOnExec(stdoutFile)
	in, out := json.NewDecoder(os.NewFile(ordersFile, "orders")), json.NewEncoder(os.NewFile(reportsFile, "reports"))
	// The command dies with the thread that started it, see attributes.
	runtime.LockOSThread()
	rename()
	adopt(true)
	s := supervising{parent: os.Getppid(), out: out, stderr: os.NewFile(stderrFile, "stderr"), stdout: os.NewFile(stdoutFile, "stdout"), signals: make(chan os.Signal, 8)}
	signal.Notify(s.signals, passed()...)
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	first, ok := <-orders
	if !ok || len(first.Run) == 0 {
		return nil
	}
	return s.run(first, orders)
}

// supervising is a supervisor at work.
type supervising struct {
	parent  int // dibs run
	out     *json.Encoder
	stdout  *os.File
	stderr  *os.File
	signals chan os.Signal
}

// run runs the command of the first order, and returns once nothing of it is left.
func (s *supervising) run(first order, orders <-chan order) error {
	cmd := exec.Command(first.Run[0], first.Run[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = first.Dir, first.Env, os.Stdin, s.stdout, s.stderr
	cmd.SysProcAttr = attributes(first.Group)
	err := cmd.Start()
	s.stderr.Close()
	s.stdout.Close()
	if err != nil {
		return s.failed(err, first, orders)
	}
	// Reports fail once dibs run is gone. Its orders end then, too.
	_ = s.out.Encode(report{PID: cmd.Process.Pid})
	target := cmd.Process.Pid
	if first.Group == 0 {
		target = -target
	}
	ended, running, orphaned := reap(target), true, false
	var kill <-chan time.Time
	for {
		select {
		case code, more := <-ended:
			if !more {
				if orphaned {
					return remove(first.Files)
				}
				ended, kill = nil, nil
				_ = s.out.Encode(report{Clear: true})
				continue
			}
			running = false
			_ = s.out.Encode(report{Ended: true, Code: code})
		case o, more := <-orders:
			switch {
			case !more && ended == nil:
				return remove(first.Files)
			case !more:
				orders, orphaned = nil, true
				kill = time.After(0)
			case o.Leave:
				return nil
			case ended == nil:
			case running && !o.Everything:
				_ = syscall.Kill(target, o.Signal) // it may have ended
			default:
				signalAll(target, o.Signal)
				if o.Signal == syscall.SIGKILL {
					kill = time.After(killAgain)
				}
			}
		case <-kill:
			signalAll(target, syscall.SIGKILL)
			kill = time.After(killAgain)
		case got := <-s.signals:
			// The command meant dibs run, which it takes for its parent.
			if os.Getppid() == s.parent {
				_ = syscall.Kill(s.parent, got.(syscall.Signal))
			}
		}
	}
}

// failed reports that the command could not be started, and keeps the claim alive until its task was
// given back.
func (s *supervising) failed(err error, first order, orders <-chan order) error {
	code := NoCommand
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = NotFound
	}
	_ = s.out.Encode(report{Failed: err.Error(), Code: code})
	for o := range orders {
		if o.Leave {
			return nil
		}
	}
	return remove(first.Files)
}

func remove(files []string) (err error) {
	for _, file := range files {
		if e := os.Remove(file); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// reap waits for all children of this process. It sends the exit code of target, which is as in
// syscall.Kill, and closes the channel once no child is left, nor any process in target's group.
func reap(target int) <-chan int {
	ended := make(chan int, 1)
	go func() {
		defer close(ended)
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			switch {
			case err == syscall.EINTR:
			case err != nil && target < 0 && syscall.Kill(target, 0) != syscall.ESRCH:
				time.Sleep(killAgain)
			case err != nil:
				return
			case (pid == target || pid == -target) && status.Signaled():
				ended <- Signalled + int(status.Signal())
			case pid == target || pid == -target:
				ended <- status.ExitStatus()
			}
		}
	}()
	return ended
}

// signalAll sends a signal to all descendants of this process, or, where they are unknown, to the
// target, if there is one. What they start meanwhile is stopped, too.
func signalAll(target int, s syscall.Signal) {
	reached := make(map[int]bool)
	for range stopPasses {
		pids, known := descendants()
		if !known && target != 0 {
			pids = []int{target}
		}
		before := len(reached)
		for _, pid := range pids {
			if !reached[pid] {
				reached[pid] = true
				_ = syscall.Kill(pid, s) // it may have ended
			}
		}
		if s != syscall.SIGSTOP || len(reached) == before {
			return
		}
	}
}

// passed returns the signals that are passed to a command, without those that this process was
// started to ignore, as under nohup.
func passed() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(all, signal.Ignored)
}
