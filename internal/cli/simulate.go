package cli

import (
	"fmt"
	"io"
	"time"

	"dibs/config"
	"dibs/internal/claim/simulate"

	"github.com/spf13/cobra"
)

func (a *app) simulateCommand() *cobra.Command {
	var latency, claimers string
	o := simulate.Options{WriteWindow: config.Default().Claim.WriteWindow}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Try settle waits, and ways of claiming by hand, in simulated races",
		Long: "Run races for a task in virtual time, and print for several settle waits how often a task was\n" +
			"granted twice, a granted claim was overwritten, or nobody won, how long claiming took, and how many\n" +
			"requests a race took; then the same for ways of claiming without dibs. Nothing outside this machine\n" +
			"is asked, and no configuration is read. The same command prints the same figures every time. Exit code 1: dibs\n" +
			"granted a task twice although the settle wait was longer than the write window.",
		Example: "  dibs simulate --latency p50=180ms,p99=900ms --write-window 1.5s --settle 1s,1.6s,3s",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Claimers, err = simulate.ParseRange(claimers); err != nil {
				return usagef("--claimers %v", err)
			}
			if o.Latency, err = simulate.ParseProfile(latency); err != nil {
				return usagef("--%v", err)
			}
			if err := o.Validate(); err != nil {
				return &usageError{err}
			}
			report, err := simulate.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := a.print(report, func(w io.Writer) { showRaces(w, report) }); err != nil {
				return err
			}
			return report.Broken()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&latency, "latency", simulate.DefaultProfile().String(), "how long a request takes: p50 and p99, perhaps min and max, a `profile`")
	flags.StringVar(&claimers, "claimers", "2..4", "how many go for a task, 2 to 8, a `number` or two as in 2..8")
	flags.DurationVar(&o.Spread, "spread", time.Second, "within what `time` of each other they start")
	flags.IntVar(&o.Races, "races", 1000, "how many races to run for each line, a `number`")
	flags.DurationVar(&o.WriteWindow, "write-window", o.WriteWindow, "claim.write_window, a `time`")
	flags.DurationSliceVar(&o.Settles, "settle", []time.Duration{
		0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 1600 * time.Millisecond, 2 * time.Second, 3 * time.Second, 5 * time.Second,
	}, "values of claim.settle to try, `times` in rising order")
	flags.Float64Var(&o.Late, "late", 0.01, "what `share` of claim writes breaks off and takes effect up to 30s later")
	flags.Uint64Var(&o.Seed, "seed", 1, "a `number` that decides all that is left to chance")
	return cmd
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

// percent formats a share; 0 means none at all.
func percent(share float64) string {
	switch {
	case share == 0:
		return "0"
	case share < 0.0005:
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}
