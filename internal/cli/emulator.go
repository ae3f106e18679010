package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"dibs/config"
	"dibs/internal/claim/simulate"
	"dibs/internal/notion/emulator"

	"github.com/spf13/cobra"
)

// emulating is the output of `emulator --json`.
type emulating struct {
	URL       string             `json:"url"`
	Token     string             `json:"token"`
	Databases emulator.Databases `json:"databases"`
}

func (a *app) emulatorCommand() *cobra.Command {
	var o emulatorOptions
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Run a Notion-compatible server",
		Long: "Run a server that speaks Notion's API, with the three databases that dibs works with, for trying\n" +
			"things and for tests. Any Notion client can use it. It serves until it is stopped.",
		Example: "  dibs emulator --listen 127.0.0.1:8787 --seed demo",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runEmulator(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type emulatorOptions struct {
	listen   string
	hosts    []string
	versions []string
	state    string // the file with the state
	seed     string
	tasks    int
	token    string
	limit    int
	webhook  string
}

func (o *emulatorOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "the `address` to serve on; port 0 is any free one")
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil, "a `name` that requests may be for, beside localhost and addresses")
	cmd.Flags().StringSliceVar(&o.versions, "api-version", nil, "a `version` of the API to speak, such as 2025-09-03 (default: all)")
	cmd.Flags().StringVar(&o.state, "state", "", "a `file` to keep the state in (default: keep nothing)")
	cmd.Flags().StringVar(&o.seed, "seed", "demo", "what a new state holds: `demo` tasks, or empty databases")
	cmd.Flags().IntVar(&o.tasks, "tasks", 0, "how many more open tasks a new state holds, for trying a large board")
	cmd.Flags().StringVar(&o.token, "token", "", "the `token` to accept (default: that of the state file, or a random one)")
	cmd.Flags().IntVar(&o.limit, "limit", 180, "requests allowed in each minute, 0 for any number")
	cmd.Flags().StringVar(&o.webhook, "webhook", "", "the `URL` of a webhook to send events to, as Notion does (default: none)")
}

func (a *app) runEmulator(cmd *cobra.Command, o emulatorOptions) error {
	if o.limit < 0 {
		return usagef("--limit %d: want a number of requests a minute, or 0 for no limit", o.limit)
	}
	if o.seed != "demo" && o.seed != "empty" {
		return usagef("--seed %q: want demo or empty", o.seed)
	}
	if o.tasks < 0 || o.tasks > maxAdded {
		return usagef("--tasks %d: want a number of tasks to add, 0 to %d", o.tasks, maxAdded)
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e, err := emulator.New(emulator.Options{Token: o.token, Limit: o.limit, StateFile: o.state, Versions: o.versions, Log: log})
	if err != nil {
		return err
	}
	err = furnish(e, o.seed, o.tasks)
	if err == nil && o.webhook != "" {
		if err = e.Subscribe(emulator.Webhook{URL: o.webhook}); err != nil {
			err = usagef("--webhook: %w", err)
		}
	}
	if err == nil {
		err = a.emulate(cmd.Context(), e, o.listen, o.hosts)
	}
	return errors.Join(err, e.Close())
}

// maxAdded is the largest board that fits in an ordinary machine's memory, in tasks.
const maxAdded = 1_000_000

// furnish fills a new emulator. One that has loaded a state is left as it is.
func furnish(e *emulator.Emulator, seed string, tasks int) error {
	if e.Databases() != (emulator.Databases{}) {
		return nil
	}
	if _, err := e.Seed(seed); err != nil || tasks == 0 {
		return err
	}
	return e.AddTasks(tasks)
}

// emulate serves until ctx ends.
func (a *app) emulate(ctx context.Context, e *emulator.Emulator, listen string, hosts []string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		a.say("other machines can reach this server on %s: its token is all that keeps them out, and goes over the network unencrypted", l.Addr())
	}
	server := &http.Server{Handler: emulator.Addressed(hosts, e), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	where := emulating{URL: "http://" + l.Addr().String(), Token: e.Token(), Databases: e.Databases()}
	err = a.print(where, func(w io.Writer) {
		fmt.Fprintf(w, "A Notion-compatible server on %s. To let a daemon work on it:\n\n", where.URL)
		fmt.Fprintf(w, "  export NOTION_TOKEN=%s DIBS_NOTION_BASE_URL=%s\n", where.Token, where.URL)
		dbs := where.Databases
		fmt.Fprintf(w, "  export DIBS_DATABASES_TASKS=%s DIBS_DATABASES_TASK_LOG=%s DIBS_DATABASES_MESH_LOG=%s\n", dbs.Tasks, dbs.TaskLog, dbs.MeshLog)
		fmt.Fprintf(w, "  dibs serve\n")
	})
	if err != nil {
		server.Close()
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		server.Close() // clients see broken connections, as from a server that dies
		return nil
	}
}

func (a *app) simulateCommand() *cobra.Command {
	o := simulateOptions{Options: simulate.Options{WriteWindow: config.Default().Claim.WriteWindow}}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Try settle waits, and ways of claiming by hand, in simulated races",
		Long: "Run races for a task in virtual time, and print for several settle waits how often a task was\n" +
			"granted twice, a granted claim was overwritten, or nobody won, how long claiming took, and how many\n" +
			"requests a race took; then the same for ways of claiming without dibs. Nothing outside this machine\n" +
			"is asked, and no configuration is read. The same command prints the same figures every time. Exit code 1: dibs\n" +
			"granted a task twice although the settle wait was longer than the write window.",
		Example: "  dibs simulate --latency p50=180ms,p99=900ms --write-window 1.5s --settle 1s,1.6s,3s",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runSimulate(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type simulateOptions struct {
	simulate.Options
	latency, claimers string
}

func (o *simulateOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.latency, "latency", simulate.DefaultProfile().String(), "how long a request takes: p50 and p99, perhaps min and max, a `profile`")
	flags.StringVar(&o.claimers, "claimers", "2..4", "how many go for a task, 2 to 8, a `number` or two as in 2..8")
	flags.DurationVar(&o.Spread, "spread", time.Second, "within what `time` of each other they start")
	flags.IntVar(&o.Races, "races", 1000, "how many races to run for each line, a `number`")
	flags.DurationVar(&o.WriteWindow, "write-window", o.WriteWindow, "claim.write_window, a `time`")
	flags.DurationSliceVar(&o.Settles, "settle", []time.Duration{
		0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 1600 * time.Millisecond, 2 * time.Second, 3 * time.Second, 5 * time.Second,
	}, "values of claim.settle to try, `times` in rising order")
	flags.Float64Var(&o.Late, "late", 0.01, "what `share` of claim writes breaks off and takes effect up to 30s later")
	flags.Uint64Var(&o.Seed, "seed", 1, "a `number` that decides all that is left to chance")
}

func (a *app) runSimulate(cmd *cobra.Command, o simulateOptions) (err error) {
	if o.Claimers, err = simulate.ParseRange(o.claimers); err != nil {
		return usagef("--claimers %v", err)
	}
	if o.Latency, err = simulate.ParseProfile(o.latency); err != nil {
		return usagef("--%v", err)
	}
	if err := o.Validate(); err != nil {
		return &usageError{err}
	}
	report, err := simulate.Run(cmd.Context(), o.Options)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) { showRaces(w, report) }); err != nil {
		return err
	}
	return report.Broken()
}

// showRaces prints a report as a table.
func showRaces(w io.Writer, r simulate.Report) {
	row(w, "CLAIMING BY", "SETTLE", "DOUBLE GRANTS", "LOST WRITES", "NOT REPAIRED", "NO WINNER", "CLAIM P50", "P99", "REQUESTS")
	for _, line := range r.Rows {
		settle := "-"
		if line.SettleSeconds != nil {
			settle = seconds(*line.SettleSeconds).String()
			if !line.Guaranteed {
				settle += " *"
			}
		}
		row(w, line.Protocol, settle, percent(line.DoubleRate), percent(line.LostRate), percent(line.NotRepairedRate),
			percent(line.NoWinnerRate), fmt.Sprintf("%.2fs", line.P50Seconds), fmt.Sprintf("%.2fs", line.P99Seconds), fmt.Sprintf("%.1f", line.Requests))
	}
	fmt.Fprintf(w, "\n%d races a line, of %s claimers starting within %gs; %s of claim writes late; write window %gs; seed %d\n",
		r.Races, r.Claimers, r.SpreadSeconds, percent(r.Late), r.WriteWindowSeconds, r.Seed)
	fmt.Fprintf(w, "latency %s\n", r.Latency)
	fmt.Fprintln(w, "* not longer than the write window: dibs refuses it, unless it is the only claimer (claim.exclusive)")
}
