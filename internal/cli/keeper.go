package cli

import (
	"time"

	"dibs/internal/api"

	"github.com/spf13/cobra"
)

// keeperFlags name a process that keeps a claim alive.
type keeperFlags struct {
	pid   int
	grace time.Duration
	asked api.Keeper // set by check
}

func (f *keeperFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.pid, "pid", 0, "a process `id`: while it lives the claim is renewed, and once it is gone, given back")
	cmd.Flags().DurationVar(&f.grace, "grace", 0, "how long the claim is kept after that, for another process to renew it")
}

// keeper validates the flags and returns the keeper.
func (f *keeperFlags) keeper(cmd *cobra.Command) (api.Keeper, error) {
	switch {
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return api.Keeper{}, usagef("--pid %d: want the id of a process", f.pid)
	case f.grace != 0 && f.pid == 0:
		return api.Keeper{}, usagef("--grace is for the end of a process: name that with --pid")
	case f.grace < 0 || f.grace > time.Hour:
		return api.Keeper{}, usagef("--grace %v: want a time from 0s to 1h", f.grace)
	}
	return api.Keeper{PID: f.pid, GraceSeconds: f.grace.Seconds()}, nil
}

func (f *keeperFlags) check(cmd *cobra.Command) (err error) {
	f.asked, err = f.keeper(cmd)
	return err
}
