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
	"syscall"
	"time"
)

// The guard is a process between dibs run and its command. It outlives dibs run should that be
// killed, and then kills the command with all that the command started. On Linux it becomes the
// parent of whatever loses its own, so that nothing is lost sight of, whatever session, group or
// environment it has given itself; elsewhere it knows the command's process group only. The
// daemon takes it for what keeps the claim alive: it ends last, once dibs run has said what became
// of the task, or is gone.

// order is what dibs run says to its guard: to start a command, to send a signal, or to end and
// leave alone what still runs.
type order struct {
	Run   []string
	Env   []string
	Group int    // the process group of the command; 0 for one of its own
	File  string // to be removed should dibs run be killed

	Signal     syscall.Signal
	Everything bool // all that was started gets the signal; else the command's own group

	Leave bool
}

// report is what the guard says to dibs run: that the command was started or could not be, which
// code it ended with, and that nothing runs any more.
type report struct {
	PID    int
	Failed string
	Ended  bool
	Code   int
	Clear  bool
}

// The guard gets its orders from one pipe, reports to the next, and hands the last on to the
// command as its stderr, which it does not keep open.
const ordersFile, reportsFile, stderrFile = 3, 4, 5

// killAgain is how often what has yet to end is killed again: it may start more meanwhile.
const killAgain = 20 * time.Millisecond

// Guard is what the guard's process does. It returns once there is nothing left to guard.
func Guard() error {
	for _, fd := range []int{ordersFile, reportsFile, stderrFile} {
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return errors.New("this command is part of dibs run, and not for people: leave it to that")
		}
		syscall.CloseOnExec(fd)
	}
	in, out := json.NewDecoder(os.NewFile(ordersFile, "orders")), json.NewEncoder(os.NewFile(reportsFile, "reports"))
	// The command dies with the thread that started it, see attributes.
	runtime.LockOSThread()
	rename()
	adopt(true)
	g := guarding{parent: os.Getppid(), out: out, stderr: os.NewFile(stderrFile, "stderr"), signals: make(chan os.Signal, 8)}
	signal.Notify(g.signals, passed()...)
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
	return g.guard(first, orders)
}

// guarding is a guard at work.
type guarding struct {
	parent  int // dibs run
	out     *json.Encoder
	stderr  *os.File
	signals chan os.Signal
}

func (g *guarding) guard(first order, orders <-chan order) error {
	cmd := exec.Command(first.Run[0], first.Run[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = first.Env, os.Stdin, os.Stdout, g.stderr
	cmd.SysProcAttr = attributes(first.Group)
	err := cmd.Start()
	g.stderr.Close()
	if err != nil {
		return g.out.Encode(report{Failed: err.Error()})
	}
	// Reports fail once dibs run is gone, which the end of its orders says, too.
	_ = g.out.Encode(report{PID: cmd.Process.Pid})
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
					return remove(first.File)
				}
				ended, kill = nil, nil
				_ = g.out.Encode(report{Clear: true})
				continue
			}
			running = false
			_ = g.out.Encode(report{Ended: true, Code: code})
		case o, more := <-orders:
			switch {
			case !more && ended == nil:
				return remove(first.File)
			case !more:
				orders, orphaned = nil, true
				kill = time.After(0)
			case o.Leave:
				return nil
			case ended == nil:
			case running && !o.Everything:
				_ = syscall.Kill(target, o.Signal) // it may be ending
			default:
				signalAll(target, o.Signal)
				if o.Signal == syscall.SIGKILL {
					kill = time.After(killAgain)
				}
			}
		case <-kill:
			signalAll(target, syscall.SIGKILL)
			kill = time.After(killAgain)
		case s := <-g.signals:
			// The command takes its parent for dibs run.
			if os.Getppid() == g.parent {
				_ = syscall.Kill(g.parent, s.(syscall.Signal))
			}
		}
	}
}

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// reap waits for all children of this process. It sends the code of one of them, which target
// names as syscall.Kill does, and closes the channel once none is left, nor any process in
// target's group.
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

// signalAll sends a signal to all that descends from this process, or, where that is not known,
// to the target, if there is one.
func signalAll(target int, s syscall.Signal) {
	pids, known := descendants()
	if !known && target != 0 {
		pids = []int{target}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// passed are the signals that a command gets, too: not those that this process was started to
// ignore, as nohup does.
func passed() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(all, signal.Ignored)
}
