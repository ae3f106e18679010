package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/hook"
	"dibs/internal/session"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

const (
	// maxHookInput is how many bytes of an event are read: a tool's input may be a file.
	maxHookInput = 64 << 20
	// hookTime is how long a hook waits for anything. The agent waits as long.
	hookTime = 2 * time.Second
	// checkedAtOnce is how many paths are asked for in one request.
	checkedAtOnce = 200
)

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook EVENT",
		Short: "Answer a hook of Claude Code, Codex, Cursor or git",
		Long: "Answer a hook: the event as the client spells it, and its JSON on stdin, or pre-commit for git.\n" +
			"When a session starts or was compacted, it says what the agent holds and what is in its inbox;\n" +
			"before a file is edited, that it is somebody else's or that the claim is lost; when the agent stops,\n" +
			"once, that it still holds a task. Exit code 2 refuses, with the reason on stderr; whatever else goes\n" +
			"wrong never stops an agent. dibs connect sets this up.",
		Example:           "  dibs hook PreToolUse < event.json\n  dibs hook pre-commit",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return harmless("dibs hook wants an EVENT, such as SessionStart, PreToolUse, Stop or pre-commit")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), hookTime)
			defer cancel()
			e, err := hookEvent(ctx, args[0], cmd.InOrStdin())
			if err != nil {
				return harmless(err.Error())
			}
			d := &hookDaemon{agent: a.agent, session: hookSession(e), dir: e.Dir}
			if d.client, err = a.daemonOfUser(); err != nil {
				return nil // and whoever set it up sees it with any other command
			}
			if code := hook.React(ctx, e, d, reminders()).Write(e, a.stdout, a.stderr); code != 0 {
				return ended{code}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return harmless(err.Error()) })
	return cmd
}

// harmless is the error of a hook that was used wrongly. Its exit code must not be that of
// a refusal, as that of any other wrong usage is.
func harmless(detail string) error { return errors.New(detail) }

// hookEvent reads an event from stdin, or asks git what is to be committed.
func hookEvent(ctx context.Context, name string, stdin io.Reader) (hook.Event, error) {
	if hook.KindOf(name) == hook.PreCommit {
		return commitEvent(ctx, name)
	}
	e := hook.Parse(name, hookInput(ctx, stdin))
	if e.Dir == "" {
		e.Dir, _ = os.Getwd()
	}
	return e, nil
}

// hookInput reads one document of JSON; nothing if it is none, or does not end in time. A
// client may leave stdin open behind it.
func hookInput(ctx context.Context, stdin io.Reader) json.RawMessage {
	read := make(chan json.RawMessage, 1)
	go func() { // which is left to the end of the process
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

// commitEvent is the event of a commit in the repository of the current folder.
func commitEvent(ctx context.Context, name string) (hook.Event, error) {
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return hook.Event{}, err
	}
	e := hook.Event{Kind: hook.PreCommit, Name: name, Dir: filepath.FromSlash(strings.TrimRight(top, "\r\n"))}
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
		// What is as it was committed on the other side is not this commit's doing.
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

// merged lists the commits that are being merged.
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

// changed lists the paths that are staged other than they are in a commit, by default the
// last one.
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
		return "", errors.New("git " + args[0] + ": " + string(bytes.TrimSpace(failed.Stderr)))
	}
	return string(out), err
}

// hookSession is the session that the commands of the same client belong to.
func hookSession(e hook.Event) string {
	// What Codex tells its commands it does not tell its hooks, other than as the
	// session of the event (https://developers.openai.com/codex/hooks). Claude Code
	// tells both alike.
	const codex, claude = "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"
	found, ok := session.Find(func(name string) string {
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

// reminders is where it is remembered of which claims an agent was reminded.
func reminders() hook.Reminders {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return hook.Reminders(filepath.Join(dir, "dibs", "reminded"))
}

// hookDaemon is the daemon as hooks see it.
type hookDaemon struct {
	client         *client.Client
	agent, session string
	name           string // of the agent, as the daemon said
	dir            string
}

// Standing implements hook.Daemon.
func (d *hookDaemon) Standing(ctx context.Context) (hook.Standing, error) {
	var at api.Agent
	var err error
	switch {
	case d.agent != "" && d.agent != task.AutoAgent:
		at, err = d.client.Agent(ctx, d.agent)
	case d.session == "":
		return hook.Standing{}, nil
	default:
		at, err = d.client.SessionAgent(ctx, d.session)
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeNotFound) {
			return hook.Standing{}, nil // it has not asked for anything yet
		}
	}
	if err != nil {
		return hook.Standing{}, err
	}
	d.name = at.Agent
	s := hook.Standing{Agent: clean(at.Agent), Inbox: at.Inbox}
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

func hookClaim(c api.Claim) hook.Claim {
	return hook.Claim{ID: string(c.ID), Key: clean(c.Task.Key), Title: clean(c.Task.Title), Until: c.ExpiresAt.Time, Why: clean(c.Detail)}
}

// Check implements hook.Daemon.
func (d *hookDaemon) Check(ctx context.Context, agent string, paths []string) ([]hook.Conflict, error) {
	return d.check(ctx, agent, paths, checkedAtOnce)
}

// check asks for so many paths at once.
func (d *hookDaemon) check(ctx context.Context, agent string, paths []string, atOnce int) ([]hook.Conflict, error) {
	var conflicts []hook.Conflict
	for some := range slices.Chunk(paths, atOnce) {
		_, err := d.client.MayTouch(ctx, agent, d.dir, some...)
		p, ok := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
		case ok && p.Code == api.CodeInvalidRequest && len(some) == 1:
			// One that cannot be asked about, such as a link to itself, hides no others.
		case ok && p.Code == api.CodeInvalidRequest:
			more, err := d.check(ctx, agent, some, 1)
			if err != nil {
				return nil, err
			}
			conflicts = append(conflicts, more...)
		case ok && p.Code == api.Code(claim.CodeReserved):
			conflicts = append(conflicts, hook.Conflict{
				Path: clean(p.Path), Pattern: clean(p.Pattern), Holder: clean(p.Holder), Until: p.ExpiresAt.Time,
			})
		default:
			return nil, err
		}
	}
	return conflicts, nil
}

// Told implements hook.Daemon.
func (d *hookDaemon) Told(ctx context.Context, id string) error {
	_, err := d.client.Lookup(ctx, id, d.name)
	return err
}
