// Package cli is the command line, one file per command. Commands print their answer on stdout and
// everything else on stderr, and use the exit codes of package api.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"

	"github.com/spf13/cobra"
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return api.ExitOK
	}
	// a.json may not be set if parsing failed before --json.
	a.json = a.json || slices.Contains(args, "--json")
	code := a.fail(ctx, cmd, err)
	if code == api.ExitUsage && !cmd.HasParent() && slices.Contains(args, "hook") {
		return api.ExitFailure // exit code 2 of a hook would mean a refusal
	}
	return code
}

// app holds what the commands share: the streams and the global flags.
type app struct {
	ctx            context.Context // of the command that runs
	stdin          io.Reader
	stdout, stderr io.Writer

	json  bool
	agent string
	given given // where the agent's name came from, if it was auto
	// request is the command's --request-id, empty if it has none.
	request string
	socket  string
	config  string

	// document is set by commands that print failures as JSON on stdout, unless a person reads it.
	document bool
	// changes is set by commands that change a claim. They print failures like document, and with
	// --json on stderr as well.
	changes bool
	// waiting is the last line about what dibs run waits for.
	waiting string
	// tried is set if the daemon asked is that of a trial.
	tried bool
}

// root makes the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dibs",
		Short: "Share one task queue in Notion without doing the same work twice",
		Long: "dibs lets named agents and people share one task queue kept in Notion without doing\n" +
			"the same work twice. The daemon does the claiming; every other command asks it.\n\n" +
			"An agent's name is in DIBS_AGENT; auto mints one for the session. A task is named by its key (T-3), its\n" +
			"id or its URL.\n\n" +
			"Exit codes: 0 done · 1 failure · 2 the command was not used right · 3 not claimed: held, not open,\n" +
			"nothing ready · 4 the claim is no longer yours: stop working on the task · 5 the daemon cannot be\n" +
			"reached · 6 Notion, or the journal's database, cannot be reached, or refuses",
		Version:            thisBuild().String(),
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // usage makes its own, in one line
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print one JSON document on stdout, and nothing else there")
	flags.StringVar(&a.agent, "agent", os.Getenv("DIBS_AGENT"), "the agent's `name` (or DIBS_AGENT); auto: one minted for this session")
	flags.StringVar(&a.socket, "socket", "", "the daemon's socket, a `path` (or DIBS_SOCKET)")
	flags.StringVar(&a.config, "config", "", "the configuration `file` (or DIBS_CONFIG)")
	flags.Lookup("agent").DefValue = "" // not part of the help
	root.SetFlagErrorFunc(flagError)
	root.Flags().Bool("version", false, "show which dibs this is")
	root.SetVersionTemplate("{{.Version}}\n")
	completeFlag(root, "agent", a.agents)

	a.addCommands(root)
	refuseGone(root)
	defaults(root)
	return root
}

// defaults sets what most commands have: no arguments, and no completions for them.
func defaults(above *cobra.Command) {
	for _, cmd := range above.Commands() {
		if cmd.Args == nil {
			cmd.Args = arguments()
		}
		if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		defaults(cmd)
	}
}

// addRequestID adds --request-id, the idempotency key.
func (a *app) addRequestID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.request, "request-id", "", "a `text` of your choice: repeat the command with the same text, and it is done once and answered the same")
}

// daemon returns a client of the daemon, or an error if --request-id is not a valid key. On a
// terminal the client retries for a while if the journal cannot be used; a script gets the error at
// once and decides itself.
func (a *app) daemon() (*client.Client, error) {
	if a.request != "" {
		if err := api.ValidateKey(a.request); err != nil {
			return nil, usagef("--request-id: %w", err)
		}
	}
	daemon, err := a.direct()
	if err == nil && isTerminal(a.stderr) && isTerminal(a.stdin) {
		daemon.Insist(insist, func(p *api.Problem) {
			fmt.Fprintf(a.stderr, "dibs: %s; trying again for a minute, Ctrl-C ends that\n", clean(p.Detail))
		})
	}
	return daemon, err
}

// asking runs a command that asks the daemon.
func (a *app) asking(run func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		daemon, err := a.daemon()
		if err != nil {
			return err
		}
		return run(cmd, args, daemon)
	}
}

// insist is how long a person waits for a journal that cannot be used.
const insist = time.Minute

// direct returns a client of the daemon that does not retry. From the configuration it needs only
// the socket's path and user.
func (a *app) direct() (*client.Client, error) {
	c := config.Config{Socket: a.socket, SocketUser: os.Getenv("DIBS_SOCKET_USER")}
	if c.Socket == "" {
		var err error
		if c, err = config.Load(config.Options{File: a.config}); err != nil {
			return nil, err
		}
	}
	return a.daemonAt(c), nil
}

// environment returns the environment of programs that a command starts. Where the configuration
// cannot be read, the journal may be shared.
func (a *app) environment() []string {
	c, err := config.Load(config.Options{File: a.config})
	return config.Environment(err != nil || c.Journal.Shared())
}

func (a *app) daemonAt(c config.Config) *client.Client {
	d := clientOf(c)
	d.OnSilence(silence, func() {
		fmt.Fprintf(a.stderr, "dibs: the daemon on %s answers nothing: it is suspended, or its machine has too much to do; still waiting, Ctrl-C ends that\n", c.Socket)
	})
	return d
}

// clientOf returns a client of the configured daemon. Which socket is the default depends on
// XDG_RUNTIME_DIR, which the daemon, agents, MCP servers and hooks may have or not: where no daemon
// is on it, the one that uses the state directory is on another. No other place is tried: another
// board's daemon could be there.
func clientOf(c config.Config) *client.Client {
	if !c.SocketByDefault || c.StateDir == "" {
		return client.Of(c.Socket, c.SocketUser)
	}
	return client.Either(c.Socket, func() string { return daemon.SocketOf(c.StateDir) }, c.SocketUser)
}

// silence is how long the daemon may take for an answer before the client checks whether it runs at
// all.
const silence = 10 * time.Second

// usageError is the error of an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}
