package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/run/sessionid"
	"dibs/internal/setup/connect"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
)

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
	remote  remote

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

// given says where the name for auto came from.
type given struct {
	minted bool
	// from is what identifies this session; empty if nothing does.
	from string
}

// usageError is the error of an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// addRequestID adds --request-id, the idempotency key.
func (a *app) addRequestID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.request, "request-id", "", "a `text` of your choice: repeat the command with the same text, and it is done once and answered the same")
}

// daemon returns a client of the daemon, or an error if --request-id is not a valid key. For an agent,
// it waits for a daemon that restarts. On a terminal it retries for a while if the journal cannot be
// used; a script gets the error at once and decides itself.
func (a *app) daemon() (*client.Client, error) {
	if a.request != "" {
		if err := api.ValidateKey(a.request); err != nil {
			return nil, usagef("--request-id: %w", err)
		}
	}
	daemon, err := a.direct()
	if err == nil && a.agent != "" {
		daemon.Await(client.Restart)
	}
	if err == nil && isTerminal(a.stderr) && isTerminal(a.stdin) {
		daemon.Insist(insist, func(p *api.Problem) {
			fmt.Fprintf(a.stderr, "dibs: %s; trying again for a minute, Ctrl-C ends that\n", clean(p.Detail))
		})
	}
	return daemon, err
}

// asking returns what runs a command that asks the daemon.
func (a *app) asking(run func(*cobra.Command, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		daemon, err := a.daemon()
		if err != nil {
			return err
		}
		return run(cmd, daemon, args)
	}
}

// with returns what runs a command, given the values of its flags.
func with[F any](flags *F, run func(*cobra.Command, *client.Client, F, []string) error) func(*cobra.Command, *client.Client, []string) error {
	return func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		return run(cmd, daemon, *flags, args)
	}
}

// insist is how long a person waits for a journal that cannot be used.
const insist = time.Minute

// direct returns a client of the daemon that does not retry. From the configuration it needs only
// the socket's path and user, and for a daemon on another machine nothing.
func (a *app) direct() (*client.Client, error) {
	if at := a.address(); at != "" {
		d, err := a.daemonAtURL()
		if err == nil {
			a.onSilence(d, at)
		}
		return d, err
	}
	c := config.Config{Socket: a.socket, SocketUser: os.Getenv("DIBS_SOCKET_USER")}
	if c.Socket == "" {
		var err error
		if c, err = config.Load(config.Options{File: a.config}); err != nil {
			return nil, err
		}
	}
	return a.daemonAt(c), nil
}

// The variables that say where a daemon on another machine is, and what it is shown. Flags win over
// variables; a URL wins over a socket, since a sandbox may inherit the variables of both.
const (
	urlVariable         = "DIBS_URL"
	tokenVariable       = "DIBS_TOKEN"
	fileVariable        = "DIBS_TOKEN_FILE"
	commandVariable     = "DIBS_TOKEN_COMMAND"
	fingerprintVariable = "DIBS_FINGERPRINT"
)

// remote says which daemon on another machine is asked.
type remote struct {
	url, tokenFile string // flags

	once  sync.Once
	token func(ctx context.Context, refused string) (string, error)
	err   error
}

// address returns the URL of the daemon that is asked; empty for one that is asked on a socket.
func (a *app) address() string {
	if a.remote.url == "" && a.socket != "" {
		return ""
	}
	return cmp.Or(a.remote.url, os.Getenv(urlVariable))
}

// daemonAtURL returns a client of the daemon at the URL.
func (a *app) daemonAtURL() (*client.Client, error) {
	r, from := client.Remote{URL: a.address()}, "--url"
	if a.remote.url == "" {
		from = urlVariable
	}
	if pin := os.Getenv(fingerprintVariable); pin != "" {
		var err error
		if r.Fingerprint, err = api.ParseFingerprint(pin); err != nil {
			return nil, usagef("%s: %w", fingerprintVariable, err)
		}
	}
	a.remote.once.Do(func() { a.remote.token, a.remote.err = a.tokenSource() }) // what a command printed is kept
	if r.Token = a.remote.token; a.remote.err != nil {
		return nil, a.remote.err
	}
	d, err := client.At(r)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	return d, nil
}

// tokenSource returns where the access token comes from.
func (a *app) tokenSource() (func(ctx context.Context, refused string) (string, error), error) {
	if a.remote.tokenFile != "" {
		return a.tokenIn("--token-file", a.remote.tokenFile), nil
	}
	var given []string
	for _, name := range []string{tokenVariable, fileVariable, commandVariable} {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		return nil, usagef("there is no access token for %s: set %s, %s or %s, or give --token-file; dibs token new makes one on the daemon's machine", a.address(), tokenVariable, fileVariable, commandVariable)
	case len(given) > 1:
		return nil, usagef("%s are set: keep one of them", strings.Join(given, " and "))
	}
	value := strings.TrimSpace(os.Getenv(given[0]))
	switch given[0] {
	case commandVariable:
		return client.TokenOf(value), nil
	case fileVariable:
		return a.tokenIn(fileVariable, value), nil
	}
	if strings.ContainsAny(value, " \t\r\n") {
		return nil, usagef("%s holds more than one word: it must hold nothing but the token", tokenVariable)
	}
	return func(context.Context, string) (string, error) { return value, nil }, nil
}

// tokenIn returns the token in a file, which is read each time: it may be replaced. That others may
// read it is said once.
func (a *app) tokenIn(from, file string) func(context.Context, string) (string, error) {
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	var warned sync.Once
	return func(context.Context, string) (string, error) {
		to := slog.New(slog.DiscardHandler)
		warned.Do(func() { to = log })
		token, err := config.ReadTokenFile(from, file, "the access token", to)
		return string(token), err
	}
}

// environment returns the environment of programs that a command starts. Where the configuration
// cannot be read, the journal may be shared.
func (a *app) environment() []string {
	c, err := config.Load(config.Options{File: a.config})
	return config.Environment(err != nil || c.Journal.Shared())
}

func (a *app) daemonAt(c config.Config) *client.Client {
	d := clientOf(c)
	a.onSilence(d, c.Socket)
	return d
}

// onSilence has a line printed once the daemon there seems to hang.
func (a *app) onSilence(d *client.Client, at string) {
	d.OnSilence(silence, func() {
		fmt.Fprintf(a.stderr, "dibs: the daemon on %s answers nothing: it is suspended, or its machine has too much to do; still waiting, Ctrl-C ends that\n", at)
	})
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

// print prints an answer: as JSON with --json, else for people. people's writer aligns columns
// separated by tabs.
func (a *app) print(answer any, people func(io.Writer)) error {
	if a.json {
		return writeJSON(a.stdout, answer)
	}
	var out bytes.Buffer
	aligned := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	people(aligned)
	if err := aligned.Flush(); err != nil {
		return err
	}
	_, err := a.stdout.Write(out.Bytes())
	return err
}

// say prints a remark on stderr, unless the output is JSON.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// person reports whether a person reads what the command prints: stdout is a terminal, and JSON was
// not asked for.
func (a *app) person() bool { return !a.json && isTerminal(a.stdout) }

// answer prints what a command has done. A person gets the lines. A program gets the document on
// stdout and, unless it asked for JSON, the first line on stderr.
func (a *app) answer(document any, lines ...string) error {
	if !a.person() {
		a.say("%s", lines[0])
		return writeJSON(a.stdout, document)
	}
	_, err := io.WriteString(a.stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// styled returns a text in a style, on a terminal that shows it.
func (a *app) styled(text string, style interface{ Styled(string) string }) string {
	if !coloured(a.stdout) {
		return text
	}
	return style.Styled(text)
}

// program returns how the caller calls dibs.
func (a *app) program() string {
	if a.tried {
		return "dibs try"
	}
	return "dibs"
}

// command returns a command about a task as the caller would type it.
func (a *app) command(verb string, t api.TaskRef) string {
	words := []string{a.program(), verb}
	if name := handle(t); name != "" {
		words = append(words, name)
	}
	if a.agent != "" && a.agent != os.Getenv("DIBS_AGENT") {
		words = append(words, "--agent", connect.ShellWord(clean(a.agent)))
	}
	return strings.Join(words, " ")
}

// claimer returns the agent's name, for commands that need one.
func (a *app) claimer() (string, error) {
	may, err := a.byToken(a.ctx)
	switch {
	case err != nil:
		return "", err
	case a.agent == "" && may != "":
		return "", usagef("which agent? the access token is for %s: give one of these with --agent or DIBS_AGENT, or auto", clean(may))
	case a.agent == "":
		return "", usagef("which agent? give --agent or set DIBS_AGENT")
	}
	err = a.named(true)
	return a.agent, err
}

// checkAgent returns an error for an invalid name, and replaces auto by this session's name.
func (a *app) checkAgent() error {
	if _, err := a.byToken(a.ctx); err != nil || a.agent == "" {
		return err
	}
	return a.named(false)
}

// byToken takes the agent's name from the access token, if none is given and the token is for one. It
// returns what the token is for; empty without one.
func (a *app) byToken(ctx context.Context) (pattern string, err error) {
	if a.agent != "" || a.address() == "" {
		return "", nil
	}
	daemon, err := a.direct()
	if err != nil {
		return "", err
	}
	may, err := client.Do(ctx, daemon, api.OpAccess, struct{}{})
	if err == nil && !strings.Contains(may.Agent, "*") {
		a.agent = may.Agent
	}
	return may.Agent, err
}

// ownName replaces auto by a name for this process alone, so that two of them are two agents.
func (a *app) ownName(ctx context.Context) error {
	if a.agent != task.AutoAgent {
		return nil
	}
	daemon, err := a.daemon()
	if err != nil {
		return err
	}
	got, err := client.Do(ctx, daemon, api.OpMint, api.MintInput{Body: &api.MintRequest{Session: sessionid.Of("run " + ulid.Make().String()).ID}})
	if err != nil {
		return err
	}
	a.agent = got.Agent
	return nil
}

// only returns the agent to which --agent limits a list. DIBS_AGENT says who asks, and limits
// nothing.
func (a *app) only(cmd *cobra.Command) (string, error) {
	if !cmd.Flags().Changed("agent") {
		return "", nil
	}
	err := a.checkAgent()
	return a.agent, err
}

// named replaces auto by the name that the daemon has for it, and validates any other name. With
// anew the name may be one that no later command gets, in an environment that does not identify
// sessions.
func (a *app) named(anew bool) error {
	if a.agent = task.Name(a.agent); a.agent != task.AutoAgent {
		if err := task.ValidateAgent(a.agent); err != nil {
			return &usageError{err}
		}
		return nil
	}
	here, known := sessionid.Find(os.Getenv)
	if !known && !anew {
		return usagef("nothing here tells one session from another, so that auto would be a new name for each command: set DIBS_AGENT to the name that you were given, or DIBS_SESSION to a text of your own")
	}
	if !known && a.request != "" {
		here.ID = sessionid.Of(a.request).ID // a repeated command belongs to the same agent
	}
	daemon, err := a.daemon()
	if err != nil {
		return err
	}
	got, err := client.Do(a.ctx, daemon, api.OpMint, api.MintInput{Body: &api.MintRequest{Session: here.ID}})
	if err != nil {
		return err
	}
	a.agent, a.given = got.Agent, given{minted: got.Minted, from: here.From}
	switch {
	case got.Minted && known:
		a.say("dibs: you are %s, in this session", clean(got.Agent))
	case got.Minted:
		a.say("dibs: you are %s: set DIBS_AGENT to it, or later commands with auto get another name", clean(got.Agent))
	}
	return nil
}
