package runner

import (
	"cmp"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// verdict is what becomes of a command that ended with 0.
type verdict struct {
	said   string // the summary
	undone string // why the task is not done all the same; empty if it is
}

// verdict waits for the command's last words, and then for the check.
func (j *job) verdict(c *checking, f files) verdict {
	v := verdict{said: f.said(j.supervisor.stdout)}
	if j.Check != "" {
		v.undone = j.check(c, f)
	}
	return v
}

// checking stops a check that is no longer wanted.
type checking struct {
	stop, kill      func()
	stopped, killed <-chan struct{}
}

func newChecking() *checking {
	stopped, killed := make(chan struct{}), make(chan struct{})
	return &checking{
		stop: sync.OnceFunc(func() { close(stopped) }), kill: sync.OnceFunc(func() { close(killed) }),
		stopped: stopped, killed: killed,
	}
}

// check runs the check, which has a supervisor of its own, and returns why the task is not done; empty
// if it is. It returns when nothing runs any more that the check started.
func (j *job) check(c *checking, f files) string {
	s, err := j.newSupervisor()
	if err != nil {
		return fmt.Sprintf("the check could not be started: %v", err)
	}
	defer adopt(true) // for the command's supervisor
	defer s.dismiss()
	s.run([]string{"sh", "-c", j.Check}, j.environment(f), nil)
	stopped, killed := c.stopped, c.killed
	pid, code, failed := 0, 0, ""
	var late <-chan time.Time
	for {
		select {
		case r, more := <-s.reports:
			switch {
			case r.PID != 0:
				pid = r.PID
				continue
			case r.Ended:
				code, pid = r.Code, 0
				s.send(order{Signal: syscall.SIGKILL, Everything: true}) // what it left running
				continue
			case r.Failed != "":
				failed = "the check could not be started: " + r.Failed
			case !more:
				s.killRest(pid)
				failed = "the process that watches over the check was killed"
			}
			if failed == "" && code != 0 {
				failed = cmp.Or(s.stdout.said().last(), s.stderr.said().last(), fmt.Sprintf("the check ended with %d", code))
			}
			return failed
		case <-stopped:
			stopped, late = nil, time.After(j.Patience)
			s.send(order{Signal: syscall.SIGTERM, Everything: true})
		case <-late:
			s.send(order{Signal: syscall.SIGKILL, Everything: true})
		case <-killed:
			killed = nil
			s.send(order{Signal: syscall.SIGKILL, Everything: true})
		}
	}
}
