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
	"unicode"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
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

// finish reports the outcome to the daemon, by the command's exit code. said is what the command
// said of it. It retries while there is no daemon, or its journal or Notion is needed and cannot be
// used; the key keeps a repetition from acting twice. Once running has ended, as after a signal, it does not wait for a
// journal.
func (j *job) finish(running context.Context, code int, said string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	key := "run " + string(j.claim.ID)
	if j.refused {
		key += " not done"
	}
	end := j.ending(code, said)
	for told := false; ; {
		ended, err := end(ctx, key)
		_, away := errors.AsType[*client.UnreachableError](err)
		p, refused := errors.AsType[*api.Problem](err)
		if refused && p.Code == api.CodeClaimLost {
			err := lost(p)
			j.become(claim.EndLost, code, err.Error())
			return err
		}
		wait := again
		waiting := ctx
		unsaved := refused && p.Code.Passes() && p.RetryAfter > 0 && !j.stopped && running.Err() == nil
		if unsaved {
			waiting, wait = running, max(again, time.Duration(p.RetryAfter)*time.Second)
		}
		if !away && !unsaved && !(refused && (p.Code == api.CodeStopping || p.Code == api.CodeBusy)) {
			if err == nil {
				j.result.Task, j.result.Pending = ended.Task, ended.Pending
				j.result.Outcome = cmp.Or(ended.Outcome, j.result.Outcome)
			}
			if err == nil && ended.Pending {
				j.Say("%q: pending: Notion has not been told yet. It is not known %s", ended.Task.Title, task.OneLine(ended.Unknown, unicode.ReplacementChar))
			}
			return err
		}
		if !told {
			j.Say("%v; trying again for a minute", err)
			told = true
		}
		if clock.Pause(waiting, wait) != nil || ctx.Err() != nil {
			return err
		}
	}
}

// ending returns the request that ends the claim, by the command's exit code and what it said.
func (j *job) ending(code int, said string) func(context.Context, string) (api.Claim, error) {
	id, agent := string(j.claim.ID), j.claim.Agent
	used := j.spent()
	took := time.Since(j.began).Round(time.Second)
	release := func(ctx context.Context, key string) (api.Claim, error) {
		return j.Daemon.Release(ctx, id, api.StopRequest{Agent: agent, Reason: j.result.Text, Used: used}, key)
	}
	switch {
	case j.stopped:
		j.become(claim.EndReleased, code, j.name()+" was stopped")
		return release
	case unstarted(code):
		j.become(claim.EndReleased, code, "the command could not be started: "+cmp.Or(said, fmt.Sprintf("%s ended with %d", j.name(), code)))
		return release
	case code == TryLater:
		j.become(claim.EndReleased, code, cmp.Or(said, j.name()+" wants to be tried later"))
		return release
	case code == 0:
		j.become(claim.EndCompleted, code, cmp.Or(said, fmt.Sprintf("%s ended well after %s", j.name(), took)))
		return func(ctx context.Context, key string) (api.Claim, error) {
			return j.Daemon.Complete(ctx, id, api.CompleteRequest{Agent: agent, Summary: j.result.Text, Used: used}, key)
		}
	}
	j.become(claim.EndFailed, code, cmp.Or(said, fmt.Sprintf("%s ended with %d", j.name(), code)))
	return func(ctx context.Context, key string) (api.Claim, error) {
		return j.Daemon.Fail(ctx, id, api.FailRequest{Agent: agent, Reason: j.result.Text, Used: used}, key)
	}
}

// spent is used at the end of the command. What cannot be read is said, and changes nothing else.
func (j *job) spent() api.Used {
	used, err := j.made.used()
	if err != nil {
		j.Say("what %s wrote into DIBS_USAGE_FILE is not counted: %v", j.name(), err)
	}
	return used
}
