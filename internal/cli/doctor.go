package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/outbox/notify"
	"dibs/internal/setup/doctor"

	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps dibs from working, and say what to do",
		Long: "Look at the token, the databases and their properties, this machine's clock, the state directory,\n" +
			"the daemon and its socket, and say for each what to do. It needs no daemon and changes nothing.\n" +
			"With --probe it also measures Notion on two scratch rows of the tasks database, which are CANCELLED\n" +
			"and go to the trash. It says whether claim.write_window and claim.settle fit, and which would, and\n" +
			"ends with a text about Notion that can be posted: it names nobody, and nothing of the workspace.\n" +
			"Of a daemon at a URL it looks at the way there, the certificate, the access token and the clock.\n" +
			"Exit code 0: no errors; 1: errors; 6: Notion cannot be reached, or asks to be left alone.",
		Example: "  dibs doctor --probe",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type doctorOptions struct {
	probe    bool
	stateDir string
}

func (o *doctorOptions) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.probe, "probe", false, "measure Notion on scratch rows")
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "the `directory` of what the daemon must not forget (or DIBS_STATE_DIR)")
}

func (a *app) runDoctor(cmd *cobra.Command, o doctorOptions) error {
	var report *doctor.Report
	switch here := a.address() == ""; {
	case here:
		report = a.examine(cmd, o.stateDir, o.probe)
	case o.probe || o.stateDir != "":
		return usagef("--probe and --state-dir are for the daemon's machine: leave them out for the daemon on %s", a.address())
	default:
		var err error
		if report, err = a.examineRemote(cmd.Context()); err != nil {
			return err
		}
	}
	if ctx := cmd.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	shown := diagnosis{Findings: report.Findings, Proposal: report.Proposal}
	if report.Measured != nil {
		shown.Probe = &probed{report.Measured.Facts}
	}
	if err := a.print(shown, func(w io.Writer) {
		showCount(w, report.Findings)
		if report.Measured != nil {
			row(w)
			io.WriteString(w, report.Measured.Post(thisBuild().Version))
		}
	}); err != nil {
		return err
	}
	switch {
	case report.Unreachable:
		return ended{api.ExitNotion}
	case report.Failed():
		return ended{api.ExitFailure}
	}
	return nil
}

// diagnosis is the output of `doctor --json`.
type diagnosis struct {
	Findings []doctor.Finding `json:"findings"`
	Probe    *probed          `json:"probe,omitempty"`
	Proposal *doctor.Proposal `json:"proposal,omitempty"`
}

type probed struct {
	Facts []doctor.Fact `json:"facts"`
}

// examine runs the doctor, if the configuration can be read. It shows findings as they come: some
// take a while.
func (a *app) examine(cmd *cobra.Command, stateDir string, probe bool) *doctor.Report {
	c, err := config.Load(config.Options{File: a.config, Socket: a.socket, StateDir: stateDir})
	if err != nil {
		report := unreadable(err)
		for _, f := range report.Findings {
			a.showFinding(f)
		}
		return report
	}
	return doctor.Run(cmd.Context(), doctor.Options{Config: c, Daemon: clientOf(c), Probe: probe, OnFinding: a.showFinding})
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
	if left := time.Until(may.ExpiresAt.Time); left < tokenEnds && !strings.Contains(may.ID, "://") { // a JWT is short-lived
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

// unreadable returns the report on an invalid configuration, with a finding for each error. The
// errors themselves say what is wanted.
func unreadable(err error) *doctor.Report {
	report := new(doctor.Report)
	for line := range strings.Lines(err.Error()) {
		report.Findings = append(report.Findings, doctor.Finding{
			Check: "configuration", Level: doctor.Error, Found: strings.TrimSpace(line), Remedy: "mend the configuration; config.example.yaml explains every key",
		})
	}
	return report
}

// showFinding prints a finding, and below it the remedy. The columns fit the longest level and the
// longest check.
func (a *app) showFinding(f doctor.Finding) {
	if a.json {
		return
	}
	const columns = "%-7s  %-38s  %s\n"
	text := fmt.Sprintf(columns, f.Level, f.Check, clean(f.Found))
	if f.Remedy != "" {
		text += fmt.Sprintf(columns, "", "", "→ "+clean(f.Remedy))
	}
	io.WriteString(a.stdout, text) // printing the count reports an error again
}

// showCount prints how many errors and warnings there are.
func showCount(w io.Writer, findings []doctor.Finding) {
	count := make(map[doctor.Level]int)
	for _, f := range findings {
		count[f.Level]++
	}
	row(w)
	row(w, fmt.Sprintf("%s, %s", number(count[doctor.Error], "error"), number(count[doctor.Warning], "warning")))
}

func (a *app) notifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "notify test",
		Short: "Send a test notice to each receiver, and say what happened",
		Long: "Send a test notice to each receiver that the configuration lists under notify, now and from here,\n" +
			"and say what happened. It needs no daemon. Exit code 0: each took it; 1: not each did.",
		Args:      arguments("test"),
		ValidArgs: []string{"test"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "test" {
				return usagef("dibs notify wants test, got %q", args[0])
			}
			return a.testReceivers(cmd.Context())
		},
	}
}

// tested is the result of a test, for JSON.
type tested struct {
	Receiver string `json:"receiver"`
	Took     bool   `json:"took"`
	Error    string `json:"error,omitempty"`
}

func (a *app) testReceivers(ctx context.Context) error {
	c, err := config.Load(config.Options{File: a.config})
	if err != nil {
		return err
	}
	receivers, err := notify.Open(c.Notify, notify.Options{Output: a.stderr, Environment: config.Environment(c.Journal.Shared()), Log: slog.New(slog.NewTextHandler(a.stderr, nil))})
	if err != nil {
		return err
	}
	if len(receivers) == 0 {
		return errors.New("the configuration has no receivers: list some under notify, see config.example.yaml")
	}
	results, failed := []tested{}, false
	for _, r := range receivers {
		t := tested{Receiver: r.String(), Took: true}
		if err := r.Test(ctx); err != nil {
			t.Took, t.Error, failed = false, err.Error(), true
		}
		results = append(results, t)
	}
	err = a.print(map[string]any{"receivers": results}, func(w io.Writer) {
		for _, t := range results {
			result := "took it"
			if !t.Took {
				result = "did not take it: " + clean(t.Error)
			}
			row(w, clean(t.Receiver), result)
		}
	})
	if err == nil && failed {
		return ended{api.ExitFailure}
	}
	return err
}
