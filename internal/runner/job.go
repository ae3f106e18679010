package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// job is one claim, and the command that runs for it.
type job struct {
	Options
	claim   api.Claim
	began   time.Time
	stopped bool // by a signal
}

// passed are the signals that a command gets, too.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// run runs the command to its end, and says what became of the task.
func (j *job) run(ctx context.Context) (code int, err error) {
	j.began = time.Now()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)

	var tail tail
	cmd, tidy, err := j.command(ctx, &tail)
	if err == nil {
		defer tidy()
		err = cmd.start(j.Guard)
	}
	if err != nil {
		reason := "the command could not be started: " + err.Error()
		_, ferr := j.Daemon.Release(context.WithoutCancel(ctx), string(j.claim.ID), api.StopRequest{Agent: j.claim.Agent, Reason: reason}, "")
		return 0, errors.Join(errors.New(reason), ferr)
	}
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	lost := make(chan error, 1)
	go func() { lost <- j.watch(watching) }()
	if j.Claim.PID == 0 {
		go j.renew(watching)
	}

	var why error
	var kill <-chan time.Time
	for {
		select {
		case code = <-cmd.ended:
			if why != nil {
				return code, why
			}
			return code, j.finish(code, tail.text())
		case s := <-signals:
			switch s {
			case syscall.SIGUSR1, syscall.SIGUSR2:
			default:
				j.stopped = true
			}
			cmd.pass(s.(syscall.Signal))
		case why = <-lost:
			lost = nil
			j.Say("%v: stopping %s", why, j.Command[0])
			cmd.signal(syscall.SIGTERM)
			kill = time.After(j.Patience)
		case <-kill:
			cmd.signal(syscall.SIGKILL)
		}
	}
}

// watch returns an error once the claim is lost, or cannot be relied on any more because
// it was not renewed in time; nil when ctx ends.
func (j *job) watch(ctx context.Context) error {
	until := j.claim.ExpiresAt.Time
	for {
		left := time.Until(until)
		if left <= 0 {
			return fmt.Errorf("%w: its lease is over, and the daemon cannot be asked", ErrLost)
		}
		asking, cancel := context.WithTimeout(ctx, left)
		cl, err := j.Daemon.Watch(asking, string(j.claim.ID), j.claim.Agent, api.EventsFuture, min(time.Minute, max(left/2, time.Second)))
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case err == nil && cl.State != claim.Held:
			return fmt.Errorf("%w: %s", ErrLost, cmp.Or(cl.Detail, "it was "+string(cmp.Or(cl.Outcome, "ended"))))
		case err == nil:
			until = cl.ExpiresAt.Time
			continue
		case refused && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim):
			return fmt.Errorf("%w: %s", ErrLost, cmp.Or(p.Detail, p.Title))
		}
		pause(ctx, min(again, max(0, time.Until(until))))
	}
}

// renewEvery is how often a claim is renewed whose daemon cannot see this process.
const renewEvery = 30 * time.Second

// renew keeps the claim alive until ctx ends, for a daemon on another machine.
func (j *job) renew(ctx context.Context) {
	for pause(ctx, min(renewEvery, max(time.Until(j.claim.ExpiresAt.Time)/3, time.Second))) {
		asking, cancel := context.WithTimeout(ctx, renewEvery)
		// That it fails is noticed by watch, which goes by the lease.
		_, _ = j.Daemon.Renew(asking, string(j.claim.ID), api.RenewRequest{Agent: j.claim.Agent}, "")
		cancel()
	}
}

// command makes the command, and what it is told of its task. tidy takes that away.
func (j *job) command(ctx context.Context, tail *tail) (cmd *command, tidy func(), err error) {
	brief, err := os.CreateTemp("", "dibs-task-*.md")
	if err != nil {
		return nil, nil, err
	}
	tidy = func() { os.Remove(brief.Name()) }
	if err = errors.Join(j.Brief(ctx, brief, j.claim), brief.Close()); err != nil {
		tidy()
		return nil, nil, err
	}
	run := exec.Command(j.Command[0], j.Command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = j.Stdin, j.Stdout, io.MultiWriter(j.Stderr, tail)
	// The fence is that of another claim, if this runs for one itself.
	others := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DIBS_FENCE=") })
	run.Env = append(others,
		"DIBS_TASK_ID="+string(j.claim.Task.ID), "DIBS_TASK_TITLE="+j.claim.Task.Title, "DIBS_TASK_URL="+j.claim.Task.URL,
		"DIBS_CLAIM_ID="+string(j.claim.ID), "DIBS_AGENT="+j.claim.Agent, "DIBS_TASK_FILE="+brief.Name())
	if j.claim.Fence > 0 { // in a cluster
		run.Env = append(run.Env, fmt.Sprintf("DIBS_FENCE=%d", j.claim.Fence))
	}
	// What the command leaves running may keep its stderr open.
	run.WaitDelay = 2 * time.Second
	return &command{Cmd: run, ended: make(chan int, 1), file: brief.Name()}, tidy, nil
}
