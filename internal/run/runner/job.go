package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/run/worktree"
	"dibs/internal/task"
)

// job is a claim and the command that runs for it.
type job struct {
	Options
	keeping
	supervisor *supervisor
	began      time.Time
	files      files
	check      *checking
	verdicts   chan verdict
	tree       *worktree.Attempt // nil without Trees, and before it is made
	hurried    sync.Once

	// What is known of the command.
	pid    int    // 0 before it started, and after it ended
	ended  bool   // with code
	code   int    // also that of a command that could not be started
	failed string // why it could not be started
	awaits bool   // a verdict is to come: its worktree is being made, or it ended with 0
	clear  bool   // nothing of it runs any more

	// What it was asked.
	asked   time.Time        // when it was asked to end
	stopped bool             // a signal asked
	doubts  int              // how many there are about the claim
	frozen  bool             // everything is held still
	kill    <-chan time.Time // fires when everything is to be killed
	late    <-chan time.Time // fires when what was killed should have ended

	// What becomes of the task.
	lost     error  // the claim was lost
	broken   error  // nobody watches over the command
	unready  bool   // what comes before the command failed
	undone   string // why the task is not done although the command ended with 0
	refused  bool   // the daemon said so
	reported bool   // the daemon knows the outcome, or failed to take it with err
	err      error
	result   Result // set once the outcome is known
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

// title returns the task's title, for messages.
func (j *job) title() string { return task.OneLine(j.claim.Task.Title, -1) }

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
	err = j.start(ctx)
	defer j.files.remove()
	defer func() {
		if j.tree != nil {
			j.tree.Leave()
		}
	}()
	if err != nil {
		return 0, j.giveBack(ctx, fmt.Errorf("the command could not be started: %w", err))
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	standings := j.keep(running)
	if j.Trees == nil {
		j.launch()
	} else {
		j.awaits = true
		go func() { j.verdicts <- j.prepare() }()
	}

	for over := false; !over; {
		select {
		case r, more := <-j.supervisor.reports:
			over = j.heard(r, more)
		case v := <-j.verdicts:
			if j.supervisor.idle {
				over = j.prepared(v)
			} else {
				over = j.judged(ctx, v)
			}
		case s := <-signals:
			j.signalled(s.(syscall.Signal))
		case s := <-standings:
			j.stands(s)
		case <-j.kill:
			j.check.kill()
			j.supervisor.send(order{Signal: syscall.SIGKILL, Everything: true})
			j.late = time.After(killed)
		case <-j.late:
			j.Say("what %s started was killed, and has yet to end: the task stays taken until then; find it with ps", j.name())
		}
	}
	return j.end(ctx)
}

// start makes what the command needs.
func (j *job) start(ctx context.Context) (err error) {
	j.verdicts = make(chan verdict, 1)
	j.files, err = newFiles(ctx, j.Options, j.claim)
	return err
}

// launch has the supervisor start the command.
func (j *job) launch() {
	dir := ""
	if j.tree != nil {
		dir = j.tree.Path
	}
	j.supervisor.run(dir, j.Command, j.files.environment(j.Options, j.claim, j.tree), j.files.names())
	if j.frozen {
		j.frozen = false
		j.freeze(true)
	}
}

// prepare makes the worktree, and what the command needs in it.
func (j *job) prepare() (v verdict) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-j.check.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	t := j.claim.Task
	var err error
	v.tree, err = j.Trees.Begin(ctx, worktree.For{Task: string(t.ID), Key: t.Key, Title: t.Title, Claim: string(j.claim.ID), Agent: j.claim.Agent, Former: len(t.Attempts)})
	if err != nil {
		v.undone, v.busy = err.Error(), errors.Is(err, worktree.ErrInUse)
		return v
	}
	if v.tree.Setup != "" {
		_, v.undone = j.step("setup", v.tree, v.tree.Setup)
	}
	if v.undone == "" && j.Setup != "" {
		_, v.undone = j.step("setup", v.tree, "sh", "-c", j.Setup)
	}
	if v.undone != "" {
		v.undone = "the setup failed: " + v.undone
	}
	return v
}

// prepared takes in the verdict on what comes before the command. It reports whether the job is over.
func (j *job) prepared(v verdict) (over bool) {
	j.awaits, j.tree = false, v.tree
	if v.undone == "" && !j.stopped && j.lost == nil && j.broken == nil {
		j.launch()
		return false
	}
	j.code, j.failed, j.unready = TryLater, cmp.Or(v.undone, "it was stopped"), !v.busy
	return true
}

// keep keeps the claim until ctx ends, and returns how it stands.
func (j *job) keep(ctx context.Context) <-chan standing {
	standings := make(chan standing)
	go j.watch(ctx, standings)
	go j.renew(ctx, j.files.used)
	if j.Daemon.Remote() {
		go j.link(ctx, standings)
	}
	if j.Progress {
		go j.progress(ctx, j.supervisor.latest)
	}
	return standings
}

// heard takes in a report of the supervisor; false for more if that has ended. It reports whether the
// job is over.
func (j *job) heard(r report, more bool) (over bool) {
	switch {
	case r.PID != 0:
		j.pid = r.PID
		return false
	case r.Ended:
		j.code, j.ended, j.pid = r.Code, true, 0
		if j.code == 0 && j.lost == nil && !j.stopped {
			j.awaits = true
			go func() { j.verdicts <- j.verdict() }()
		} else {
			j.askAll()
		}
		return false
	case r.Failed != "":
		j.code, j.failed = r.Code, r.Failed
	case !more: // the supervisor was killed
		j.supervisor.killRest(j.pid)
		if !j.ended {
			j.broken = fmt.Errorf("the process that watches over %s was killed", j.name())
			j.check.stop()
		}
		j.supervisor.reports = nil
	}
	j.clear = true
	return !j.awaits // or its last words, and the steps after it, are still to come
}

// judged takes in the verdict on a command that ended with 0. It reports whether the job is over.
func (j *job) judged(ctx context.Context, v verdict) (over bool) {
	j.awaits = false
	if j.lost == nil && v.lost != nil {
		j.lost = v.lost
		j.Say("%v", j.lost)
	}
	if j.undone = v.undone; j.undone == "" && !j.stopped && j.lost == nil {
		j.reported, j.err = true, j.finish(ctx, j.code, v.summary)
		if p, refused := errors.AsType[*api.Problem](j.err); refused && p.Code == api.CodeNotDone {
			j.refused, j.reported, j.err, j.undone = true, false, nil, p.Detail
		} else if j.err == nil {
			j.freeze(false)
			j.tidy()
			return true
		}
	}
	if !j.clear {
		j.askAll()
	}
	return j.clear
}

// stands takes in how the claim stands.
func (j *job) stands(s standing) {
	switch {
	case j.reported || j.lost != nil: // ended normally, or being ended
	case s.lost != nil:
		j.lost = s.lost
		j.check.stop()
		j.Say("%v: %s %s", j.lost, j.stopping(), j.name())
		j.ask(order{Signal: syscall.SIGTERM})
		if s.now {
			j.kill = time.After(0)
		}
	case s.doubt == "":
		if j.doubts--; j.doubts == 0 && j.frozen {
			j.Say("%s goes on: the claim on %q was renewed", j.name(), j.title())
			j.freeze(false)
		}
	default:
		if j.doubts++; !j.ended {
			j.Say(string(s.doubt), j.title(), j.name())
			j.freeze(true)
		}
	}
}

// end reports the outcome, unless that is done, once the job is over.
func (j *job) end(ctx context.Context) (code int, err error) {
	switch {
	case j.broken != nil:
		return 0, j.giveBack(ctx, j.broken)
	case j.reported:
		return j.code, j.err
	case j.lost != nil:
		j.reportLost(j.spent())
		j.become(claim.EndLost, j.code, j.lost.Error())
		j.leaveWord()
		return j.code, j.lost
	case j.undone != "":
		return NotDone, j.finish(ctx, NotDone, j.undone)
	}
	if j.failed == "" {
		j.failed = j.supervisor.stderr.drain().text()
	}
	return j.code, j.finish(ctx, j.code, j.failed)
}

// tidy removes the worktree of a completed task, if nothing is lost with it.
func (j *job) tidy() {
	if j.tree == nil || j.result.Outcome != claim.EndCompleted || j.result.Pending {
		return
	}
	if err := j.tree.Completed(context.Background()); err != nil {
		j.Say("%s stays: %v", j.tree.Path, err)
	}
}

// leaveWord says on the card where the work of a lost claim is, unless its agent has finished the task.
func (j *job) leaveWord() {
	l, known := errors.AsType[*lostError](j.lost)
	if j.tree == nil || known && slices.Contains([]claim.Ending{claim.EndCompleted, claim.EndReview, claim.EndFailed, claim.EndBlocked}, l.as) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	where, any := j.tree.Where(ctx)
	if !any {
		return
	}
	j.Say("what was done is on %s", where)
	text := fmt.Sprintf("%v. What %s did is on %s. It was not published.", j.lost, j.claim.Agent, where)
	_, err := client.Do(ctx, j.Daemon, api.OpComment, api.OnTask(j.claim.Task.ID, "lost "+string(j.claim.ID), api.CommentRequest{Agent: j.claim.Agent, Text: text}))
	if err != nil {
		j.Say("that is not on the card: %v", err)
	}
}

// askAll asks all that still runs to end: somebody else may get the task next.
func (j *job) askAll() { j.ask(order{Signal: syscall.SIGTERM, Everything: true}) }

// ask asks the processes to end, and has them killed if they have not when Patience is over. Those
// that are held still are killed at once: somebody else may have the task, so none may go on.
func (j *job) ask(o order) {
	if j.frozen {
		o, j.frozen, j.kill = order{Signal: syscall.SIGKILL, Everything: true}, false, time.After(0)
	}
	j.supervisor.send(o)
	if j.kill == nil {
		j.asked, j.kill = time.Now(), time.After(j.Patience)
	}
}

// stopping says in messages how ask ends the command.
func (j *job) stopping() string {
	if j.frozen {
		return "killing"
	}
	return "stopping"
}

// freeze holds all that was started still, or lets it go on.
func (j *job) freeze(hold bool) {
	if hold == j.frozen {
		return
	}
	j.frozen = hold
	s := syscall.SIGCONT
	if hold {
		s = syscall.SIGSTOP
	}
	j.supervisor.send(order{Signal: s, Everything: true})
}

// signalled passes on a signal to this process. Once the command has ended well, only its last words
// and the check are waited for: they are hurried.
func (j *job) signalled(s syscall.Signal) {
	if j.awaits && j.Check == "" && j.Trees == nil {
		j.hurry()
		return
	}
	j.pass(s)
	if j.stopped {
		j.hurry()
		j.check.stop()
	}
}

// pass passes a signal on to the command. The second request to end kills.
func (j *job) pass(s syscall.Signal) {
	switch {
	case s == syscall.SIGUSR1 || s == syscall.SIGUSR2:
		j.supervisor.send(order{Signal: s})
	case !j.stopped:
		j.stopped = true
		if j.frozen {
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

// maxText limits the characters of a summary or reason, so that where the work is is told, too.
const maxText = 700

// become notes what becomes of the job's task.
func (j *job) become(outcome claim.Ending, code int, text string) {
	j.result = Result{
		Task: j.claim.Task, Claim: j.claim.ID, Agent: j.claim.Agent, Outcome: outcome, ExitCode: code,
		Seconds: time.Since(j.began).Round(100 * time.Millisecond).Seconds(), Text: text,
	}
	if j.tree == nil {
		return
	}
	j.result.Branch, j.result.Published = j.tree.Branch, j.tree.Published
	if outcome == claim.EndLost {
		return
	}
	if short := []rune(text); len(short) > maxText {
		text = string(short[:maxText]) + "…"
	}
	where, _ := j.tree.Where(context.Background())
	j.result.Text = text + "; " + where
	if j.tree.Done && j.tree.Published != "" { // first, as lists show the beginning
		j.result.Text = j.tree.Published + "; " + j.result.Text
	}
}

// giveBack releases the task because of an error, and returns the error.
func (j *job) giveBack(ctx context.Context, because error) error {
	j.become(claim.EndReleased, 0, because.Error())
	_, err := client.Do(context.WithoutCancel(ctx), j.Daemon, api.OpRelease, api.On(string(j.claim.ID), "", api.StopRequest{Agent: j.claim.Agent, Reason: j.result.Text, Used: j.spent()}))
	// The daemon may have released it already, as the keeper's process is gone.
	if p, refused := errors.AsType[*api.Problem](err); err != nil && !(refused && p.Code == api.CodeClaimLost) {
		return errors.Join(because, err)
	}
	return fmt.Errorf("%w: the task was given back", because)
}

// verdict is what becomes of a command that ended with 0; or, before it, of its worktree.
type verdict struct {
	summary string
	undone  string // why the task is not done all the same; empty if it is
	lost    error  // the claim was lost before its work could be published

	tree *worktree.Attempt
	busy bool // the worktree is in use
}

// verdict waits for the command's last words, and then for the steps after it.
func (j *job) verdict() verdict {
	v := verdict{summary: j.files.account(j.supervisor.stdout)}
	if j.tree != nil {
		if _, v.undone = j.step("commit", j.tree, "sh", "-c", worktree.Commit); v.undone != "" {
			v.undone = "the commit failed: " + v.undone
			return v
		}
	}
	if j.Check != "" {
		_, v.undone = j.step("check", j.tree, "sh", "-c", j.Check)
	}
	if j.tree == nil || j.Publish == "" || v.undone != "" {
		return v
	}
	if v.lost = j.held(context.Background()); v.lost != nil {
		return v
	}
	said, undone := j.step("publisher", j.tree, "sh", "-c", j.Publish)
	if v.undone = undone; undone == "" {
		if at, err := url.Parse(said); err != nil || at.Host == "" || !strings.HasPrefix(at.Scheme, "http") {
			said = ""
		}
		if err := j.tree.Publish(context.Background(), said); err != nil {
			v.undone = "it was published, and that could not be noted: " + err.Error()
		}
	}
	return v
}

// checking stops a step that is no longer wanted.
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

// step runs a command before or after the one of the task, with a supervisor of its own, and returns its
// last line, and why it failed; empty if it ended with 0. It returns when nothing runs any more that the
// step started.
func (j *job) step(name string, tree *worktree.Attempt, command ...string) (last, failed string) {
	o, dir := j.Options, ""
	if name != "check" {
		o.Stdin = nil // the command's
	}
	if tree != nil {
		dir = tree.Path
	}
	s, err := o.newSupervisor()
	if err != nil {
		return "", fmt.Sprintf("the %s could not be started: %v", name, err)
	}
	defer adopt(true) // for the command's supervisor
	defer s.dismiss()
	s.run(dir, command, j.files.environment(o, j.claim, tree), nil)
	stopped, killed := j.check.stopped, j.check.killed
	pid, code := 0, 0
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
				failed = "the " + name + " could not be started: " + r.Failed
			case !more:
				s.killRest(pid)
				failed = "the process that watches over the " + name + " was killed"
			}
			last = s.stdout.drain().last()
			if failed == "" && code != 0 {
				failed = cmp.Or(last, s.stderr.drain().last(), fmt.Sprintf("the %s ended with %d", name, code))
			}
			return last, failed
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

// finish reports the outcome to the daemon, by the command's exit code; text is the command's summary
// or reason. It retries while there is no daemon, or its journal or Notion is needed and cannot be
// used; the key keeps a repetition from acting twice. Once running has ended, as after a signal, it
// does not wait for a journal.
func (j *job) finish(running context.Context, code int, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	key := "run " + string(j.claim.ID)
	if j.refused {
		key += " not done"
	}
	end := j.ending(code, text)
	for warned := false; ; {
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
		if !warned {
			j.Say("%v; trying again for a minute", err)
			warned = true
		}
		if clock.Pause(waiting, wait) != nil || ctx.Err() != nil {
			return err
		}
	}
}

// ending returns the request that ends the claim, by the command's exit code and its summary or
// reason.
func (j *job) ending(code int, text string) func(context.Context, string) (api.Claim, error) {
	id, agent := string(j.claim.ID), j.claim.Agent
	used := j.spent()
	took := time.Since(j.began).Round(time.Second)
	release := func(ctx context.Context, key string) (api.Claim, error) {
		return client.Do(ctx, j.Daemon, api.OpRelease, api.On(id, key, api.StopRequest{Agent: agent, Reason: j.result.Text, Used: used}))
	}
	switch {
	case j.stopped:
		j.become(claim.EndReleased, code, j.name()+" was stopped")
		return release
	case unstarted(code):
		j.become(claim.EndReleased, code, "the command could not be started: "+cmp.Or(text, fmt.Sprintf("%s ended with %d", j.name(), code)))
		return release
	case code == TryLater:
		j.become(claim.EndReleased, code, cmp.Or(text, j.name()+" wants to be tried later"))
		return release
	case code == 0:
		j.become(claim.EndCompleted, code, cmp.Or(text, fmt.Sprintf("%s ended well after %s", j.name(), took)))
		return func(ctx context.Context, key string) (api.Claim, error) {
			return client.Do(ctx, j.Daemon, api.OpComplete, api.On(id, key, api.CompleteRequest{Agent: agent, Summary: j.result.Text, Used: used}))
		}
	}
	j.become(claim.EndFailed, code, cmp.Or(text, fmt.Sprintf("%s ended with %d", j.name(), code)))
	return func(ctx context.Context, key string) (api.Claim, error) {
		return client.Do(ctx, j.Daemon, api.OpFail, api.On(id, key, api.FailRequest{Agent: agent, Reason: j.result.Text, Used: used}))
	}
}

// spent returns what the command used, at its end, and which files it changed in a worktree. A file that cannot be read is reported, and changes
// nothing else.
func (j *job) spent() api.Used {
	used, err := j.files.used()
	if err != nil {
		j.Say("what %s wrote into DIBS_USAGE_FILE is not counted: %v", j.name(), err)
	}
	if j.tree != nil {
		used.Files = j.tree.Changed(context.Background())
	}
	return used
}
