package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/setup/doctor"

	"github.com/spf13/cobra"
)

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

func (a *app) addRemote(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.remote.url, "url", "", "the `address` of a daemon on another machine (or DIBS_URL)")
	flags.StringVar(&a.remote.tokenFile, "token-file", "", "the `file` with the access token for it (or DIBS_TOKEN_FILE, DIBS_TOKEN, DIBS_TOKEN_COMMAND)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.checkRemote(cmd) }
	completeFlag(root, "url", func(context.Context) []string { return nil })
}

// atHome are the commands that work on the daemon's machine alone.
var atHome = []string{"serve", "init", "notify", "backup", "try", "demo", "simulate", "emulator"}

// checkRemote refuses flags that contradict each other, or the command.
func (a *app) checkRemote(cmd *cobra.Command) error {
	name := cmd
	for name.HasParent() && name.Parent().HasParent() {
		name = name.Parent()
	}
	var err error
	switch given := a.remote.url != "" || a.remote.tokenFile != ""; {
	case a.remote.url != "" && a.socket != "":
		err = usagef("--url and --socket name two daemons: keep one of them")
	case given && slices.Contains(atHome, name.Name()):
		err = usagef("dibs %s works on the daemon's machine: leave out --url and --token-file", name.Name())
	case a.remote.tokenFile != "" && a.address() == "":
		err = usagef("--token-file is for a daemon on another machine: give --url or DIBS_URL, too")
	}
	if err != nil && name.Name() == "hook" {
		return harmless(err.Error())
	}
	return err
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

// tokenIn returns the token in a file, which is read each time: it may be replaced. That
// others may read it is said once.
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

// reaching returns an environment in which the commands of dibs ask the daemon that the flags name.
func (a *app) reaching(env []string) ([]string, error) {
	set := func(name, value string) {
		env = append(slices.DeleteFunc(env, func(setting string) bool { return strings.HasPrefix(setting, name+"=") }), name+"="+value)
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

const (
	// tokenEnds is how long before its end a token is worth a warning, and skew how far apart clocks
	// may be.
	tokenEnds = 72 * time.Hour
	skew      = 30 * time.Second
)

// examineRemote looks at what can be seen of a daemon on another machine. An error that is not about
// the daemon is returned.
func (a *app) examineRemote(ctx context.Context) (*doctor.Report, error) {
	report := new(doctor.Report)
	find := func(f doctor.Finding) {
		report.Findings = append(report.Findings, f)
		a.showFinding(f)
	}
	daemon, err := a.direct()
	if err != nil {
		return nil, err
	}
	may, err := client.Do(ctx, daemon, api.OpAccess, struct{}{})
	if err != nil {
		find(doctor.Finding{Check: "daemon", Level: doctor.Error, Found: err.Error()})
		return report, nil
	}
	find(doctor.Finding{Check: "daemon", Level: doctor.OK, Found: "it answers on " + a.address() + ", with a certificate that is believed"})
	token := doctor.Finding{Check: "token", Level: doctor.OK, Found: fmt.Sprintf("%s, for %s, until %s", may.ID, may.Agent, may.ExpiresAt.Local().Format(time.DateTime))}
	if left := time.Until(may.ExpiresAt.Time); left < tokenEnds && os.Getenv(commandVariable) == "" {
		token.Level, token.Remedy = doctor.Warning, "have another one made: dibs token new, on the daemon's machine"
	}
	find(token)
	clock := doctor.Finding{Check: "clock", Level: doctor.OK, Found: "as the daemon's"}
	if ahead := daemon.Ahead(); ahead.Abs() > skew {
		clock.Level, clock.Found, clock.Remedy = doctor.Warning, fmt.Sprintf("the daemon's is %v ahead of this machine's", ahead.Round(time.Second)), "synchronise both clocks (NTP): leases, and the times of tokens, are compared with them"
	}
	find(clock)
	return report, nil
}
