package mailbox

import (
	"context"
	"errors"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/task"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// followAgain is how soon it is tried again to follow what happens in etcd.
const followAgain = time.Second

// Run follows what happens in etcd until ctx ends.
func (in *Inbox) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := in.follow(ctx)
		in.forget()
		in.News() // who waits finds out for itself what there is
		if err != nil && ctx.Err() == nil {
			in.Log.Debug("the cluster's inbox is not followed for now", "error", err)
		}
		select {
		case <-time.After(followAgain):
		case <-in.restart:
		case <-ctx.Done():
		}
	}
}

// Restart has Run look at everything anew: etcd may be another one.
func (in *Inbox) Restart() {
	select {
	case in.restart <- struct{}{}:
	default:
	}
}

// forget forgets what is only known as long as every change is.
func (in *Inbox) forget() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.following = false
	clear(in.waits)
	clear(in.changed)
}

// follow reads everything once, and then what changes.
func (in *Inbox) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	revision, err := in.sync(ctx)
	if err != nil {
		return err
	}
	changes, err := in.Etcd.Watch(ctx, in.box.key("now")+"/", revision+1)
	if err != nil {
		return err
	}
	in.News()
	in.Offered()
	in.Owes() // of offers Push knows only now what etcd has
	for {
		select {
		case <-in.restart:
			return nil
		case <-ctx.Done():
			return nil
		case w, ok := <-changes:
			if !ok || w.Err() != nil {
				return errors.Join(errors.New("the watch has ended"), w.Err())
			}
			if err := in.apply(ctx, w.Events); err != nil {
				return err
			}
		}
	}
}

// sync reads which offers there are, what this member has for processes, and which of the
// triggers that it put are there no more.
func (in *Inbox) sync(ctx context.Context) (revision int64, err error) {
	here, err := in.Journal.InShared(ctx)
	if err != nil {
		return 0, err
	}
	var resp *clientv3.TxnResponse
	err = in.ask(ctx, func(ctx context.Context) error {
		resp, err = in.box.commit(ctx, nil, []clientv3.Op{
			in.box.all(false, "now", "offers"), in.box.all(true, "now", "live"), in.box.all(false, "now", "taken"), in.box.all(true, "now", "listening"),
		}, nil)
		return err
	})
	if err != nil {
		return 0, err
	}
	offers := make(map[task.ID]offer)
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		o, err := decode[offer](kv)
		if err != nil {
			return 0, err
		}
		o.raw = string(kv.Value)
		offers[o.Task] = o
	}
	there, of := make(map[string]bool), make(map[string][]string)
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		agent, id := in.box.part(kv.Key, 2), in.box.part(kv.Key, 4)
		there[id], of[agent] = true, append(of[agent], id)
	}
	for agent, ids := range of { // an etcd that was restored has some that were dealt with since
		acked, err := in.Journal.Acknowledged(ctx, ids...)
		if err == nil && len(acked) > 0 {
			err = in.Journal.OweAcks(ctx, time.Now(), agent, acked...)
		}
		if err != nil {
			return 0, err
		}
	}
	var done []string
	for _, id := range here {
		if !there[id] {
			done = append(done, id)
		}
	}
	if err := in.Journal.DoneShared(ctx, done...); err != nil {
		return 0, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		t, err := decode[taken](kv)
		lease := clientv3.LeaseID(kv.Lease)
		if _, known := in.holds[lease]; err != nil || known || t.Member != in.Etcd.Member() || t.Process == "" {
			continue
		}
		// Of an earlier run.
		in.holds[lease] = hold{
			agent: in.box.part(kv.Key, 2), process: t.Process, until: t.At.Add(in.Visibility), lasts: min(in.Visibility, in.Orphaned),
		}
	}
	clear(in.listeners)
	for _, kv := range resp.Responses[3].GetResponseRange().Kvs {
		in.listeners[listener{in.box.part(kv.Key, 2), in.box.part(kv.Key, 3)}] = true
	}
	in.offers, in.offersAt, in.following = offers, resp.Header.Revision, true
	clear(in.waits)
	return resp.Header.Revision, nil
}

// apply takes note of changes.
func (in *Inbox) apply(ctx context.Context, events []*clientv3.Event) error {
	news, offered := false, false
	var done []string
	in.mu.Lock()
	for _, e := range events {
		gone := e.Type == mvccpb.DELETE
		parts, _ := arbiter.Parts(string(e.Kv.Key), in.box.key("now"))
		switch {
		case len(parts) == 4 && parts[0] == "live", len(parts) == 3 && parts[0] == "taken":
			agent := parts[1]
			in.changed[agent] = e.Kv.ModRevision
			if w, ok := in.waits[agent]; ok && w.revision < e.Kv.ModRevision {
				delete(in.waits, agent)
			}
			if gone && parts[0] == "live" {
				done = append(done, parts[3])
			}
			news = news || gone != (parts[0] == "live")
		case len(parts) == 3 && parts[0] == "listening" && gone:
			delete(in.listeners, listener{parts[1], parts[2]})
		case len(parts) == 3 && parts[0] == "listening":
			in.listeners[listener{parts[1], parts[2]}] = true
		case len(parts) == 1 && parts[0] == "board":
			// of all agents
			in.anything = e.Kv.ModRevision
			clear(in.waits)
			news = true
		case len(parts) == 2 && parts[0] == "offers":
			offered = true
			in.offersAt = e.Kv.ModRevision
			delete(in.offers, task.ID(parts[1]))
			if o, err := decode[offer](e.Kv); !gone && err == nil {
				o.raw = string(e.Kv.Value)
				in.offers[o.Task] = o
			}
		}
	}
	in.mu.Unlock()
	if news {
		in.News()
	}
	if offered {
		in.Offered()
	}
	if len(done) == 0 {
		return nil
	}
	return in.Journal.DoneShared(ctx, done...)
}

// hold is what a process of this machine has taken.
type hold struct {
	agent, process string
	until          time.Time
	lasts          time.Duration
	prolonged      time.Time
}

// listening is an agent that polls here.
type listening struct {
	lease     clientv3.LeaseID
	at        time.Time // when it did last
	prolonged time.Time
}

// listener is an agent that polls at a member.
type listener struct{ agent, member string }

// listenTime is for how long an agent that polled counts as one that polls.
const listenTime = 3 * time.Minute

// Listens notes that an agent polls here, so that other members listen for it, too.
func (in *Inbox) Listens(ctx context.Context, agent string) error {
	in.mu.Lock()
	l := in.listens[agent]
	l.at = time.Now()
	in.listens[agent] = l
	in.mu.Unlock()
	if l.lease != 0 && time.Since(l.prolonged) < listenTime/3 {
		return nil
	}
	return in.ask(ctx, func(ctx context.Context) error {
		if l.lease != 0 {
			err := in.Etcd.Prolong(ctx, l.lease)
			if err == nil {
				in.listened(agent, l.lease)
			}
			if !errors.Is(err, arbiter.ErrLeaseOver) {
				return err
			}
		}
		lease, err := in.Etcd.Lease(ctx, listenTime)
		if err != nil {
			return err
		}
		put := clientv3.OpPut(in.box.key("now", "listening", agent, in.Etcd.Member()), "", clientv3.WithLease(lease))
		if _, err := in.box.commit(ctx, nil, []clientv3.Op{put}, nil); err != nil {
			return err
		}
		in.listened(agent, lease)
		return nil
	})
}

func (in *Inbox) listened(agent string, lease clientv3.LeaseID) {
	now := time.Now()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.listens[agent] = listening{lease, now, now}
}

// Listeners returns the agents that poll somewhere, as far as is known, and whether it is at
// other members only.
func (in *Inbox) Listeners() map[string]bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	names := make(map[string]bool)
	for l := range in.listeners {
		elsewhere, known := names[l.agent]
		names[l.agent] = l.member != in.Etcd.Member() && (elsewhere || !known)
	}
	return names
}
