package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/run/runner"
	"dibs/internal/run/worktree"

	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND…",
		Short: "Claim a task and run a command for it",
		Long: "Claim the next ready task, or the one that --task names, and run a command for it; --priority, --where\n" +
			"and --text say which of the ready tasks will do, as with dibs next. The command finds the task in\n" +
			"DIBS_TASK_ID, DIBS_TASK_KEY, DIBS_TASK_TITLE and DIBS_TASK_URL, what its page says and the comments on it in the\n" +
			"file DIBS_TASK_FILE, and the claim in DIBS_CLAIM_ID, DIBS_AGENT and DIBS_FENCE. While it runs the claim\n" +
			"is renewed. What the command used so far it may write into the file DIBS_USAGE_FILE, as tokens=N,usd=X\n" +
			"or {\"tokens\":N,\"usd\":X}.\n\n" +
			"The command's exit code decides. 0: the task is completed; the summary is what the command wrote into\n" +
			"the file DIBS_SUMMARY_FILE, else its last line on stdout. 75: it is given back, and --loop tries it again\n" +
			"later, --attempts times in all. 126 and 127: the command could not be started; the task is given back,\n" +
			"and dibs run ends, --loop or not. Any other: it failed, and what came last on stderr is the reason. With\n" +
			"--check, the check decides after 0: unless it ends with 0, too, the task failed, and its last line is\n" +
			"the reason. --loop ends with 1 after --failures failed tasks in a row.\n\n" +
			"With --worktree the command runs in DIBS_WORKTREE, a git worktree beside the repository, on DIBS_BRANCH,\n" +
			"made from the commit DIBS_BASE; a further attempt, DIBS_ATTEMPT, goes on with both. First come the\n" +
			"executable .dibs/setup of the base and --setup. After 0 what is not committed is committed, and after\n" +
			"the check --publish runs, unless the claim was lost. The URL that it prints last is on the card, and is\n" +
			"DIBS_PUBLISHED for further attempts. A setup that fails gives the task back, with exit code 75, and counts as\n" +
			"a failure. See dibs worktrees.\n\n" +
			"If the claim is lost, the command is stopped; if dibs run is stopped or killed, the command is too, and\n" +
			"the task is given back. A command that is stopped has --patience to end; a second signal kills it at\n" +
			"once. What it started ends with it, on Linux also in sessions of its own; only what a command that ended\n" +
			"with 0 left running goes on. It does not get the Notion token. With a daemon at a URL, the task is given\n" +
			"back a minute after the connection broke, and the command is stopped before, unless the connection is back.\n\n" +
			"A line on stderr says what happens, unless --quiet. With --json there is a document for each task on\n" +
			"stdout, and the command's stdout goes to stderr. --workers runs the loop that many times at once, each\n" +
			"under a name of its own: NAME-1, NAME-2 and so on, or with --agent auto a new one.\n\n" +
			"Exit code: the command's, 128 and the signal's number if it died of one; 3: nothing was claimed;\n" +
			"4: the claim was lost; 1: the command ended with 0, and the task is not done. With --loop, 0 when all\n" +
			"that was ready is done, and 75 if a task was given up; with --workers, the first that is not 0, and 3\n" +
			"only if no worker found a task.",
		Example: "  dibs run --agent Sandman -- make deploy\n" +
			"  dibs run --agent Sandman --loop --wait 1h --where Area=Web -- ./work.sh\n" +
			"  dibs run --agent auto --loop --workers 4 -- ./work.sh",
		ValidArgsFunction: filesToo,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("dibs run wants a command, behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runRun(cmd, o, args) },
	}
	o.add(a, cmd)
	return cmd
}

// runOptions are the flags of dibs run.
type runOptions struct {
	claim    claimFlags
	filter   filterFlags
	task     string
	check    string
	patience time.Duration
	progress bool
	quiet    bool

	worktree             bool
	base, setup, publish string

	loop     bool
	attempts int
	failures int
	workers  int
	worker   bool // set by workers for each of them
}

func (o *runOptions) add(a *app, cmd *cobra.Command) {
	o.claim.addWait(cmd)
	o.filter.add(a, cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.task, "task", "", "the task, an `id` or URL, instead of the next one")
	flags.BoolVar(&o.loop, "loop", false, "go on with the next task until none is ready; with --wait, for ever")
	flags.IntVar(&o.attempts, "attempts", 5, "how often a loop claims a task that the command gives back; 0 for no limit")
	flags.IntVar(&o.failures, "failures", 3, "after how many failed tasks in a row a loop ends; 0 for never")
	flags.IntVar(&o.workers, "workers", 1, "how many loops run at once")
	flags.StringVar(&o.check, "check", "", "a `command` for sh that decides whether the task is done, after exit code 0: its own 0 completes it")
	flags.BoolVar(&o.worktree, "worktree", false, "run the command in a git worktree and on a branch of its own")
	flags.StringVar(&o.base, "base", "", "the `ref` that the branch is made from; the default branch of the remote, else HEAD, by default")
	flags.StringVar(&o.setup, "setup", "", "a `command` for sh that prepares the worktree, after .dibs/setup: unless it ends with 0, the task is given back")
	flags.StringVar(&o.publish, "publish", "", "a `command` for sh that publishes the branch, after the check; its last line may be a URL")
	flags.BoolVar(&o.progress, "progress", false, "show the last line of the command's output with the claim, at most every 30s a new one")
	flags.BoolVar(&o.quiet, "quiet", false, "say nothing but what is wrong")
	flags.DurationVar(&o.patience, "patience", 10*time.Second, "how long the command has to end by itself once it is stopped, by a signal or because its claim is lost")
	flags.BoolVar(&o.worker, workerFlag, false, "")
	if err := flags.MarkHidden(workerFlag); err != nil {
		panic(err) // impossible: the flag exists
	}
}

// request validates the flags, and returns for which tasks to ask.
func (o *runOptions) request() (what api.ClaimRequest, err error) {
	if o.task != "" {
		id, err := taskID(o.task)
		if err != nil {
			return what, usagef("--task: %w", err)
		}
		what.Task = string(id)
	}
	switch {
	case o.loop && what.Task != "":
		return what, usagef("--loop goes on with whatever is ready: leave out --task")
	case o.attempts < 0:
		return what, usagef("--attempts %d: want a number from 1, or 0 for no limit", o.attempts)
	case o.failures < 0:
		return what, usagef("--failures %d: want a number from 1, or 0 for never", o.failures)
	case o.workers < 1 || o.workers > mostWorkers:
		return what, usagef("--workers %d: want a number from 1 to %d", o.workers, mostWorkers)
	case o.workers > 1 && !o.loop:
		return what, usagef("--workers is for a loop: give --loop, too")
	case !o.worktree && o.base+o.setup+o.publish != "":
		return what, usagef("--base, --setup and --publish are about a worktree: give --worktree, too")
	case o.patience < 0:
		return what, usagef("--patience %v: want a time from 0s", o.patience)
	}
	if what.Filter, err = o.filter.filter(); err != nil {
		return what, err
	}
	if what.Task != "" && !what.Filter.Empty() {
		return what, usagef("--priority, --where and --text choose among the tasks that are ready: leave them out, or --task")
	}
	return what, nil
}

// runRun runs a command for the tasks that it claims, or has workers do so.
func (a *app) runRun(cmd *cobra.Command, o runOptions, command []string) error {
	if o.worker {
		syscall.CloseOnExec(endsFile)
	}
	what, err := o.request()
	if err != nil {
		return err
	}
	trees, err := a.trees(cmd.Context(), o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	failures := &runner.Failures{Most: o.failures}
	if o.workers > 1 {
		if a.agent == "" {
			_, err := a.claimer()
			return err
		}
		return a.workers(self, o.workers, failures, o.patience, again(cmd, command, "workers", "agent", "failures"))
	}
	a.document = a.json
	if err := a.ownName(cmd.Context()); err != nil {
		return err
	}
	if what, err = a.claimRequest(cmd, what, o.claim); err != nil {
		return err
	}
	daemon, err := a.direct()
	if err != nil {
		return err
	}
	daemon.Await(client.Restart)
	ctx, stdin, stdout, counted := cmd.Context(), cmd.InOrStdin(), a.stdout, failures.Count
	if o.worker {
		ctx, counted = obey(ctx, stdin)
		stdin = nil
	}
	if a.json {
		stdout = a.stderr
	}
	env, err := a.reaching(a.environment())
	if err != nil {
		return err
	}
	code, err := runner.Run(ctx, runner.Options{
		Daemon: daemon, Claim: what, Loop: o.loop, Attempts: o.attempts, Count: counted,
		Trees: trees, Setup: o.setup, Publish: o.publish,
		Command: command, Check: o.check, Patience: o.patience, Progress: o.progress,
		Env: env, Stdin: stdin, Stdout: stdout, Stderr: a.stderr, Supervisor: []string{self, guardCommand},
		Brief: func(ctx context.Context, w io.Writer, c api.Claim) error { return brief(ctx, w, daemon, c) },
		Tell:  func(n runner.News) { a.news(n, o.quiet) },
		Say:   func(format string, args ...any) { a.say("dibs: "+format, args...) },
	})
	return a.ran(code, err, o.quiet)
}

// trees returns the repository for --worktree, nil without.
func (a *app) trees(ctx context.Context, o runOptions) (*worktree.Repository, error) {
	if !o.worktree {
		return nil, nil
	}
	r, err := worktree.Open(ctx, ".", o.base, func(format string, args ...any) { a.say("dibs: "+format, args...) })
	if err == nil {
		err = r.CheckBase(ctx)
	}
	if err != nil {
		return nil, usagef("--worktree: %w", err)
	}
	return r, nil
}

// reaching returns an environment in which the commands of dibs ask the daemon that the flags name.
func (a *app) reaching(env []string) ([]string, error) {
	set := func(name, value string) {
		env = append(slices.DeleteFunc(env, func(setting string) bool { return strings.HasPrefix(setting, name+"=") }), name+"="+value)
	}
	for _, name := range []string{"DIBS_SOCKET", "DIBS_CONFIG", "DIBS_STATE_DIR", fileVariable} { // a worktree is another folder
		if path := os.Getenv(name); path != "" && !filepath.IsAbs(path) {
			path, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			set(name, path)
		}
	}
	if a.remote.url != "" {
		set(urlVariable, a.remote.url)
	}
	if a.remote.tokenFile != "" {
		file, err := filepath.Abs(a.remote.tokenFile)
		if err != nil {
			return nil, err
		}
		set(tokenVariable, "")
		set(commandVariable, "")
		set(fileVariable, file)
	}
	return env, nil
}

// ran returns the error, or the exit code, of a run that has ended.
func (a *app) ran(code int, err error, quiet bool) error {
	switch {
	case errors.Is(err, runner.ErrLost):
		if quiet {
			a.say("dibs: %s", clean(err.Error()))
		}
		return ended{api.ExitLost}
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return a.reopening(err)
	case code != 0:
		return ended{code}
	}
	return nil
}

// guardCommand is a hidden command: the supervisor, which kills the command of dibs run if that is
// killed.
const guardCommand = "run-guard"

func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardCommand, Short: "Part of dibs run", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return runner.Supervise() },
	}
}

// news prints what dibs run does: a document for each task with --json, else a line on stderr for
// each step, unless quiet.
func (a *app) news(n runner.News, quiet bool) {
	switch {
	case a.json && n.Kind == runner.Ended:
		_ = writeJSON(a.stdout, n.Result) // the task's outcome does not depend on it
	case !a.json && (!quiet || n.Result.Unstarted()):
		line := newsLine(n, time.Now())
		if line == "" || n.Kind == runner.Waiting && line == a.waiting {
			return // nobody has anything, or it waits for the same as before
		}
		if a.waiting = ""; n.Kind == runner.Waiting {
			a.waiting = line
		}
		fmt.Fprintf(a.stderr, "dibs: %s\n", line)
	}
}

func newsLine(n runner.News, now time.Time) string {
	switch n.Kind {
	case runner.Claimed:
		return fmt.Sprintf("%s claimed %s%s", clean(n.Claim.Agent), quoted(n.Claim.Task), lasting(n.Claim.ExpiresAt, now))
	case runner.Waiting:
		if n.Denied.Code == api.Code(claim.CodePaused) {
			return clean(n.Denied.Detail) + lasting(n.Denied.ExpiresAt, now) + "; waiting"
		}
		return "nothing is ready" + waitsFor(n.Denied, now) + "; waiting"
	case runner.Idle:
		if rest := waitsFor(n.Denied, now); rest != "" {
			return "nothing is ready" + rest
		}
		return ""
	}
	r := n.Result
	took := " after " + (time.Duration(r.Seconds * float64(time.Second))).Round(time.Second).String()
	text := ""
	if r.Text != "" {
		text = ": " + beginning(strings.ReplaceAll(r.Text, "\n", "; "), maxText)
	}
	switch {
	case r.Outcome == claim.EndCompleted:
		return "completed " + quoted(r.Task) + took + text
	case r.Outcome == claim.EndReview: // claim.review
		return "put up for review " + quoted(r.Task) + took + text
	case r.Outcome == claim.EndFailed:
		return fmt.Sprintf("failed %s%s, with exit code %d%s", quoted(r.Task), took, r.ExitCode, text)
	case r.Outcome == claim.EndLost:
		return "lost " + quoted(r.Task) + took + text
	case r.GivenUp:
		return fmt.Sprintf("gave back %s%s: not tried again, that was %s", quoted(r.Task), text, count(int64(r.Attempts), "attempt"))
	case !r.Again.IsZero():
		return fmt.Sprintf("gave back %s%s; tried again at %s", quoted(r.Task), text, r.Again.Local().Format("15:04:05"))
	}
	return "gave back " + quoted(r.Task) + text
}

// waitsFor says what the tasks wait for that are not ready; empty if nothing does.
func waitsFor(p *api.Problem, now time.Time) string {
	s := p.Summary
	if s == nil {
		return ""
	}
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{s.Held, "held"}, {s.Blocked, "blocked"}, {s.Dependencies, "waiting for others"}, {s.Assigned, "assigned"},
		{s.Review, "in review"}, {s.Failed, "failed"}, {s.Filtered, "not asked for"}, {s.CoolingOff, "passed over"}, {s.Touched, "touching what others have"},
	} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if !s.NextLeaseEndsAt.IsZero() {
		parts = append(parts, "the next lease ends at "+clock(s.NextLeaseEndsAt.Time, now))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
