package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/agenthook"
	"dibs/internal/reserve"
	"dibs/internal/run/sessionid"
	"dibs/internal/run/worktree"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

const (
	// maxHookInput bounds an event in bytes: a tool's input may be a whole file.
	maxHookInput = 64 << 20
	// hookTime is how long a hook waits for the client, and for the daemon. The agent waits for the
	// hook.
	hookTime = 2 * time.Second
	// commitTime bounds git's hook for a commit of any size: git itself takes about as long for a
	// commit of that many files.
	commitTime = 20 * time.Second
)

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook EVENT",
		Short: "Answer a hook of Claude Code, Codex, Cursor or git",
		Long: "Answer a hook: the event as the client spells it, and its JSON on stdin, or pre-commit or pre-push for git.\n" +
			"When a session starts or was compacted, it says what the agent holds and what is in its inbox;\n" +
			"before a file is edited, that it is somebody else's or that the claim is lost; when the agent stops,\n" +
			"once, that it still holds a task; a push, that the claim for which dibs run made the worktree is lost. Exit code 2 refuses, with the reason on stderr; whatever else goes\n" +
			"wrong never stops an agent. dibs connect sets this up.",
		Example: "  dibs hook PreToolUse < event.json\n  dibs hook pre-commit",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return harmless("dibs hook wants an EVENT, such as SessionStart, PreToolUse, Stop or pre-commit")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == prePush {
				return a.runPrePush(cmd)
			}
			return a.runHook(cmd, args[0])
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return harmless(err.Error()) })
	return cmd
}

func (a *app) runHook(cmd *cobra.Command, event string) error {
	limit := hookTime
	if agenthook.KindOf(event) == agenthook.PreCommit {
		limit = commitTime
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	e, err := hookEvent(ctx, event, cmd.InOrStdin())
	if err != nil {
		return harmless(err.Error())
	}
	d := &hookDaemon{agent: a.agent, session: hookSession(e), dir: e.Dir}
	if err := a.checkHookAgent(); err != nil {
		d.agent = "" // holds nothing, so every reservation is another agent's
		fmt.Fprintf(a.stderr, "dibs: %s\n", clean(err.Error()))
	}
	var wrong error
	if d.client, wrong = a.daemonOfHook(); d.client == nil {
		return harmless(wrong.Error())
	}
	if a.agent == "" {
		_, _ = a.byToken(ctx) // what is wrong shows below
		d.agent = a.agent
	}
	if wrong != nil {
		for line := range strings.Lines(wrong.Error()) {
			fmt.Fprintf(a.stderr, "dibs: %s\n", clean(line))
		}
	}
	if code := agenthook.React(ctx, e, d, reminders()).Write(e, a.stdout, a.stderr); code != 0 {
		return ended{code}
	}
	return nil
}

// daemonOfHook is direct for a hook, which only needs the socket. Any other error in the
// configuration is returned beside the client.
func (a *app) daemonOfHook() (*client.Client, error) {
	if a.socket != "" || a.address() != "" {
		return a.direct()
	}
	c, wrong := config.Reach(config.Options{File: a.config})
	return a.daemonAt(c), wrong
}

// checkHookAgent returns an error for an invalid name.
func (a *app) checkHookAgent() error {
	if a.agent == "" || a.agent == task.AutoAgent {
		return nil
	}
	return task.ValidateAgent(a.agent)
}

// harmless is the error of a hook that was called wrongly. Its exit code must not be 2, as for
// other usage errors: to the client that means a refusal.
func harmless(detail string) error { return errors.New(detail) }

// hookEvent reads an event from stdin, or asks git what is being committed.
func hookEvent(ctx context.Context, name string, stdin io.Reader) (agenthook.Event, error) {
	if agenthook.KindOf(name) == agenthook.PreCommit {
		return commitEvent(ctx, name)
	}
	e := agenthook.Parse(name, hookInput(ctx, stdin))
	if e.Dir == "" {
		e.Dir, _ = os.Getwd()
	}
	return e, nil
}

// hookInput reads one JSON document. It returns nil if the input is not JSON or does not end in
// time: a client may leave stdin open.
func hookInput(ctx context.Context, stdin io.Reader) json.RawMessage {
	read := make(chan json.RawMessage, 1)
	go func() { // may block until the process ends
		var input json.RawMessage
		if json.NewDecoder(io.LimitReader(stdin, maxHookInput)).Decode(&input) != nil {
			input = nil
		}
		read <- input
	}()
	select {
	case input := <-read:
		return input
	case <-ctx.Done():
		return nil
	}
}

// commitEvent returns the event of a commit in the repository of the current folder.
func commitEvent(ctx context.Context, name string) (agenthook.Event, error) {
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return agenthook.Event{}, err
	}
	e := agenthook.Event{Kind: agenthook.PreCommit, Name: name, Dir: filepath.FromSlash(strings.TrimRight(top, "\r\n"))}
	staged, err := changed(ctx)
	if err != nil {
		return e, err
	}
	heads, err := merged(ctx)
	if err != nil {
		return e, err
	}
	for _, head := range heads {
		theirs, err := changed(ctx, head)
		if err != nil {
			return e, err
		}
		// A path that equals the other side's is not this commit's change.
		other := make(map[string]bool, len(theirs))
		for _, path := range theirs {
			other[path] = true
		}
		staged = slices.DeleteFunc(staged, func(path string) bool { return !other[path] })
	}
	for _, path := range staged {
		e.Paths = append(e.Paths, filepath.FromSlash(path))
	}
	return e, nil
}

// merged returns the commits that are being merged.
func merged(ctx context.Context) ([]string, error) {
	path, err := git(ctx, "rev-parse", "--git-path", "MERGE_HEAD")
	if err != nil {
		return nil, err
	}
	heads, err := os.ReadFile(strings.TrimRight(path, "\r\n"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(heads)), err
}

// changed returns the staged paths that differ from a commit, by default the last one.
func changed(ctx context.Context, since ...string) ([]string, error) {
	staged, err := git(ctx, append([]string{"diff", "--cached", "--name-only", "--no-renames", "-z"}, since...)...)
	if staged = strings.TrimSuffix(staged, "\x00"); staged == "" {
		return nil, err
	}
	return strings.Split(staged, "\x00"), err
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(string(bytes.TrimSpace(failed.Stderr)), failed.Error()))
	}
	return string(out), err
}

// hookSession returns the session to which the client's other commands belong.
func hookSession(e agenthook.Event) string {
	// Codex gives its commands the session in CODEX_THREAD_ID, but its hooks only in the event
	// (https://developers.openai.com/codex/hooks). Claude Code sets the same variable for both.
	const codex, claude = "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"
	found, ok := sessionid.Find(func(name string) string {
		value := os.Getenv(name)
		if name == codex && value == "" && e.Session != "" && !e.Cursor() && e.Session != os.Getenv(claude) {
			return e.Session
		}
		return value
	})
	if !ok {
		return ""
	}
	return found.ID
}

// reminders is the folder that records of which claims an agent was reminded.
func reminders() agenthook.Reminders {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return agenthook.Reminders(filepath.Join(dir, "dibs", "reminded"))
}

// hookDaemon is the daemon as hooks see it.
type hookDaemon struct {
	client         *client.Client
	agent, session string
	name           string // the agent's, from the daemon
	dir            string
}

// Standing implements agenthook.Daemon.
func (d *hookDaemon) Standing(ctx context.Context) (agenthook.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	var at api.Agent
	var err error
	switch {
	case d.agent != "" && d.agent != task.AutoAgent:
		at, err = client.Do(ctx, d.client, api.OpGetAgent, api.GetAgentInput{Name: d.agent})
	case d.session == "":
		return agenthook.Standing{}, nil
	default:
		at, err = client.Do(ctx, d.client, api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: d.session})
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeNotFound) {
			return agenthook.Standing{}, nil // the session has no name yet
		}
	}
	if err != nil {
		return agenthook.Standing{}, away(err)
	}
	d.name = at.Agent
	s := agenthook.Standing{Agent: clean(at.Agent), Inbox: at.Inbox}
	for _, c := range at.Claims {
		if c.State == claim.Held {
			s.Held = append(s.Held, hookClaim(c))
		}
	}
	for _, c := range at.Lost {
		s.Lost = append(s.Lost, hookClaim(c))
	}
	return s, nil
}

func hookClaim(c api.Claim) agenthook.Claim {
	return agenthook.Claim{ID: string(c.ID), Key: clean(c.Task.Key), Title: clean(c.Task.Title), Until: c.ExpiresAt.Time, Why: clean(c.Detail)}
}

// Check implements agenthook.Daemon. It asks once for all reservations and compares the paths here.
func (d *hookDaemon) Check(ctx context.Context, agent string, paths []string) (conflicts []agenthook.Conflict, err error) {
	asking, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	set, unread := d.client.Reserved(asking)
	err = client.Taken(ctx, set, agent, d.dir, paths, func(t *reserve.Taken) {
		conflicts = append(conflicts, agenthook.Conflict{
			Path: clean(t.Asked), Pattern: clean(t.Pattern), Holder: clean(t.By.Agent), Until: t.Until,
		})
	})
	return conflicts, errors.Join(away(unread), err)
}

// away maps an error of a request for hooks: to ErrAway only if nothing listens.
func away(err error) error {
	if e, ok := errors.AsType[*client.UnreachableError](err); ok && !e.Sent && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return agenthook.ErrAway
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the daemon did not answer within %v", hookTime)
	}
	return err
}

// LossNotified implements agenthook.Daemon.
func (d *hookDaemon) LossNotified(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	_, err := client.Do(ctx, d.client, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: d.name, After: api.EventsFuture})
	return away(err)
}

// prePush is git's hook before a push.
const prePush = "pre-push"

// runPrePush refuses a push from a worktree of dibs run whose claim was lost, or whose task another agent
// has by now. It leaves stdin to the rest of the hook, and every other checkout alone.
func (a *app) runPrePush(cmd *cobra.Command) error {
	m, err := worktree.Of(cmd.Context(), ".")
	if err != nil || m.Task == "" {
		return err // harmless
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), hookTime)
	defer cancel()
	unchecked := func(err error) error { return fmt.Errorf("the push is not checked: %w", away(err)) }
	daemon, err := a.daemonOfHook()
	if daemon == nil {
		return unchecked(err)
	}
	c, err := client.Do(ctx, daemon, api.OpGetClaim, api.GetClaimInput{ID: m.Claim, After: api.EventsFuture})
	if err != nil {
		return unchecked(err)
	}
	if c.State == claim.Held || c.Outcome == claim.EndCompleted || c.Outcome == claim.EndReview {
		return nil
	}
	held, err := client.Do(ctx, daemon, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return unchecked(err)
	}
	now := "nobody has the task now"
	i := slices.IndexFunc(held.Claims, func(o api.Claim) bool { return o.Task.ID == task.ID(m.Task) && o.ID != c.ID })
	if i >= 0 {
		now = clean(held.Claims[i].Agent) + " has the task now" + lasting(held.Claims[i].ExpiresAt, time.Now())
	} else if !slices.Contains([]claim.Ending{claim.EndLost, claim.EndOverridden, claim.EndSwept}, c.Outcome) {
		return nil // its own agent gave it up
	}
	fmt.Fprintf(a.stderr, "dibs: %s's claim on %s is over (%s), and %s: nothing is pushed, and the work stays on the branch %s\n",
		clean(c.Agent), quoted(c.Task), clean(cmp.Or(c.Detail, string(c.Outcome))), now, clean(m.Branch))
	return ended{2}
}
