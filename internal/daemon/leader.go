package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/broker"
	"dibs/internal/mirror"
	"dibs/internal/relay"
	"dibs/internal/task"
)

const (
	// lagStep is how exactly the others are told of this daemon's lag: what changes is written
	// to etcd.
	lagStep = 15 * time.Second
	// failuresToResign is after how many syncs that failed, one after the other, a leader
	// leaves the seat to another member: it may be only this machine that does not reach Notion.
	failuresToResign = 3
	// unableFor is for how long after that a member does not stand, unless nobody else does.
	unableFor = 2 * time.Minute
)

// leading is what a member has to do with reading the board for all.
type leading struct {
	election *arbiter.Election
	relay    *relay.Relay
	holders  *arbiter.Holders

	failed   atomic.Int32 // syncs made here, one after the other
	last     atomic.Int64 // when one failed, by this machine's clock, in nanoseconds
	resigned atomic.Bool  // since then
}

// elect makes what this daemon reads the board for the others with, if it is in a cluster.
func (d *works) elect() {
	if d.member == nil {
		return
	}
	from := source{d.tasks, d.notion}
	m := &d.member.leading
	m.relay = relay.New(relay.Config{
		Mirror: d.mirror, Wire: d.member.Etcd, Term: func() int64 { return m.election.Term() }, Settings: d.readsBy,
		Schema: from.schema, Check: from.Check, Now: d.notion.Now, Log: d.log,
	})
	m.holders = arbiter.NewHolders(arbiter.HoldersConfig{
		Etcd: d.member.Etcd, Read: d.mirror.ReadSince, Changed: func(ids ...task.ID) { d.broker.Changed(ids...) }, Now: d.notion.Now, Log: d.log,
	})
	m.election = arbiter.NewElection(arbiter.ElectionConfig{
		Seat: d.member.Etcd, Member: d.member.Member(),
		Able: func() bool {
			return d.mirror.Listed() && (m.failed.Load() == 0 || time.Since(time.Unix(0, m.last.Load())) > unableFor)
		},
		Changed: func(int64) {
			m.relay.Elected()
			wake(d.news) // what people do on the board is told by the leader
		},
		Log: d.log,
	})
}

// readsBy tells settings from others by which a daemon would have other tasks in its mirror.
func (d *works) readsBy() string {
	c := d.live.Load()
	data, err := json.Marshal([]any{c.Tasks, c.Sync.KeepFinished, c.Databases.Tasks})
	if err != nil {
		panic(err) // it is made of strings
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// hearken notes from where on the mirror, which is about to make its first sync, is to be told
// what others have read.
func (d *works) hearken(ctx context.Context) {
	if d.member == nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askLeave)
	defer cancel()
	if err := d.member.relay.Begin(asking); err != nil {
		d.log.Debug("Notion is asked once more when etcd is back", "error", err)
	}
}

// leadLoops take part in the cluster's election until lead ends, and pass on and take over
// what is read until work does.
func (d *works) leadLoops(lead, work context.Context, loops *sync.WaitGroup) {
	if d.member == nil {
		return
	}
	loops.Go(func() {
		d.member.election.Run(lead)
		leaving, cancel := context.WithTimeout(context.WithoutCancel(lead), askLeave)
		defer cancel()
		if err := d.member.election.Resign(leaving); err != nil {
			d.log.Debug("this daemon's term ends by itself", "error", err)
		}
	})
	loops.Go(func() { d.member.relay.Run(work) })
	loops.Go(func() { d.member.holders.Run(work) })
}

// heldElsewhere is what other members have claimed; nil without a cluster.
func (d *works) heldElsewhere() broker.Elsewhere {
	if d.member == nil {
		return nil
	}
	return d.member.holders
}

// leads reports whether it is for this daemon to do what is done once for the board.
func (d *works) leads() bool { return d.member == nil || d.member.election.Leads() }

// follows reports whether another daemon reads the board for this one.
func (d *works) follows() bool { return d.member != nil && d.member.relay.Follows() }

// passOn passes on what a sync has found out.
func (d *works) passOn(ctx context.Context, r mirror.Result) {
	if d.member == nil {
		return
	}
	d.member.failed.Store(0)
	d.member.resigned.Store(false)
	d.member.relay.Read(ctx, r)
}

// overdue looks after the claims held here while nobody reads the board for this daemon: by
// their pages if the leader says that it cannot read.
func (d *works) overdue(ctx context.Context) {
	pages := d.mirror.Standing().Failure != nil
	if pages && (d.notion.Down() != nil || d.notion.Paused() != nil) {
		return
	}
	if err := d.guard(ctx, pages); err != nil && ctx.Err() == nil {
		d.log.Debug("held claims could not be looked after", "error", err)
	}
}

// unread passes on that a sync has failed. A leader that cannot read leaves that to others, if
// there are any; once, since it may be that nobody can.
func (d *works) unread(ctx context.Context) {
	if d.member == nil {
		return
	}
	m := &d.member.leading
	m.last.Store(time.Now().UnixNano())
	failed := m.failed.Add(1)
	m.relay.Unread(ctx)
	if failed < failuresToResign || !m.election.Leads() || m.resigned.Load() {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askLeave)
	defer cancel()
	if others, err := d.member.Members(asking); err != nil || len(others) < 2 {
		return
	}
	m.resigned.Store(true)
	d.log.Warn("another daemon of the cluster is to read the board, since this one cannot")
	if err := m.election.Resign(asking); err != nil {
		d.log.Debug("this daemon's term ends by itself", "error", err)
	}
}
