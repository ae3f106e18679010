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

// works is the part of a daemon that exists while it leads: everything built on the journal.
type works struct {
	*Daemon
	config config.Config // as at the start; a reload changes Daemon.live

	notion  *notion.Client
	tasks   *notion.Tasks
	journal *journal.Journal
	claimer *claim.Claimer
	mirror  *mirror.Mirror
	queues  []*outbox.Queue // one for each log, one for comments, and one for each receiver of notices; independent of each other
	doubt   *doubt.Doubt
	// overwrites measures for how long people's edits are at risk.
	overwrites   times
	hooks        hooks
	users        *notion.Users // who edits the cards of held claims
	broker       *broker.Broker
	alive        *keepers.Watch
	reservations *reserve.Book
	server       *server.Server
	metrics      *metrics.Metrics
	telling      *telling
	scrapes      net.Listener // for metrics alone; nil without one
	listener     listener

	jobs *jobs

	// Loops that other parts wake.
	due, news, leases, held, untidy, offers *clock.Loop

	checked bool   // checkHeld has succeeded; used by held only
	begun   bool   // the feed has begun, see journal.Begin; used by news only
	said    string // the last error of tidying; used by untidy only

	cleanup cleanup
}

// interval is the time between two syncs, and before a retry.
func (d *works) interval() time.Duration { return d.live.Load().Sync.Interval }

// left returns how long a loop waits until next, a time of Notion's: at least a second, unless most
// is shorter, and at most most. It returns most if next is zero.
func (d *works) left(next time.Time, most time.Duration) time.Duration {
	if next.IsZero() {
		return most
	}
	return max(time.Second, min(most, next.Sub(d.notion.Now())))
}

const (
	// onItsWay is how long a request may be on its way to Notion, which ends it after a minute.
	onItsWay = 65 * time.Second
	// readSoon is when to ask again while the board is being read.
	readSoon = 5 * time.Second
)

// closed returns why nothing is granted yet after a loss: a write of a lost claim may still arrive,
// and one that has arrived has to be seen.
func (d *works) closed() error {
	lost := d.journal.Lost()
	_, ago := lost.Ago()
	left := onItsWay - ago
	switch {
	case lost.Until.IsZero():
		return nil
	case left > 0:
	case !d.mirror.Listed():
		left = readSoon
	default:
		return nil
	}
	return &claim.JournalError{RetryAfter: left, Err: fmt.Errorf("%s; nothing is granted until lost writes have arrived and the board was read", lost)}
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

// reschedule moves the jobs whose times have changed. The caller has locked d.reloading.
func (d *works) reschedule(before, after config.Schedule) error {
	if d.jobs == nil {
		return nil // run has not made them yet
	}
	var errs []error
	if before.Sweep != after.Sweep {
		errs = append(errs, d.jobs.set("sweep", after.Sweep))
	}
	if before.FullSync != after.FullSync {
		errs = append(errs, d.jobs.set("full_sync", after.FullSync))
	}
	return errors.Join(errs...)
}
