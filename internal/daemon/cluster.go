package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/server"
	"dibs/internal/arbiter"
	"dibs/internal/arbiter/mailbox"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"
)

const (
	// joinWait is how long Start waits for etcd.
	joinWait = 5 * time.Second
	// shareWait is how long the first Start waits for a share of the budget: others give slots
	// back once all that they sent with them is older than a minute.
	shareWait = 75 * time.Second
	// askLeave is how long etcd is waited for to take back this daemon's share.
	askLeave = 2 * time.Second
	// troubleEvery is how often etcd is asked whether it can be used again, and tendEvery what
	// is done for it otherwise.
	troubleEvery = time.Second
	tendEvery    = 5 * time.Second
)

// clusterOf is what the configuration says of the cluster, for the workspace of that tasks
// database.
func clusterOf(c config.Cluster, workspace string) arbiter.Cluster {
	name, err := memberName(c)
	if err != nil {
		name = "unnamed"
	}
	return arbiter.Cluster{
		Endpoints: c.Etcd, Prefix: c.Prefix, Workspace: workspace, Name: name,
		CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, Username: c.Username, PasswordFile: c.PasswordFile,
	}
}

// member is this daemon's part in a cluster.
type member struct {
	*arbiter.Etcd
	ledger  *arbiter.Ledger
	repeats *repeats
	budget  *arbiter.Budget
	leading
	inbox *mailbox.Inbox
	name  string
	kin   kin

	led  time.Time     // since when this member leads, in Notion's time; for tellLoop only
	owed chan struct{} // wakes pushLoop

	changed chan struct{} // wakes clusterLoop: etcd can be used no longer, or again
	back    atomic.Bool   // again

	mu   sync.Mutex // one look after it at a time
	sent []sent     // what was sent to Notion, as it was counted in the last minute
	// namesKept is when the names of agents were kept last.
	namesKept time.Time
}

// joinCluster makes this daemon a member of the cluster, if one is configured. Etcd has to be
// there the first time: a member that knows none would believe any. Later it need not be. If
// Notion has to be asked before anything else, as when the board is not known yet, it returns
// once this daemon may do that.
func (d *works) joinCluster(ctx context.Context, mustAsk bool) error {
	c := d.config.Cluster
	if !c.Set() {
		return nil
	}
	board, err := task.ParseID(d.config.Databases.Tasks)
	if err != nil {
		return fmt.Errorf("databases.tasks: %w", err)
	}
	cluster := clusterOf(c, string(board))
	etcd, err := arbiter.Open(ctx, cluster, d.journal, d.log)
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, etcd.Close)
	d.member = &member{Etcd: etcd, name: cluster.Name, changed: make(chan struct{}, 1), owed: make(chan struct{}, 1)}
	asking, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	// Of an etcd that cannot be used later the ledger tells.
	if err := etcd.Probe(asking); err != nil && etcd.Marker() == "" {
		return &claim.ArbiterError{Err: fmt.Errorf("cluster.etcd: %w; a cluster is joined for the first time only when etcd answers", err)}
	}
	d.shareBudget(ctx, asking)
	if !mustAsk || d.member.budget.Share() > 0 {
		return nil
	}
	d.log.Info("waiting for a share of the cluster's requests to Notion")
	waiting, stop := context.WithTimeout(ctx, shareWait)
	defer stop()
	if err := d.member.budget.Wait(waiting); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return fmt.Errorf("no share of the cluster's requests to Notion was to be had within %v: %w; start this daemon again later, or stop another one", shareWait, err)
	}
	return nil
}

// shareBudget begins to keep this daemon's share of the requests that the cluster may send,
// until its resources are closed. It has one on return, unless etcd cannot be used or the
// others have all; asking bounds how long that takes.
func (d *works) shareBudget(ctx, asking context.Context) {
	b := arbiter.NewBudget(arbiter.BudgetConfig{
		Sender: d.notion, Pool: d.member.Etcd, Rate: func() float64 { return d.live.Load().Notion.Rate },
		Adopted: d.member.Adopted(), Log: d.log,
	})
	d.member.budget = b
	if err := b.Round(asking); err != nil {
		d.log.Warn("nothing is sent to Notion until this daemon has a share of the cluster's requests", "error", err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() { b.Run(work) })
	d.cleanup = append(d.cleanup, func() error {
		stop()
		kept.Wait()
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLeave)
		defer cancel()
		if err := b.Leave(left); err != nil {
			d.log.Debug("this daemon's share of the cluster's requests ends by itself", "error", err)
		}
		return nil
	})
}

// arbitrate puts the cluster, if there is one, between the protocol and its ledger.
func (d *works) arbitrate(l claim.Ledger, p claim.Policy) (claim.Ledger, claim.Arbiter) {
	if d.member == nil {
		return l, nil
	}
	d.member.ledger = arbiter.NewLedger(arbiter.Config{
		Ledger: l, Table: d.member.Etcd, Member: d.member.Member(), Name: d.member.name, Cluster: d.member.Marker,
		Stay: p.Stay(), Now: d.notion.Now, Log: d.log,
		Changed: func(why error) {
			d.member.back.Store(why == nil)
			wake(d.member.changed)
		},
	})
	d.member.repeats = newRepeats(d.member, d.log, func(ctx context.Context, uid int, key string) (*server.Answer, error) {
		return d.server.Resolve(ctx, uid, key) // it is made last
	})
	return d.member.ledger, d.member.ledger
}

// clusterLoop looks after this daemon's part in the cluster.
func (d *works) clusterLoop(ctx context.Context) {
	if d.member == nil {
		return
	}
	for wait := time.Duration(0); await(ctx, d.member.changed, wait); {
		if d.member.back.Swap(false) { // what waited for etcd is tried at once
			if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("a step that Notion is owed failed; it is tried again", "error", err)
			}
			wake(d.due)
			wake(d.news)
			wake(d.member.owed)
			d.member.inbox.Restart()
			d.broker.Changed()
		}
		if wait = tendEvery; d.tendCluster(ctx) != nil {
			wait = troubleEvery
		}
	}
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), joinWait)
	defer cancel()
	if err := d.member.Leave(left); err != nil {
		d.log.Debug("the others are not told that this member leaves", "error", err)
	}
}

// tendCluster looks once after this daemon's part in the cluster.
func (d *works) tendCluster(ctx context.Context) error {
	d.member.mu.Lock()
	defer d.member.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if err := d.member.ledger.Upkeep(asking); err != nil {
		return err
	}
	// First of all: who is not on the list counts as gone.
	behind, lag := d.member.relay.Lag()
	if err := d.member.Announce(asking, arbiter.Member{
		SeenAt: d.notion.Now(), RequestsPerMinute: d.sentLately(), Share: d.member.budget.Share(),
		Behind: behind, Lag: int(lag / lagStep * lagStep / time.Second),
		Version: d.version, Settings: settingsOf(*d.live.Load()),
	}); err != nil {
		return err
	}
	if err := d.member.repeats.tend(asking); err != nil {
		d.log.Debug("the cluster could not be told of all requests; it is tried again", "error", err)
	}
	d.keepNames(asking)
	if err := d.member.inbox.Tend(asking); err != nil {
		d.log.Debug("the cluster's inbox could not be looked after; it is tried again", "error", err)
	}
	return d.lookAtKin(asking)
}

// sent is how many requests had been sent at a moment.
type sent struct {
	at time.Time
	n  int
}

// sentLately is how many requests were sent to Notion in the last minute.
func (d *works) sentLately() int {
	now := sent{at: time.Now()}
	for _, c := range d.notion.Stats().Requests {
		now.n += int(c.N)
	}
	m := d.member
	m.sent = append(m.sent, now)
	m.sent = slices.DeleteFunc(m.sent, func(s sent) bool { return now.at.Sub(s.at) > time.Minute })
	return now.n - m.sent[0].n
}

// clusterDoor is the cluster in the terms of the broker.
type clusterDoor struct{ *works }

// clusterOfBroker is the cluster in the terms of the broker; nil if there is none.
func (d *works) clusterOfBroker() broker.Cluster {
	switch {
	case d.shared != nil:
		return sharedDoor{d}
	case d.member == nil:
		return nil
	}
	return clusterDoor{d}
}

// Members says who is in the cluster.
func (d clusterDoor) Members(ctx context.Context) (api.Cluster, error) {
	out := api.Cluster{Members: []api.Member{}, ClusterStatus: *d.clusterReport()}
	asking, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	members, err := d.member.Members(asking)
	if err != nil {
		out.LastError = err.Error()
		return out, nil
	}
	behind, lag := d.member.relay.Lag()
	for _, m := range members {
		if m.Leader {
			out.Leader = m.Name // the election may hear of it later
		}
		self := m.ID == d.member.Member()
		if self {
			m.Behind, m.Lag = behind, int(lag/time.Second)
		}
		out.Members = append(out.Members, api.Member{
			Name: m.Name, Leader: m.Leader, SeenAt: api.Time{Time: m.SeenAt}, RequestsPerMinute: m.RequestsPerMinute, Share: m.Share,
			LagSeconds: m.Lag, Behind: m.Behind, Self: self,
			Version: m.Version, Differs: d.differs(m),
		})
	}
	return out, nil
}

// Adopt makes etcd as it is now the one that this daemon belongs to.
func (d clusterDoor) Adopt(ctx context.Context, _ int) (api.Cluster, error) {
	asking, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if err := d.member.Probe(asking); err == nil {
		c, err := d.Members(ctx)
		c.Adopted = new(false)
		return c, err
	} else if !errors.Is(err, arbiter.ErrForeign) {
		return api.Cluster{}, &claim.ArbiterError{RetryAfter: troubleEvery, Err: err}
	}
	err := d.member.inbox.Emptied(ctx)
	if err == nil {
		err = d.member.Adopt(asking)
	}
	if err == nil {
		err = d.member.budget.Rest(asking)
	}
	if err == nil {
		d.member.mu.Lock()
		d.member.namesKept = time.Time{} // they are not there any more
		d.member.mu.Unlock()
		d.member.inbox.Restart() // nobody may have noticed that etcd was another one
		wake(d.member.owed)
		err = d.tendCluster(asking)
	}
	if err != nil {
		return api.Cluster{}, &claim.ArbiterError{RetryAfter: troubleEvery, Err: err}
	}
	d.log.Info("etcd was adopted as it is now", "etcd", d.config.Cluster.Etcd)
	c, err := d.Members(ctx)
	c.Adopted = new(true)
	return c, err
}

// clusterReport is what the status says of the cluster; nil without one.
func (d *works) clusterReport() *api.ClusterStatus {
	if d.member == nil {
		return nil
	}
	s := &api.ClusterStatus{Name: d.member.name, Etcd: d.config.Cluster.Etcd}
	if why := d.member.ledger.Trouble(); why != nil {
		s.LastError = why.Error()
	}
	s.Leader, s.Leads = d.member.election.Leader().Name, d.leads()
	s.Share, s.Budget = new(d.member.budget.Share()), int(60*d.live.Load().Notion.Rate)
	_, s.Waiting = d.notion.Load()
	behind, lag := d.member.relay.Lag()
	s.LagSeconds, s.Behind, s.Apart = int(lag/time.Second), behind, d.member.relay.Apart()
	return s
}

// settle is the wait after a claim write: there is none where one claimer is made sure of.
func settle(c config.Config) time.Duration {
	if c.Cluster.Set() || c.Journal.Shared() {
		return 0
	}
	return c.Claim.Settle
}
