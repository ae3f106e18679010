package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/keylock"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Journal is the member's own record: what is stored there is owed to the cluster's inbox.
type Journal interface {
	AddTriggers(context.Context, ...inbox.Trigger) (added int, err error)
	Send(ctx context.Context, message claim.Event, triggers ...inbox.Trigger) error
	TriggerAgents(ctx context.Context, ids []string) (map[string]string, error)
	AckTriggers(ctx context.Context, agent string, ids []string) (unknown []string, err error)
	Offers(context.Context) ([]inbox.Offer, error)
	EndOffer(ctx context.Context, id task.ID, news ...inbox.Trigger) error
	Known(context.Context) ([]string, error)

	// Unshared returns triggers that are owed, and those taken before then that were never
	// shared; Shared notes that they are in etcd, and Address puts one for each agent in the
	// place of one for a group.
	Unshared(ctx context.Context, before time.Time, limit int) ([]inbox.Trigger, error)
	Shared(ctx context.Context, at time.Time, ids ...string) error
	Address(ctx context.Context, group inbox.Trigger, agents []string) error
	// KeepShared stores copies of what is in etcd.
	KeepShared(ctx context.Context, at time.Time, triggers ...inbox.Trigger) error
	// InShared returns what is in etcd, as far as is known, and DoneShared notes what is not
	// there any more. ShareAgain has all that is there owed again.
	InShared(context.Context) ([]string, error)
	DoneShared(ctx context.Context, ids ...string) error
	ShareAgain(context.Context) error
	// Acknowledged returns those of the triggers that are known to be acknowledged.
	Acknowledged(ctx context.Context, ids ...string) ([]string, error)
	// Acknowledgements that are owed.
	OweAcks(ctx context.Context, at time.Time, agent string, ids ...string) error
	OwedAcks(ctx context.Context, limit int) (map[string][]string, error)
	AcksDone(ctx context.Context, ids ...string) error
	Owed(context.Context) (int, error)
}

// Config is what an Inbox is made of. All but Owes and Log is required.
type Config struct {
	Etcd    *arbiter.Etcd
	Journal Journal
	// Trouble returns why etcd cannot be used, as far as is known; nil if it can.
	Trouble func() error
	// Keep is for how long it is remembered what was told, and Visibility for how long a
	// trigger that was taken may stay unacknowledged.
	Keep       func() time.Duration
	Visibility time.Duration
	// Orphaned is for how long a process keeps what it took once its member is gone; 0 for
	// two minutes.
	Orphaned time.Duration
	// Lives reports whether a process, as inbox.Take names it, is alive.
	Lives func(process string) bool
	// News is called when there may be something for who polls here, and Offered when offers
	// have changed. They must not block, nor call the Inbox.
	News, Offered func()
	// Owes, if set, is called when there may be something that Push is to pass on which it
	// was not asked to. It must not block, nor call the Inbox.
	Owes func()
	Log  *slog.Logger
}

// Inbox is the inbox of a cluster, at one of its members. It is safe for concurrent use. Run
// and Tend keep it going.
//
// What needs an answer of etcd fails with a *claim.ArbiterError while that cannot be used.
type Inbox struct {
	Config
	box     *box
	agents  keylock.Locks[string] // the polls of an agent here do not race in etcd
	pushing sync.Mutex
	board   teller
	restart chan struct{}

	mu        sync.Mutex
	following bool // Run knows of every change
	offers    map[task.ID]offer
	offersAt  int64 // the revision as of which they are known
	waits     map[string]wait
	changed   map[string]int64 // the latest revision at which something changed of an agent
	anything  int64            // likewise, of all agents
	handed    map[string]handed
	polled    map[string]time.Time // when pollers were put last
	failed    map[string][]clientv3.LeaseID
	returns   map[string]bool // takers whose triggers come back
	holds     map[clientv3.LeaseID]hold
	listens   map[string]listening
	listeners map[listener]bool
	known     []string
	leads     leads
}

// wait is what there was for an agent at a revision.
type wait struct {
	inbox.Waiting
	revision int64
	at       time.Time
}

// handed is who was given a trigger here, and when.
type handed struct {
	agent string
	at    time.Time
}

// New returns an inbox.
func New(c Config) *Inbox {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Owes == nil {
		c.Owes = func() {}
	}
	if c.Orphaned == 0 {
		c.Orphaned = processTime
	}
	return &Inbox{
		Config: c, box: &box{etcd: c.Etcd, keep: c.Keep}, restart: make(chan struct{}, 1),
		offers: make(map[task.ID]offer), waits: make(map[string]wait), changed: make(map[string]int64),
		handed: make(map[string]handed), polled: make(map[string]time.Time), failed: make(map[string][]clientv3.LeaseID),
		returns: make(map[string]bool), holds: make(map[clientv3.LeaseID]hold), listens: make(map[string]listening), listeners: make(map[listener]bool),
	}
}

const (
	askTime    = 2 * time.Second // how long etcd is waited for
	retryAfter = 5 * time.Second // when to try again what it did not answer
)

// ask lets do ask etcd. While it is known that it cannot be used, do is not called. What is
// under way is not cut short by a caller who goes away: whether it was done would not be known.
func (in *Inbox) ask(ctx context.Context, do func(context.Context) error) error {
	err := in.Trouble()
	if err == nil {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		err = do(asking)
		if !errors.Is(err, arbiter.ErrAway) && !errors.Is(err, arbiter.ErrForeign) {
			return err
		}
	}
	return &claim.ArbiterError{RetryAfter: retryAfter, Err: fmt.Errorf("the cluster's inbox cannot be asked: %w; try again later", err)}
}

func away(err error) bool {
	_, ok := errors.AsType[*claim.ArbiterError](err)
	return ok
}

// processTime is what Config.Orphaned is by default.
const processTime = 2 * time.Minute

// registerEvery is how often it is noted anew that an agent polls.
const registerEvery = 24 * time.Hour

// TakeTriggers hands out triggers, each to one poll, wherever that is. It may be fewer than
// asked for.
func (in *Inbox) TakeTriggers(ctx context.Context, t inbox.Take) (got []inbox.Trigger, err error) {
	unlock, err := in.agents.Lock(ctx, t.Agent)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for done := false; !done; { // until it is decided: each turn that fails another poll has won
		err = in.ask(ctx, func(ctx context.Context) error {
			if err := in.undo(ctx, t.Agent); err != nil {
				return err
			}
			got, done, err = in.take(ctx, t)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := in.hearOf(ctx, got); err != nil {
		in.Log.Debug("an offer is known here only a little later", "error", err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waits, t.Agent)
	for _, trigger := range got {
		in.handed[trigger.ID] = handed{t.Agent, time.Now()}
	}
	return got, nil
}

// take is one turn of TakeTriggers, with the agent locked.
func (in *Inbox) take(ctx context.Context, t inbox.Take) (got []inbox.Trigger, done bool, err error) {
	a, err := in.box.look(ctx, t.Agent)
	if err != nil {
		return nil, false, err
	}
	in.mu.Lock()
	last := in.polled[t.Agent]
	in.mu.Unlock()
	if a.polls == 0 || t.Finished && !a.poller.Finished || time.Since(last) > registerEvery {
		if err := in.box.register(ctx, a, t); err != nil {
			return nil, false, err
		}
		in.mu.Lock()
		in.polled[t.Agent] = time.Now()
		in.mu.Unlock()
		return nil, false, nil
	}
	if got, err := in.box.has(ctx, t.Agent, a, t.Taker); err != nil || len(got) > 0 {
		return got, true, err
	}
	gone := make(map[string]taken)
	for id, by := range a.taken {
		if by.Member == in.Etcd.Member() && slices.Contains(t.Gone, by.Process) {
			gone[id] = by
		}
	}
	if len(gone) > 0 {
		return nil, false, in.box.giveBack(ctx, t.Agent, gone)
	}
	some := slices.DeleteFunc(a.pending(), func(l live) bool { return l.kind == inbox.TasksAvailable && t.Available == 0 })
	most := maxTake
	if t.Limit > 0 {
		most = min(most, t.Limit)
	}
	if some = some[:min(most, len(some))]; len(some) == 0 {
		return nil, true, nil
	}
	return in.takeSome(ctx, t, some)
}

// takeSome takes these triggers, if they are still to be had.
func (in *Inbox) takeSome(ctx context.Context, t inbox.Take, some []live) (got []inbox.Trigger, done bool, err error) {
	lasting := t.Visibility
	if t.Process != "" {
		lasting = min(lasting, in.Orphaned)
	}
	lease, err := in.Etcd.Lease(ctx, lasting)
	if err != nil {
		return nil, false, err
	}
	as := taken{Taker: t.Taker, Member: in.Etcd.Member(), Process: t.Process, At: t.Now, Told: t.At}
	got, done, err = in.box.take(ctx, t.Agent, some, as, t.Available, lease)
	switch {
	case err != nil: // they may be taken, and nobody hears of it
		in.mu.Lock()
		in.failed[t.Agent] = append(in.failed[t.Agent], lease)
		in.mu.Unlock()
	case !done:
		_ = in.Etcd.EndLease(ctx, lease)
	case t.Process != "":
		in.mu.Lock()
		in.holds[lease] = hold{agent: t.Agent, process: t.Process, until: time.Now().Add(t.Visibility), prolonged: time.Now(), lasts: lasting}
		in.mu.Unlock()
	}
	return got, done, err
}

// undo ends the takes of an agent of which it is not known whether they came to be. The agent
// is locked.
func (in *Inbox) undo(ctx context.Context, agent string) error {
	in.mu.Lock()
	leases := in.failed[agent]
	in.mu.Unlock()
	for i, lease := range leases {
		if err := in.Etcd.EndLease(ctx, lease); err != nil {
			in.mu.Lock()
			in.failed[agent] = leases[i:]
			in.mu.Unlock()
			return err
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.failed, agent)
	return nil
}

// ReturnTriggers has what a poll took come back at once: nobody got its answer. While etcd is
// away, that waits.
func (in *Inbox) ReturnTriggers(ctx context.Context, taker string) error {
	in.mu.Lock()
	in.returns[taker] = true
	in.mu.Unlock()
	err := in.ask(ctx, in.giveBack)
	if away(err) {
		return nil
	}
	return err
}

// giveBack has what comes back come back.
func (in *Inbox) giveBack(ctx context.Context) error {
	in.mu.Lock()
	n := len(in.returns)
	in.mu.Unlock()
	if n == 0 {
		return nil
	}
	kvs, err := in.box.rows(ctx, false, "now", "taken")
	if err != nil {
		return err
	}
	in.mu.Lock()
	takers := in.returns
	in.returns = make(map[string]bool)
	in.mu.Unlock()
	for _, kv := range kvs {
		t, err := decode[taken](kv)
		if err == nil && takers[t.Taker] {
			t.revision = kv.ModRevision
			err = in.box.giveBack(ctx, in.box.part(kv.Key, 2), map[string]taken{in.box.part(kv.Key, 3): t})
		}
		if err != nil {
			in.mu.Lock()
			for taker := range takers {
				in.returns[taker] = true
			}
			in.mu.Unlock()
			return err
		}
	}
	return nil
}

// waitsFor is how long what is waiting for an agent is known without asking again.
const waitsFor = 15 * time.Second

// Waiting returns what there is for an agent.
func (in *Inbox) Waiting(ctx context.Context, agent string) (inbox.Waiting, error) {
	in.mu.Lock()
	w, ok := in.waits[agent]
	in.mu.Unlock()
	if ok && time.Since(w.at) < waitsFor && in.Trouble() == nil {
		return w.Waiting, nil
	}
	var a agentsBox
	err := in.ask(ctx, func(ctx context.Context) (err error) {
		a, err = in.box.look(ctx, agent)
		return err
	})
	if err != nil {
		return inbox.Waiting{}, err
	}
	w = wait{a.waiting(in.Etcd.Member()), a.revision, time.Now()}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.following && in.changed[agent] <= a.revision && in.anything <= a.revision {
		in.waits[agent] = w
	}
	return w.Waiting, nil
}

// AddTriggers stores triggers, but those that were stored here before, and returns how many.
// They are for others as soon as they are pushed.
func (in *Inbox) AddTriggers(ctx context.Context, triggers ...inbox.Trigger) (added int, err error) {
	return in.Journal.AddTriggers(ctx, triggers...)
}

// Send stores a message, which is owed to the mesh log, and its triggers. Who is known only to
// the cluster is told with all, too.
func (in *Inbox) Send(ctx context.Context, message claim.Event, triggers ...inbox.Trigger) error {
	if message.Holder == inbox.Everybody {
		triggers = append(slices.Clone(triggers), inbox.Trigger{
			Type: inbox.Message, Agent: inbox.Everybody, At: message.At, From: cmp.Or(message.Agent, message.By), Text: message.Detail, Key: inbox.MessageKey(message.ID),
		})
	}
	return in.Journal.Send(ctx, message, triggers...)
}

// Known returns the agents that poll or have a claim anywhere in the cluster; some more than
// once. While etcd is away, those of when it was not count.
func (in *Inbox) Known(ctx context.Context) ([]string, error) {
	names, err := in.Journal.Known(ctx)
	if err != nil {
		return nil, err
	}
	err = in.ask(ctx, func(ctx context.Context) error {
		_, err := in.everybody(ctx)
		return err
	})
	if err != nil && !away(err) {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return append(names, in.known...), nil
}

// everybody are the agents that poll, lead, or have a claim in the cluster.
func (in *Inbox) everybody(ctx context.Context) ([]string, error) {
	resp, err := in.box.commit(ctx, nil, []clientv3.Op{
		in.box.all(true, "pollers"), in.box.all(true, "leads"),
		clientv3.OpGet(in.Etcd.Key("agents")+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(
		in.box.names(resp.Responses[0].GetResponseRange().Kvs, 1),
		in.box.names(resp.Responses[1].GetResponseRange().Kvs, 1))
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		if parts, ok := arbiter.Parts(string(kv.Key), in.Etcd.Key("agents")); ok {
			names = append(names, parts[0])
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.known = names
	return names, nil
}

// Owed is how many triggers and acknowledgements etcd has yet to get from here.
func (in *Inbox) Owed(ctx context.Context) (int, error) { return in.Journal.Owed(ctx) }
