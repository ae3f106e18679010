package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/cluster"
	"dibs/internal/daemon"
	"dibs/internal/journal"
)

// sharedJournal checks the journal's database, and whether the leader can be reached.
func (e *examination) sharedJournal(ctx context.Context) {
	where, err := daemon.Place(e.Config, silent)
	if err != nil {
		e.failed("journal", err)
		return
	}
	if file := e.Config.Journal.PostgresFile; file != "" {
		e.looseFile("journal.postgres_file", file, "in "+file)
	}
	found, err := journal.Probe(ctx, where)
	if err != nil {
		e.failed("journal", err)
		return
	}
	said := fmt.Sprintf("PostgreSQL %s answers in %v", found.Version, shown(found.Took))
	if found.Pooled {
		said += ", through a pooler"
	}
	switch {
	case found.Missing != "":
		e.problem("journal", said+"; the user lacks privileges that dibs needs", "have an administrator run: "+found.Missing)
		return
	case !found.Made:
		said += "; the tables are not there yet: the daemon makes them"
	case found.Over:
		said += "; nobody leads"
	default:
		said += fmt.Sprintf("; %s leads since %s (epoch %d), %d members were seen", found.Leader, found.Since.Local().Format(time.DateTime), found.Epoch, len(found.Members))
	}
	e.ok("journal", said)
	e.databaseClock(found.Ahead)
	e.standbys(found)
	if found.Made && !found.Over {
		e.leader(ctx, found.Membership)
	}
	for _, m := range found.Members {
		if gone := found.Now.Sub(m.Seen); gone >= cluster.Unseen {
			e.warn("member", fmt.Sprintf("%s is away: it was seen last %v ago", m.Name, gone.Round(time.Second)),
				fmt.Sprintf("start dibs at %s; or leave it: it is listed for a week after it was seen", m.Name))
		}
	}
	if e.status == nil {
		return
	}
	if c, err := e.Daemon.Cluster(ctx); err == nil && c.LastError != "" {
		e.problem("journal.state", c.LastError, "dibs cluster adopt, once no daemon with the newer database runs; or restore a newer copy")
	}
}

// standbys checks what a standby that is promoted would lack, and what one has lacked.
func (e *examination) standbys(found journal.Findings) {
	switch {
	case found.Synchronous == "" && found.Standbys > 0:
		e.warn("journal.standby", fmt.Sprintf("the database has standbys (%d), and commits wait for none: what was accepted is lost if one that lags is promoted", found.Standbys),
			"set synchronous_standby_names to those that may be promoted")
	case found.Synchronous != "" && found.Standbys == 0:
		e.problem("journal.standby", fmt.Sprintf("commits wait for a standby (%s), and none is there: nothing is accepted", found.Synchronous),
			"start the standby, or take it out of synchronous_standby_names")
	}
	if said := found.Lost.String(); said != "" {
		e.warn("journal.lost", said, "have agents and people look at what they did then; see docs/cluster.md, A standby that takes over")
	}
}

// databaseClock compares the database's clock with this machine's. Terms go by the database's clock
// alone, so no guarantee depends on the difference.
func (e *examination) databaseClock(ahead time.Duration) {
	ahead = ahead.Round(time.Second)
	if ahead.Abs() <= skewAllowed {
		return
	}
	said := fmt.Sprintf("the database's is %v ahead of this machine's", ahead)
	if ahead < 0 {
		said = fmt.Sprintf("the database's is %v behind this machine's", -ahead)
	}
	e.warn("journal.clock", said, "set both, for example with NTP: who leads does not depend on it, but since when, and when members were seen, cannot be compared with the logs")
}

// leader checks whether this machine reaches the leader.
func (e *examination) leader(ctx context.Context, now journal.Membership) {
	for _, m := range now.Members {
		if m.Name != now.Leader {
			continue
		}
		address := cluster.AddressIn(m.Body)
		own, err := cluster.Try(ctx, e.Config.StateDir, m.Name, m.Body)
		switch {
		case own:
		case errors.Is(err, cluster.ErrNoKey):
			e.problem("leader", fmt.Sprintf("%s leads; whether it can be reached could not be tried: %v", m.Name, err),
				"see that this user can read the key in "+e.Config.StateDir+"; if it is damaged, remove it: the daemon makes another one")
		case errors.Is(err, cluster.ErrNoAddress):
			e.problem("leader", fmt.Sprintf("%s leads, and cannot be called: %v", m.Name, err), "restart dibs at "+m.Name)
		case err != nil:
			e.problem("leader", fmt.Sprintf("%s leads, and cannot be reached at %s: %v", m.Name, address, err),
				fmt.Sprintf("let this machine through to that address, or set cluster.advertise at %s to one that can be reached from here", m.Name))
		default:
			e.ok("leader", fmt.Sprintf("%s answers at %s", m.Name, address))
		}
	}
}
