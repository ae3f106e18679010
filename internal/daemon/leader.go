package daemon

import (
	"errors"
	"fmt"
	"net"
	"time"

	"dibs/config"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/doubt"
	"dibs/internal/claim/keepers"
	"dibs/internal/daemon/metrics"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/outbox"
	"dibs/internal/reserve"

	"github.com/robfig/cron/v3"
)

// leader is the part of a daemon that exists while it leads: everything built on the journal.
type leader struct {
	*process
	shared  *shared       // nil with a journal of the daemon's own
	config  config.Config // as at the start; a reload changes process.live
	cleanup cleanup       // at the end of the term

	// All that is remembered.
	journal *journal.Journal
	lines   *lines // of the log, one for each fact that is stored

	// Notion's board, and its copy.
	notion *notion.Client
	tasks  *notion.Tasks
	users  *notion.Users // who edits the cards of held claims
	mirror *mirror.Mirror

	// The protocol, and what may end a claim or stop all claims.
	claimer      *claim.Claimer
	doubt        *doubt.Doubt
	alive        *keepers.Watch
	reservations *reserve.Book

	// What is owed: a queue for each log, one for comments, and one for each receiver of notices,
	// independent of each other.
	queues []*outbox.Queue

	// What people write and change in Notion, sooner than a sync finds it.
	listener *listener
	hooks    *hooks

	// What agents ask, and what is measured.
	broker  *broker.Broker
	server  *server.Server
	metrics *metrics.Metrics
	scrapes net.Listener // for metrics alone; nil without one
	// overwrites measures for how long people's edits are at risk.
	overwrites metrics.Times

	// Loops that other parts wake, each with what it alone uses.
	due, leases, offers, titles *clock.Loop
	news                        struct {
		*clock.Loop
		begun bool // the feed has begun, see journal.BeginFeed
	}
	held struct {
		*clock.Loop
		checked bool // the claims held at the start were checked
	}
	untidy struct {
		*clock.Loop
		trouble string // the last error of tidying
	}

	jobs *jobs // nil until run makes them; guarded by reloading
}

// interval is the time between two syncs, and before a retry.
func (d *leader) interval() time.Duration { return d.live.Load().Sync.Interval }

// left returns how long a loop waits until next, a time of Notion's: at least a second, unless most
// is shorter, and at most most. It returns most if next is zero.
func (d *leader) left(next time.Time, most time.Duration) time.Duration {
	if next.IsZero() {
		return most
	}
	return max(time.Second, min(most, next.Sub(d.notion.Now())))
}

// jobs is the daemon's schedule.
type jobs struct {
	*cron.Cron
	run map[string]func()       // by their keys in the configuration
	ids map[string]cron.EntryID // of the scheduled jobs, by the same keys
}

// set schedules a job, or reschedules it.
func (j *jobs) set(key, spec string) error {
	id, err := j.AddFunc(spec, j.run[key])
	if err != nil {
		return fmt.Errorf("schedule.%s: %q: %w", key, spec, err)
	}
	if old, ok := j.ids[key]; ok {
		j.Remove(old)
	}
	j.ids[key] = id
	return nil
}

// reschedule moves the jobs whose times have changed. It does nothing for jobs that run has not made
// yet.
func (j *jobs) reschedule(before, after config.Schedule) error {
	if j == nil {
		return nil
	}
	var errs []error
	if before.Sweep != after.Sweep {
		errs = append(errs, j.set("sweep", after.Sweep))
	}
	if before.FullSync != after.FullSync {
		errs = append(errs, j.set("full_sync", after.FullSync))
	}
	return errors.Join(errs...)
}
