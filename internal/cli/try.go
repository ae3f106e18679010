package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/setup/demo"
	"dibs/internal/setup/try"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *app) tryCommand() *cobra.Command {
	var remove bool
	var remote string
	cmd := &cobra.Command{
		Use:   "try [COMMAND…]",
		Short: "Try dibs on a board of its own, without an account",
		Long: "Run a Notion-compatible server with some twenty tasks and a daemon that works on it, until it is\n" +
			"stopped. In another terminal, \"dibs try\" before a command has it ask that daemon. Nothing is set\n" +
			"in the shell, and neither your configuration nor your environment is looked at, DIBS_AGENT and DIBS_SESSION apart:\n" +
			"a trial cannot touch anything real. The board stays as it is for the next trial.",
		Example: "  dibs try &\n" +
			"  dibs try next --agent Sandman\n" +
			"  dibs try --remove",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeTried,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := try.Default()
			switch {
			case err != nil:
				return err
			case len(args) > 0:
				return a.tryOut(cmd.Context(), folder, args)
			case remove:
				return folder.Remove()
			}
			return a.runTrial(cmd.Context(), folder, remote)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the command belong to it
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the board, and all else that was tried")
	cmd.Flags().StringVar(&remote, "remote", "", "also listen for agents in containers and on other machines, at an `address` such as --remote=:7333, and print a token")
	cmd.Flags().Lookup("remote").NoOptDefVal = "127.0.0.1:0"
	return cmd
}

// trying is the output of `try --json` once agents can connect.
type trying struct {
	Socket string `json:"socket"`
	URL    string `json:"url"`
	Token  string `json:"token"`
	Folder string `json:"folder"`
	PID    int    `json:"pid"`
	// Remote is for agents on other machines; nil without --remote.
	Remote *tryingRemote `json:"remote,omitempty"`
}

type tryingRemote struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// runTrial runs a trial until ctx ends.
func (a *app) runTrial(ctx context.Context, folder try.Folder, remote string) (err error) {
	unlock, err := folder.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	t, err := try.Start(ctx, try.Options{
		Dir: string(folder), Limit: 180, StateFile: folder.Board(), Remote: remote, Version: thisBuild().Version, Log: log,
	})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- t.Run(serving) }()
	shown := trying{Socket: t.Config.Socket, URL: t.URL, Token: t.Notion.Token(), Folder: string(folder), PID: os.Getpid()}
	if err = folder.Point(t.Config); err == nil && t.Remote() != "" {
		var made api.NewToken
		made, err = client.Do(ctx, client.New(t.Config.Socket), api.OpNewToken, api.Keyed("", api.TokenRequest{Agent: "*", Note: "dibs try"}))
		shown.Remote = &tryingRemote{t.Remote(), made.Token}
	}
	if err == nil {
		err = a.print(shown, func(w io.Writer) { showTrial(w, t, folder, shown.Remote) })
	}
	if err != nil {
		stop()
	}
	return errors.Join(err, <-ended)
}

func showTrial(w io.Writer, t *try.Trial, folder try.Folder, remote *tryingRemote) {
	fmt.Fprintf(w, "A board of %s and a daemon, until Ctrl-C. In another terminal:\n\n", number(len(t.Notion.Pages(t.Notion.Databases().Tasks)), "task"))
	for _, command := range []string{"ready", "next --agent Sandman", `complete --agent Sandman --summary "Fixed, with a test."`, "log", "status"} {
		fmt.Fprintf(w, "  dibs try %s\n", command)
	}
	fmt.Fprintf(w, "\nThe socket is %s.\nThe board speaks Notion's API at %s (token %s).\n", t.Config.Socket, t.URL, t.Notion.Token())
	if remote != nil {
		fmt.Fprintf(w, "\nAgents elsewhere need no more than this:\n\n  export DIBS_URL=%s DIBS_TOKEN=%s\n  dibs next --agent Sandman\n\n", remote.URL, remote.Token)
	}
	fmt.Fprintf(w, "All of it is in %s, and stays there; to remove it: dibs try --remove\n", folder)
}

// untried are the commands that make no sense on a trial.
var untried = []string{"serve", "init", "demo", "emulator", "try", "simulate"}

// tryOut runs a command on the trial. It ignores the environment except DIBS_AGENT and
// DIBS_SESSION.
func (a *app) tryOut(ctx context.Context, folder try.Folder, args []string) error {
	if slices.Contains(untried, args[0]) {
		return usagef("dibs try %s: a trial has a board and a daemon already: leave out \"try\" for the real thing", args[0])
	}
	if _, err := os.Stat(folder.Config()); err != nil {
		return api.NewProblem(api.CodeUnreachable, "no trial is running: start one with: dibs try")
	}
	passed := a.environment()
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if (strings.HasPrefix(name, "DIBS_") && name != "DIBS_AGENT" && name != "DIBS_SESSION") || !slices.Contains(passed, setting) {
			os.Unsetenv(name)
		}
	}
	os.Setenv("DIBS_CONFIG", folder.Config())
	tried := &app{ctx: a.ctx, stdout: a.stdout, stderr: a.stderr, tried: true}
	root := tried.root()
	if a.json {
		args = append([]string{"--json"}, args...)
	}
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return nil
	}
	if gone, ok := errors.AsType[*client.UnreachableError](err); ok && !gone.Sent && !errors.Is(err, fs.ErrPermission) {
		err = api.NewProblem(api.CodeUnreachable, "no trial is running: start one with: dibs try")
	}
	tried.json = cmp.Or(tried.json, slices.Contains(args, "--json"))
	return ended{tried.fail(ctx, cmd, err)}
}

// completeTried completes the commands that a trial supports.
func (a *app) completeTried(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range cmd.Root().Commands() {
		if strings.HasPrefix(c.Name(), toComplete) && c.IsAvailableCommand() && !slices.Contains(untried, c.Name()) {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See two agents and a person share a board, without an account",
		Long: "Run a Notion-compatible server with some twenty tasks, a daemon, and two agents that claim and\n" +
			"finish tasks until nothing is ready, while a person edits the board. Nothing outside this\n" +
			"machine is touched, and no configuration is read. A link shows all of it in the browser, as long\n" +
			"as the demo runs, and on a terminal until a key is pressed. Exit code 1: a task was granted twice,\n" +
			"or a log entry is missing or doubled.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), demo.Options{
				JSON: a.json, Keep: keep, Version: thisBuild().Version, Out: a.stdout, Err: a.stderr,
				Terminal: a.screen(), Command: calledAs(),
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave daemon and server running, and say how to try claims by hand")
	return cmd
}

// screen returns the terminal for a screen that changes, and for keys; nil if there is none, in CI,
// or if JSON is wanted.
func (a *app) screen() *demo.Terminal {
	in, _ := a.stdin.(*os.File)
	out, _ := a.stdout.(*os.File)
	if !a.person() || !inFront(in) || os.Getenv("CI") != "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &demo.Terminal{In: in, Out: out, Colours: coloured(out)}
}

// inFront reports whether this process may read its terminal: a job in the background would be
// stopped.
func inFront(in *os.File) bool {
	if !isTerminal(in) {
		return false
	}
	group, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// calledAs returns how dibs was called, for a person to repeat it.
func calledAs() string {
	self, err := os.Executable()
	switch found, lookErr := exec.LookPath("dibs"); {
	case err != nil, lookErr == nil && found == self:
		return "dibs"
	case strings.Contains(self, "go-build"): // by go run, which removes it
		return "go run ./cmd/dibs"
	}
	return self
}
