package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// job is a claim and the command that runs for it.
type job struct {
	Options
	claim      api.Claim
	supervisor *supervisor
	began      time.Time
	// asked is when the command was asked to end; stopped says that a signal asked.
	asked   time.Time
	stopped bool
	held    bool             // everything is held still
	kill    <-chan time.Time // fires when everything is to be killed
	result  Result           // set once the outcome is known
	well    bool             // the command ended with 0
	made    files
	refused bool // the task could not be completed, as it is not done
	hurried sync.Once
}

// hurry ends the wait for whoever reads the command's outputs.
func (j *job) hurry() {
	j.hurried.Do(func() {
		close(j.supervisor.stdout.hurry)
		close(j.supervisor.stderr.hurry)
	})
}

// name returns what the command is called, without its folder.
func (j *job) name() string { return filepath.Base(j.Command[0]) }

const (
	// oneSignal is how long signals count as one: a closing terminal, or a service manager, sends
	// several.
	oneSignal = time.Second
	// killed is how long killed processes may take to end before a message says so.
	killed = 5 * time.Second
)

// run runs the command to its end, and reports the outcome of the task. It returns when nothing
// runs that the command started, unless the command completed the task.
func (j *job) run(ctx context.Context) (code int, err error) {
	j.began = time.Now()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passed()...)
	defer signal.Stop(signals)

	defer j.supervisor.dismiss()
	files, err := j.files(ctx)
	j.made = files
	defer files.remove()
	if err != nil {
		return 0, j.giveBack(ctx, fmt.Errorf("the command could not be started: %w", err))
	}
	j.supervisor.run(j.Command, j.environment(files), []string{files.task.Name(), files.summary.Name(), files.usage.Name()})
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	standings := make(chan standing)
	go j.watch(watching, standings)
	go j.renew(watching)

	if j.Progress {
		go j.progress(watching)
	}

	pid, ended, reported, clear := 0, false, false, false
	var why, broken error // the claim was lost; nobody watches over the command
	failed := ""          // why the command could not be started
	var late <-chan time.Time
	said, undone := make(chan verdict, 1), ""
	check := newChecking()
	// end reports the outcome once nothing runs any more.
	end := func() (int, error) {
		switch {
		case broken != nil:
			return 0, j.giveBack(ctx, broken)
		case reported:
			return code, err
		case why != nil:
			j.reportLost()
			j.become(claim.EndLost, code, why.Error())
			return code, why
		case undone != "":
			return NotDone, j.finish(ctx, NotDone, undone)
		}
		return code, j.finish(ctx, code, cmp.Or(failed, j.supervisor.stderr.said().text()))
	}
	for {
		select {
		case r, more := <-j.supervisor.reports:
			switch {
			case r.PID != 0:
				pid = r.PID
				continue
			case r.Ended:
				code, ended, pid = r.Code, true, 0
				if code == 0 && why == nil && !j.stopped {
					j.well = true
					go func() { said <- j.verdict(check, files) }()
					continue
				}
				j.ask(order{Signal: syscall.SIGTERM, Everything: true}) // somebody else may get the task next
				continue
			case r.Failed != "":
				code, failed = r.Code, r.Failed
			case !more: // the supervisor was killed
				j.supervisor.killRest(pid)
				if !ended {
					broken = fmt.Errorf("the process that watches over %s was killed", j.name())
				}
				j.supervisor.reports = nil
			}
			if j.well { // its last words, and the check, are still to come
				clear = true
				continue
			}
			return end()
		case v := <-said:
			j.well = false
			if undone = v.undone; undone == "" && !j.stopped && why == nil {
				reported, err = true, j.finish(ctx, code, v.said)
				if p, refused := errors.AsType[*api.Problem](err); refused && p.Code == api.CodeNotDone {
					j.refused, reported, err, undone = true, false, nil, p.Detail
				} else if err == nil {
					j.still(false)
					return code, nil
				}
			}
			if clear {
				return end()
			}
			j.ask(order{Signal: syscall.SIGTERM, Everything: true}) // somebody else may get the task next
		case s := <-signals:
			if j.well && j.Check == "" { // the command has ended: only its last words are waited for
				j.hurry()
				continue
			}
			j.signalled(s.(syscall.Signal))
			if j.stopped {
				j.hurry()
				check.stop()
			}
		case s := <-standings:
			switch {
			case reported: // ended normally
			case s.lost != nil:
				why = s.lost
				check.stop()
				j.Say("%v: %s %s", why, j.stopping(), j.name())
				j.ask(order{Signal: syscall.SIGTERM})
			case !s.doubt && j.held:
				j.Say("%s goes on: the claim on %q was renewed", j.name(), task.OneLine(j.claim.Task.Title, -1))
				j.still(false)
			case s.doubt && !ended:
				j.Say("the lease on %q is over: %s is held still until its page was read", task.OneLine(j.claim.Task.Title, -1), j.name())
				j.still(true)
			}
		case <-j.kill:
			check.kill()
			j.supervisor.send(order{Signal: syscall.SIGKILL, Everything: true})
			late = time.After(killed)
		case <-late:
			j.Say("what %s started was killed, and has yet to end: the task stays taken until then; find it with ps", j.name())
		}
	}
}

// ask asks the processes to end, and has them killed if they have not when Patience is over. Those
// that are held still are killed at once: somebody else may have the task, so none may go on.
func (j *job) ask(o order) {
	if j.held {
		o, j.held, j.kill = order{Signal: syscall.SIGKILL, Everything: true}, false, time.After(0)
	}
	j.supervisor.send(o)
	if j.kill == nil {
		j.asked, j.kill = time.Now(), time.After(j.Patience)
	}
}

// stopping says in messages how ask ends the command.
func (j *job) stopping() string {
	if j.held {
		return "killing"
	}
	return "stopping"
}

// still holds all that was started still, or lets it go on.
func (j *job) still(hold bool) {
	if hold == j.held {
		return
	}
	j.held = hold
	s := syscall.SIGCONT
	if hold {
		s = syscall.SIGSTOP
	}
	j.supervisor.send(order{Signal: s, Everything: true})
}

// signalled passes on a signal to this process. The second request to end kills.
func (j *job) signalled(s syscall.Signal) {
	switch {
	case s == syscall.SIGUSR1 || s == syscall.SIGUSR2:
		j.supervisor.send(order{Signal: s})
	case !j.stopped:
		j.stopped = true
		if j.held {
			j.Say("killing %s: it is held still", j.name())
		} else if j.kill == nil {
			j.Say("stopping %s: it has %v; a second signal kills it", j.name(), j.Patience)
		}
		if j.supervisor.front && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
			s = 0 // the command got it from the terminal
		}
		j.ask(order{Signal: s})
		j.asked = time.Now()
	case time.Since(j.asked) < oneSignal:
		j.supervisor.send(order{Signal: s})
	default:
		j.kill = time.After(0)
	}
}

// giveBack releases the task because of an error, and returns the error.
func (j *job) giveBack(ctx context.Context, because error) error {
	j.become(claim.EndReleased, 0, because.Error())
	_, err := j.Daemon.Release(context.WithoutCancel(ctx), string(j.claim.ID), api.StopRequest{Agent: j.claim.Agent, Reason: because.Error(), Used: j.spent()}, "")
	// The daemon may have released it already, as the keeper's process is gone.
	if p, refused := errors.AsType[*api.Problem](err); err != nil && !(refused && p.Code == api.CodeClaimLost) {
		return errors.Join(because, err)
	}
	return fmt.Errorf("%w: the task was given back", because)
}
