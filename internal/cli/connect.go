package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"dibs/config"
	"dibs/internal/daemon"
	"dibs/internal/door/mcp"
	"dibs/internal/kit/safefile"
	"dibs/internal/run/sessionid"
	"dibs/internal/setup/connect"
	"dibs/internal/task"
	"dibs/packaging"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// connected is the output of `connect --json`: the changes made, or planned with --dry-run.
type connected struct {
	Client  string          `json:"client"`
	DryRun  bool            `json:"dry_run"`
	Changes []connectedFile `json:"changes"`
	// Sandbox says what the client's sandbox still keeps from the daemon.
	Sandbox string `json:"sandbox,omitempty"`
}

type connectedFile struct {
	Path string `json:"path"`
	// What is created, changed, removed or kept.
	What string `json:"what"`
	// Why says why a file is kept, and what to do about it.
	Why  string `json:"why,omitempty"`
	Diff string `json:"diff"`
}

// clients is the output of `connect --json` without a client.
type clients struct {
	Clients []clientHere `json:"clients"`
}

type clientHere struct {
	Client    string `json:"client"`
	Here      bool   `json:"here"`
	Connected bool   `json:"connected"`
	// Current says that all of it is as this dibs would write it.
	Current bool   `json:"current"`
	Error   string `json:"error,omitempty"`
}

func (a *app) connectCommand() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:   "connect [" + strings.Join(connect.Clients, "|") + "]",
		Short: "Set a client up to work with dibs",
		Long: "Set a client up to work with dibs: its MCP server, its hooks and the skill go into the files in\n" +
			"which it keeps its own settings, for all projects or, with --project, for the one in the current\n" +
			"folder, and nowhere outside of it. What else is there stays as it is. For git it is the repository's pre-commit hook, which\n" +
			"refuses a commit with files that somebody else has reserved, and its pre-push hook, which refuses a push from a\n" +
			"worktree of dibs run whose claim was lost.\n\n" +
			"--socket, --url, --token-file, --config and --agent, and the variables for these, go along: the client asks that\n" +
			"daemon. A token stays in its file.\n" +
			"Without a client, it lists those that are here.",
		Example: "  dibs connect claude --dry-run\n" +
			"  dibs connect codex\n" +
			"  dibs connect git\n" +
			"  dibs connect claude --undo",
		Args:      arguments("[CLIENT]"),
		ValidArgs: connect.Clients,
		RunE:      func(cmd *cobra.Command, args []string) error { return a.runConnect(cmd, o, args) },
	}
	o.add(cmd)
	return cmd
}

type connectOptions struct{ dryRun, undo, project bool }

func (o *connectOptions) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be changed, and change nothing")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "take out what was put in")
	cmd.Flags().BoolVar(&o.project, "project", false, "for the project in the current folder only")
}

func (a *app) runConnect(cmd *cobra.Command, o connectOptions, args []string) error {
	if len(args) == 0 {
		return a.listClients(cmd, o.project)
	}
	if !slices.Contains(connect.Clients, args[0]) {
		return usagef("there is no client %q: want one of %s", args[0], strings.Join(connect.Clients, ", "))
	}
	place, err := a.placeOf(cmd, o.project || args[0] == "git", !o.undo)
	if err != nil {
		return err
	}
	changes, err := connect.Plan(args[0], place, o.undo)
	if err != nil {
		return err
	}
	if !o.dryRun {
		if err := connect.Apply(changes); err != nil {
			return err
		}
	}
	done := connected{Client: args[0], DryRun: o.dryRun, Changes: []connectedFile{}}
	if !o.undo {
		done.Sandbox = place.Sandbox(args[0])
	}
	for _, c := range changes {
		done.Changes = append(done.Changes, connectedFile{Path: c.Path, What: whatBecomes(c), Why: c.Kept, Diff: string(diff.Diff(c.Path, c.Before, c.Path, c.After))})
	}
	if a.json {
		return writeJSON(a.stdout, done)
	}
	var out bytes.Buffer // not aligned: the files keep their tabs
	showConnected(&out, done, o.undo)
	_, err = a.stdout.Write(out.Bytes())
	return err
}

// placeOf returns where the files of clients are. If it is strict, what goes into them has to work.
func (a *app) placeOf(cmd *cobra.Command, project, strict bool) (connect.Place, error) {
	p := connect.Place{Getenv: os.Getenv, Skill: packaging.Skill}
	var err error
	if p.Home, err = os.UserHomeDir(); err != nil && !project {
		return p, fmt.Errorf("your home directory is unknown (%w): set HOME, or use --project", err)
	}
	if project {
		if p.Project, err = os.Getwd(); err != nil {
			return p, err
		}
	}
	if p.Dibs, err = os.Executable(); err != nil {
		return p, err
	}
	if found, err := exec.LookPath("dibs"); err == nil && sameFile(found, p.Dibs) {
		p.Dibs = found // which stays where it is over an upgrade, where links lead to a version
	}
	if p.Dibs, err = filepath.Abs(p.Dibs); err != nil {
		return p, err
	}
	socket, file := cmp.Or(a.socket, os.Getenv("DIBS_SOCKET")), ""
	if at := a.address(); at != "" {
		if file = cmp.Or(a.remote.tokenFile, os.Getenv(fileVariable)); strict {
			if err := a.checkTokenFile(cmd.Context(), file); err != nil {
				return p, err
			}
		}
		socket, p.Remote = "", true
		p.Flags = append(p.Flags, [2]string{"--url", at}, [2]string{"--socket", ""})
	} else if socket != "" {
		p.Flags = append(p.Flags, [2]string{"--url", ""}, [2]string{"--token-file", ""})
	} else if os.Getenv("DIBS_STATE_DIR") != "" { // there is no flag for it
		c, _ := config.Reach(config.Options{File: a.config})
		socket = cmp.Or(daemon.SocketOf(c.StateDir), c.Socket)
	}
	for _, named := range []struct{ flag, path string }{{"--config", cmp.Or(a.config, os.Getenv("DIBS_CONFIG"))}, {"--socket", socket}, {"--token-file", file}} {
		if named.path == "" {
			continue
		}
		path, err := filepath.Abs(named.path)
		if err != nil {
			return p, err
		}
		p.Flags = append(p.Flags, [2]string{named.flag, path})
	}
	if cmd.Flags().Changed("agent") {
		if err := task.ValidateAgent(a.agent); err != nil && a.agent != task.AutoAgent {
			return p, &usageError{err}
		}
		p.Flags = append(p.Flags, [2]string{"--agent", a.agent})
	}
	if runtime.GOOS == "darwin" && !p.Remote { // elsewhere no sandbox can allow a single socket
		c, _ := config.Reach(config.Options{File: a.config, Socket: a.socket})
		if p.Socket, err = safefile.Follow(c.Socket); err != nil {
			return p, err
		}
	}
	return p, nil
}

// checkTokenFile returns an error unless a client, which may have none of the variables, can use the
// token in a file: its path is written into settings, and so must not be the token by mistake.
func (a *app) checkTokenFile(ctx context.Context, file string) error {
	if file == "" {
		return usagef("the client needs the access token for %s in a file: give --token-file", a.address())
	}
	_, err := a.daemonAtURL()
	if err == nil {
		_, err = a.remote.token(ctx, "")
	}
	return err
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errors.Join(errX, errY) == nil && os.SameFile(x, y)
}

// listClients says which clients are here, and which of them are connected.
func (a *app) listClients(cmd *cobra.Command, project bool) error {
	all := clients{Clients: []clientHere{}}
	for _, client := range connect.Clients {
		place, err := a.placeOf(cmd, project || client == "git", false)
		if err != nil {
			return err
		}
		s, err := place.Standing(client)
		here := clientHere{Client: client, Here: s.Here, Connected: s.Connected, Current: s.Current}
		if client == "git" {
			here.Here = err == nil // there is a repository here
		} else if err != nil {
			here.Error = err.Error()
		}
		all.Clients = append(all.Clients, here)
	}
	return a.print(all, func(w io.Writer) {
		for _, c := range all.Clients {
			row(w, c.Client, c.standing(a.program()))
		}
	})
}

// standing says how a client stands, and what to do.
func (c clientHere) standing(program string) string {
	switch {
	case c.Error != "":
		return clean(c.Error)
	case c.Connected && c.Current:
		return "connected"
	case c.Connected:
		return "connected, but not as this dibs would: " + program + " connect " + c.Client
	case c.Here:
		return "not connected: " + program + " connect " + c.Client
	case c.Client == "git":
		return "no repository here"
	}
	return "not here"
}

func whatBecomes(c connect.Change) string {
	switch {
	case c.Kept != "":
		return "kept"
	case c.After == nil:
		return "removed"
	case c.Before == nil:
		return "created"
	}
	return "changed"
}

// laidOut keeps the layout of a text, and replaces what could control a terminal.
func laidOut(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
		return r
	}
	return unicode.ReplacementChar
}

func showConnected(w io.Writer, done connected, undo bool) {
	switch {
	case len(done.Changes) == 0 && undo:
		row(w, "nothing of ours is there")
	case len(done.Changes) == 0:
		row(w, "all of it is there already")
	}
	for _, c := range done.Changes {
		if c.Why != "" {
			row(w, clean(c.Path)+": kept: "+c.Why)
			continue
		}
		would := ""
		if done.DryRun {
			would = "would be "
		}
		row(w, clean(c.Path)+": "+would+c.What)
		if done.DryRun {
			io.WriteString(w, strings.Map(laidOut, c.Diff))
		}
	}
	switch {
	case done.DryRun || undo || len(done.Changes) == 0:
	case done.Client == "codex":
		row(w, "new sessions have dibs, once you trust its hooks with /hooks")
	case done.Client != "git":
		row(w, "new sessions have dibs")
	}
	if done.Sandbox != "" {
		row(w, done.Sandbox+" (docs/clients.md, In a sandbox)")
	}
}

func (a *app) mcpCommand() *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent that speaks the Model Context Protocol",
		Long: "Serve an agent that speaks the Model Context Protocol (MCP), on stdin and stdout: to be started by\n" +
			"its client. What the agent claims is renewed while dibs mcp runs, and given back a minute after it\n" +
			"has ended, unless one of the same name has started by then.\n\n" +
			"The agent's name is --agent or DIBS_AGENT, else one that belongs to the client's session.",
		Example: "  claude mcp add dibs -- dibs mcp\n  codex mcp add dibs -- dibs mcp",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runMCP(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type mcpOptions struct{ grace time.Duration }

func (o *mcpOptions) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.grace, "grace", time.Minute, "how long what was claimed is kept once this has ended")
}

func (a *app) runMCP(cmd *cobra.Command, o mcpOptions) error {
	if a.agent == task.AutoAgent {
		a.agent = "" // each session of the client gets its own name
	} else if err := a.checkHookAgent(); err != nil {
		return &usageError{err}
	}
	if o.grace < time.Second || o.grace > time.Hour {
		return usagef("--grace %v: want a time from 1s to 1h", o.grace)
	}
	level := slog.LevelWarn
	if os.Getenv("DIBS_LOG_LEVEL") == "debug" {
		level = slog.LevelDebug
	}
	return mcp.Serve(cmd.Context(), mcp.Options{
		Daemon: a.direct, Agent: a.agent, Session: clientSession,
		Repository: repository(), Grace: o.grace, Version: thisBuild().Version, Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
	}, cmd.InOrStdin(), a.stdout)
}

// clientSession returns the id of the client's session that started this process. A client may send
// its thread with each request: Codex does, and its commands have the same thread in
// CODEX_THREAD_ID, so they share one name with the agent.
func clientSession(thread string) string {
	here, _ := sessionid.OfClient(func(name string) string {
		if name == "CODEX_THREAD_ID" && thread != "" {
			return thread
		}
		return os.Getenv(name)
	})
	return here.ID
}

func (a *app) skillCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "skill",
		Short: "Print the skill: how an agent works with dibs",
		Long: "Print the SKILL.md that tells an agent how to work with dibs: the loop, the exit codes, and what\n" +
			"never to do. dibs connect puts it where a client looks for it.",
		Example: "  dibs skill > .claude/skills/dibs/SKILL.md",
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return writeJSON(a.stdout, map[string]string{"skill": string(packaging.Skill)})
			}
			_, err := a.stdout.Write(packaging.Skill)
			return err
		},
	}
}
