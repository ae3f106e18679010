package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/cluster"
	"dibs/internal/daemon"
	"dibs/internal/journal"
)

// stateDir checks the state directory.
func (e *examination) stateDir() {
	dir := e.Config.StateDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.ok("state_dir", dir+" is not there yet: the daemon makes it")
		return
	case err != nil:
		e.problem("state_dir", err.Error(), "make it readable for this user, or set another state_dir")
		return
	case !info.IsDir():
		e.problem("state_dir", dir+" is not a directory", "move it away, or set another state_dir")
		return
	}
	if err := writable(dir); err != nil {
		remedy := "make it writable for this user, or set another state_dir"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			remedy = "make room on its disk: nothing is accepted without it"
		}
		e.problem("state_dir", fmt.Sprintf("%s cannot be written: %v", dir, err), remedy)
		return
	}
	forbidden, remedy := fs.FileMode(0o077), "chmod 700 "+dir
	if group := e.Config.SocketGroup; group != "" && within(dir, e.Config.Socket) {
		// The group must reach the socket.
		forbidden, remedy = 0o067, fmt.Sprintf("chgrp %s %s && chmod 710 %[2]s", group, dir)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		e.warn("state_dir", fmt.Sprintf("%s, which other users can get at (mode %#o)", dir, mode), remedy)
		return
	}
	e.ok("state_dir", dir)
}

// within reports whether a path is in a directory.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// room is the free space that is needed, in bytes: enough for a few changes of the journal.
const room = 64 << 10

// writable checks that a directory can be written, by making and removing a file.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, room))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// daemon checks whether a daemon runs and answers on its socket, and its state.
func (e *examination) daemon(ctx context.Context) {
	pid, running, err := daemon.Running(e.Config.StateDir)
	if err != nil {
		e.problem("daemon", err.Error(), "look at the file there, and at its file system")
	}
	e.running = running
	if at := daemon.SocketOf(e.Config.StateDir); at != "" && e.Config.SocketByDefault {
		e.Config.Socket = at // as clients do
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := client.Do(ctx, e.Daemon, api.OpStatus, struct{}{})
	gone, unreachable := errors.AsType[*client.UnreachableError](err)
	_, impostor := errors.AsType[*client.ImpostorError](err)
	switch {
	case err == nil:
		e.status = &status
		e.ok("daemon", fmt.Sprintf("dibs %s, pid %d, for %v", status.Version, status.PID, e.uptime()))
		e.socket()
		e.daemonHealth()
	case impostor, unreachable && errors.Is(err, fs.ErrPermission):
		e.failed("daemon", err)
	case running && unreachable && !gone.Sent:
		e.problem("daemon", fmt.Sprintf("process %s has locked the state directory, but nothing answers on %s", pid, e.Config.Socket),
			"give both the same socket, which dibs serve names when it starts; if they have it, see what removed its file")
	case running && (unreachable || ctx.Err() != nil):
		e.problem("daemon", fmt.Sprintf("process %s does not answer: %v", pid, err),
			"see its log, and with ps whether it is suspended or waits for a disk, and ask again")
	case running:
		e.problem("daemon", fmt.Sprintf("process %s: %v", pid, err), "stop it, and start dibs serve again")
	case unreachable:
		e.ok("daemon", "not running")
		e.socket()
	default:
		e.problem("daemon", err.Error(), "see what else listens on "+e.Config.Socket)
	}
}

// socket checks the socket's file.
func (e *examination) socket() {
	path := e.Config.Socket
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.status == nil:
		e.ok("socket", path+" is not there yet: the daemon makes it")
	case err != nil:
		e.problem("socket", err.Error(), "make its directory readable for this user, or set another socket")
	case info.Mode().Type() != fs.ModeSocket:
		e.problem("socket", path+" is not a socket", "move it away, or set another socket")
	case e.status == nil:
		e.ok("socket", path+" was left behind: the daemon replaces it")
	case info.Mode().Perm()&e.forbidden() != 0:
		e.problem("socket", fmt.Sprintf("%s can be used by others (mode %#o)", path, info.Mode().Perm()),
			"restart the daemon, which sets the mode, and see who changes it; if systemd opens the socket, its unit sets the mode: for a group, name that in socket_group, too")
	default:
		e.ok("socket", fmt.Sprintf("%s, mode %#o", path, info.Mode().Perm()))
	}
}

// forbidden returns the permissions that the socket must not give.
func (e *examination) forbidden() fs.FileMode {
	if e.Config.SocketGroup != "" {
		return 0o007
	}
	return 0o077
}

// The limits beyond which the daemon's own numbers are worth a warning.
const (
	oldEntry   = 15 * time.Minute // the oldest entry of the outbox
	nearBudget = 0.8              // share of the allowed requests
)

// daemonHealth checks how the daemon's work with Notion is going.
func (e *examination) daemonHealth() {
	s := e.status
	if s.Notion.LastError != "" {
		e.warn("sync", "the last one failed: "+s.Notion.LastError, "tasks are as of the last one that did not; the findings on databases say what is wrong, if it is not Notion")
	} else if !s.Mirror.SyncedAt.IsZero() {
		e.ok("sync", fmt.Sprintf("%d tasks, %d of them ready, as of %v ago", s.Mirror.Tasks, s.Mirror.Ready, e.since(s.Mirror.SyncedAt)))
	}
	if s.Mirror.Stuck != nil {
		e.warn("dependencies", s.Mirror.Stuck.String(), "dibs ready --why says what to do about each")
	}
	e.webhook(s.Webhook)
	e.outbox(s.Outbox)
	e.budget(s)
	e.settings(s.Policy, s.Cluster != nil)
	if w := s.ReadToWrite; w != nil {
		e.ok("overwrite", fmt.Sprintf("an edit of a task in the moment in which it is claimed is overwritten: %v as a rule, %v at most, in the last %d claims",
			length(w.MedianSeconds), length(w.SlowestSeconds), w.Writes))
	}
}

// deafAfter is after how many edits without an event something is wrong.
const deafAfter = 10

// webhook checks whether Notion's events come.
func (e *examination) webhook(s *api.WebhookStatus) {
	refused := ""
	if s != nil && s.Refused != nil && s.Refused.At.After(s.LastAt.Time) {
		refused = fmt.Sprintf("; %s was refused %v ago: %s", s.Refused.Request, e.since(s.Refused.At), s.Refused.Reason)
	}
	switch {
	case s == nil:
	case !s.Verified && refused != "":
		e.warn("webhook", fmt.Sprintf("the daemon listens on %s%s", s.Address, refused), "mend that, and have Notion send its token again")
	case !s.Verified:
		e.warn("webhook", fmt.Sprintf("the daemon listens on %s, and Notion has sent nothing yet", s.Address), "dibs webhook says what to enter where in Notion")
	case s.Missed >= deafAfter:
		e.warn("webhook", fmt.Sprintf("syncs found %d edits since the last event came%s", s.Missed, refused),
			"see that the tunnel or the proxy in front of the daemon runs, and whether the subscription is paused in Notion; dibs webhook says how it was set up")
	case s.LastAt.IsZero():
		e.ok("webhook", "no event yet since the daemon started")
	default:
		e.ok("webhook", fmt.Sprintf("%d events, the last one %v ago; they told of %d of %d edits first", s.Received, e.since(s.LastAt), s.Edits, s.Edits+s.Polled))
	}
}

// length converts seconds, rounded to the millisecond.
func length(seconds float64) time.Duration {
	return shown(time.Duration(seconds * float64(time.Second)))
}

func (e *examination) budget(s *api.Status) {
	if s.Notion.PausedUntil.After(time.Now()) {
		e.warn("budget", fmt.Sprintf("Notion asked for a pause of another %v", time.Until(s.Notion.PausedUntil.Time).Round(time.Second)),
			"see what else uses this connection's token, or lower notion.rate")
		return
	}
	minutes := max(1, time.Since(s.StartedAt.Time).Minutes())
	used, allowed := float64(s.Notion.Requests)/minutes, e.Config.Notion.Rate*60
	line := fmt.Sprintf("%.0f of %.0f requests a minute, on average since the daemon started", used, allowed)
	if used > nearBudget*allowed {
		e.warn("budget", line, "make sync.interval longer, or use fewer agents")
		return
	}
	e.ok("budget", line)
}

// left reports what a stopped daemon has left to the next one.
func (e *examination) left(found journal.Inspection) {
	owed := journal.Total(found.Owed)
	e.outbox(api.OutboxStatus{Depth: owed.Depth, Finishes: owed.Finishes, Oldest: api.Time{Time: owed.Oldest}, LastError: owed.LastError})
	e.live = found.Live
	held := 0
	for _, cl := range found.Live {
		if cl.State == claim.Held && cl.StaleAt.After(time.Now()) {
			held++
		}
	}
	if held > 0 {
		e.warn("claims", fmt.Sprintf("%d held, and no daemon looks after them", held), "start dibs serve before their leases end")
	}
}

func (e *examination) outbox(o api.OutboxStatus) {
	if o.Unknown() {
		e.warn("outbox", "not known: "+o.LastError, "see to the journal, and run dibs doctor again")
		return
	}
	if o.Depth == 0 {
		e.ok("outbox", "empty")
		return
	}
	age := time.Since(o.Oldest.Time).Round(time.Second)
	line := fmt.Sprintf("%s, the oldest from %v ago", o.Owed(), age)
	if o.LastError != "" {
		line += ", last error: " + o.LastError
	}
	switch {
	case e.status == nil:
		e.warn("outbox", line, "start dibs serve: it delivers them")
	case age > oldEntry || o.LastError != "":
		e.warn("outbox", line, "nothing is lost; they are delivered once Notion takes them, so see to the error, and to the findings on databases")
	default:
		e.ok("outbox", line)
	}
}

// journal checks the journal: its file if no daemon is using it, its database always.
func (e *examination) journal(ctx context.Context) {
	if e.Config.Journal.Shared() {
		e.sharedJournal(ctx)
		return
	}
	if e.running {
		if e.status != nil {
			e.ok("journal", fmt.Sprintf("in use; the daemon found it whole when it started, %v ago", e.uptime()))
			e.doubted(ctx)
		}
		return
	}
	path := filepath.Join(e.Config.StateDir, journal.FileName)
	found, err := journal.Inspect(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.ok("journal", "not there yet: the daemon makes it")
	case err != nil:
		e.failed("journal", err)
	default:
		e.ok("journal", "whole: "+path)
		e.left(found)
	}
}

func (e *examination) uptime() time.Duration { return e.since(e.status.StartedAt) }

func (e *examination) since(t api.Time) time.Duration { return time.Since(t.Time).Round(time.Second) }

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
	if e.status != nil {
		e.doubted(ctx)
	}
}

// doubted reports a journal that was restored to an older state, as the daemon sees it.
func (e *examination) doubted(ctx context.Context) {
	if c, err := client.Do(ctx, e.Daemon, api.OpCluster, struct{}{}); err == nil && c.LastError != "" {
		e.problem("journal.state", c.LastError, "dibs adopt, once no daemon with the newer journal runs; or restore a newer copy")
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
	if line := found.Lost.String(); line != "" {
		e.warn("journal.lost", line, "have agents and people look at what they did then; see docs/cluster.md, A standby that takes over")
	}
}

// databaseClock compares the database's clock with this machine's. Terms go by the database's clock
// alone, so no guarantee depends on the difference.
func (e *examination) databaseClock(ahead time.Duration) {
	ahead = ahead.Round(time.Second)
	if ahead.Abs() <= skewAllowed {
		return
	}
	line := fmt.Sprintf("the database's is %v ahead of this machine's", ahead)
	if ahead < 0 {
		line = fmt.Sprintf("the database's is %v behind this machine's", -ahead)
	}
	e.warn("journal.clock", line, "synchronise both clocks (NTP): who leads does not depend on it, but the times of members and logs do not match")
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
