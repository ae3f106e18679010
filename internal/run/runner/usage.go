package runner

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/kit/clock"
)

// used returns what the command wrote into its file that it used for the task, if anything.
func (f files) used() (used api.Used, err error) {
	if f.usage == nil {
		return used, nil
	}
	if written := readWritten(f.usage.Name()); written != "" {
		used.Usage, err = api.ParseUsage(written)
	}
	return used, err
}

// spent is used at the end of the command. What cannot be read is said, and changes nothing else.
func (j *job) spent() api.Used {
	used, err := j.made.used()
	if err != nil {
		j.Say("what %s wrote into DIBS_USAGE_FILE is not counted: %v", j.name(), err)
	}
	return used
}

// renewEvery is how often to renew a claim if the daemon cannot see this process, or there is more to
// say of what was used.
const renewEvery = 30 * time.Second

// renew keeps the claim alive until ctx ends, for a daemon on another machine, and tells any daemon
// what was used so far.
func (j *job) renew(ctx context.Context) {
	var told api.Usage
	until := j.claim.ExpiresAt.Time
	for clock.Pause(ctx, min(renewEvery, max(time.Until(until)/3, time.Second))) == nil {
		used, _ := j.made.used() // what cannot be read may be half written
		if news := used.Usage != nil && *used.Usage != told; j.Claim.PID != 0 && !news {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, renewEvery)
		// watch notices a failure by the end of the lease.
		renewed, err := j.Daemon.Renew(asking, string(j.claim.ID), api.RenewRequest{Agent: j.claim.Agent, Used: used}, "")
		cancel()
		if err != nil {
			continue
		}
		until = renewed.ExpiresAt.Time
		if used.Usage != nil {
			told = *used.Usage
		}
	}
}

// reportLost tells the daemon what was used for a claim that was lost: it is gone all the same.
func (j *job) reportLost() {
	if used := j.spent(); used.Usage != nil {
		ctx, cancel := context.WithTimeout(context.Background(), again)
		defer cancel()
		// It is refused, since the claim is lost, and noted.
		_, _ = j.Daemon.Renew(ctx, string(j.claim.ID), api.RenewRequest{Agent: j.claim.Agent, Used: used}, "")
	}
}
