package mailbox

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"dibs/internal/inbox"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// taken says who has a trigger.
type taken struct {
	Taker   string `json:"taker"`
	Member  string `json:"member"`
	Process string `json:"process,omitempty"`
	// At is when, by the member's own clock, and Of how many were taken together.
	At time.Time `json:"at"`
	Of int       `json:"of"`
	// Count and Told are those of a trigger of available tasks, as it was handed out.
	Count int       `json:"count,omitempty"`
	Told  time.Time `json:"told,omitzero"`

	revision int64
	lease    clientv3.LeaseID
}

// poller is an agent that polls.
type poller struct {
	Finished bool `json:"finished,omitempty"`
}

// agentsBox is what there is of one agent at a revision.
type agentsBox struct {
	revision int64
	poller   poller
	polls    int64 // at which revision that was put; 0 if the agent never polled
	none     bool  // it was told that there are no tasks to claim
	live     []live
	taken    map[string]taken
}

// live is a trigger that is not acknowledged.
type live struct {
	id      string
	kind    inbox.Type
	created int64
}

// look reads what there is of an agent, the texts aside.
func (b *box) look(ctx context.Context, agent string) (a agentsBox, err error) {
	resp, err := b.commit(ctx, nil, []clientv3.Op{
		clientv3.OpGet(b.key("pollers", agent)), b.all(true, "now", "live", agent), b.all(false, "now", "taken", agent),
		clientv3.OpGet(b.key("now", "board")),
	}, nil)
	if err != nil {
		return a, err
	}
	a.revision, a.taken = resp.Header.Revision, make(map[string]taken)
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		a.polls = kv.ModRevision
		if a.poller, err = decode[poller](kv); err != nil {
			return a, err
		}
	}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		a.live = append(a.live, live{b.part(kv.Key, 4), inbox.Type(b.part(kv.Key, 3)), kv.CreateRevision})
	}
	slices.SortFunc(a.live, func(x, y live) int {
		return cmp.Or(cmp.Compare(x.kind.Rank(), y.kind.Rank()), cmp.Compare(x.created, y.created), strings.Compare(x.id, y.id))
	})
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		t, err := decode[taken](kv)
		if err != nil {
			return a, err
		}
		t.revision, t.lease = kv.ModRevision, clientv3.LeaseID(kv.Lease)
		a.taken[b.part(kv.Key, 3)] = t
	}
	for _, kv := range resp.Responses[3].GetResponseRange().Kvs {
		told, err := decode[state](kv)
		if err != nil {
			return a, err
		}
		a.none = !told.Ready
	}
	return a, nil
}

// pending are the triggers that can be taken, in the order in which they are handed out.
func (a agentsBox) pending() []live {
	return slices.DeleteFunc(slices.Clone(a.live), func(l live) bool {
		_, has := a.taken[l.id]
		return has || a.none && l.kind == inbox.TasksAvailable
	})
}

// waiting is what there is for the agent; processes are those of a member.
func (a agentsBox) waiting(member string) (w inbox.Waiting) {
	for _, l := range a.pending() {
		if l.kind == inbox.TasksAvailable {
			w.Available = true
			continue
		}
		w.Pending = true
		w.Count++
	}
	for _, l := range a.live {
		if t, has := a.taken[l.id]; has && t.Member == member && t.Process != "" && !slices.Contains(w.Processes, t.Process) {
			w.Processes = append(w.Processes, t.Process)
		}
	}
	return w
}

// register notes that an agent polls. At its first poll it is told what is available.
func (b *box) register(ctx context.Context, a agentsBox, t inbox.Take) error {
	if a.polls == 0 && t.New != nil {
		if err := t.New(); err != nil {
			return err
		}
	}
	lease, err := b.kept(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(poller{a.poller.Finished || t.Finished})
	if err != nil {
		return err
	}
	key := b.key("pollers", t.Agent)
	then := []clientv3.Op{clientv3.OpPut(key, string(body), clientv3.WithLease(lease))}
	if a.polls == 0 {
		tells := inbox.Available(t.Agent, t.At)
		tells.ID = inbox.NewID(t.Now)
		op, _, err := b.putting(tells, lease)
		if err != nil {
			return err
		}
		then = append(then, op, clientv3.OpPut(b.key("available", t.Agent), tells.ID, clientv3.WithLease(lease)))
	}
	// If it does not hold, another poll was faster; the caller looks again.
	_, err = b.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", a.polls)}, then, nil)
	return err
}

// giveBack has triggers come back that are as they were seen: taken by these.
func (b *box) giveBack(ctx context.Context, agent string, all map[string]taken) error {
	for id, t := range all {
		key := b.key("now", "taken", agent, id)
		_, err := b.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", t.revision)}, []clientv3.Op{clientv3.OpDelete(key)}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// maxTake is how many triggers one transaction takes.
const maxTake = 50

// take takes the given triggers in one transaction, bound to the lease; done is false if
// one of them is not to be had any more.
func (b *box) take(ctx context.Context, agent string, some []live, as taken, count int, lease clientv3.LeaseID) (got []inbox.Trigger, done bool, err error) {
	var when []clientv3.Cmp
	var then []clientv3.Op
	as.Of = len(some)
	for _, l := range some {
		mark := as
		if l.kind != inbox.TasksAvailable {
			mark.Told = time.Time{}
		} else {
			mark.Count = count
		}
		body, err := json.Marshal(mark)
		if err != nil {
			return nil, false, err
		}
		from, to := b.liveKey(agent, l.kind, l.id), b.key("now", "taken", agent, l.id)
		when = append(when, clientv3.Compare(clientv3.CreateRevision(from), "=", l.created), clientv3.Compare(clientv3.CreateRevision(to), "=", 0))
		then = append(then, clientv3.OpPut(to, string(body), clientv3.WithLease(lease)), clientv3.OpGet(from))
	}
	resp, err := b.commit(ctx, when, then, nil)
	if err != nil || !resp.Succeeded {
		return nil, false, err
	}
	as.Count = count
	for i := range some {
		t, err := b.trigger(resp.Responses[2*i+1].GetResponseRange().Kvs[0].Value, as)
		if err != nil {
			return nil, false, err
		}
		got = append(got, t)
	}
	return got, true, nil
}

// has returns what a taker has, as it was handed out.
func (b *box) has(ctx context.Context, agent string, a agentsBox, taker string) (got []inbox.Trigger, err error) {
	for _, l := range a.live {
		mark, taken := a.taken[l.id]
		if !taken || mark.Taker != taker {
			continue
		}
		resp, err := b.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(b.liveKey(agent, l.kind, l.id))}, nil)
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
			t, err := b.trigger(kv.Value, mark)
			if err != nil {
				return nil, err
			}
			got = append(got, t)
		}
	}
	return got, nil
}

// trigger reads a record, which was handed out like that.
func (b *box) trigger(body []byte, as taken) (inbox.Trigger, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return inbox.Trigger{}, err
	}
	t := r.Trigger
	t.Key = r.Key
	if t.Type == inbox.TasksAvailable {
		t.Count, t.At = as.Count, as.Told
	}
	return t, nil
}
