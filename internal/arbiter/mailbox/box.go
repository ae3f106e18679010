package mailbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"dibs/internal/arbiter"
	"dibs/internal/inbox"
	"dibs/internal/task"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// box is the inbox in etcd. Its keys, below inbox/:
//
//	now/live/AGENT/TYPE/ID   a trigger that is not acknowledged
//	now/taken/AGENT/ID       who has taken it, if somebody has
//	now/offers/TASK          an offer that waits for its answer
//	now/listening/AGENT/MEMBER   who polled there a moment ago
//	now/board                whether it was told that there are tasks to claim
//	ids/ID                   whose trigger that is, or was, and of which type
//	told/AGENT/KEY           the id of the trigger that told of something
//	pollers/AGENT            who polls
//	leads/AGENT/MEMBER       who is told what is finished, by which member's configuration
//	available/AGENT          the id of the last trigger that told that there are tasks
//	board/TASK               what was told of a task
type box struct {
	etcd *arbiter.Etcd
	keep func() time.Duration

	mu    sync.Mutex
	lease clientv3.LeaseID // see kept
	made  time.Time
}

func (b *box) key(parts ...string) string {
	return b.etcd.Key(append([]string{"inbox"}, parts...)...)
}

func (b *box) liveKey(agent string, t inbox.Type, id string) string {
	return b.key("now", "live", agent, string(t), id)
}

// leaseEvery is how often a new lease is made for what is kept: all that comes until then
// shares one.
const leaseEvery = time.Hour

// kept is the lease of what is kept for as long as events are.
func (b *box) kept(ctx context.Context) (clientv3.LeaseID, error) {
	b.mu.Lock()
	id, made := b.lease, b.made
	b.mu.Unlock()
	if id != 0 && time.Since(made) < leaseEvery {
		return id, nil
	}
	id, err := b.etcd.Lease(ctx, b.keep()+leaseEvery)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lease, b.made = id, time.Now()
	return id, nil
}

// commit is that of etcd. What went wrong may be that the lease is over.
func (b *box) commit(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := b.etcd.Commit(ctx, when, then, otherwise)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lease = 0
	}
	return resp, err
}

// rows reads all keys that begin like that.
func (b *box) rows(ctx context.Context, keysOnly bool, parts ...string) ([]*mvccpb.KeyValue, error) {
	resp, err := b.commit(ctx, nil, []clientv3.Op{b.all(keysOnly, parts...)}, nil)
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].GetResponseRange().Kvs, nil
}

func (b *box) all(keysOnly bool, parts ...string) clientv3.Op {
	options := []clientv3.OpOption{clientv3.WithPrefix()}
	if keysOnly {
		options = append(options, clientv3.WithKeysOnly())
	}
	return clientv3.OpGet(b.key(parts...)+"/", options...)
}

// part returns one part of a key below inbox/, "" if it has none such.
func (b *box) part(key []byte, n int) string {
	parts, ok := arbiter.Parts(string(key), b.key())
	if !ok || n >= len(parts) {
		return ""
	}
	return parts[n]
}

// putting is what puts a trigger, unless it is there, was there, or told of something of which
// the agent was told.
func (b *box) putting(t inbox.Trigger, lease clientv3.LeaseID) (op clientv3.Op, size int, err error) {
	body, err := encode(t)
	if err != nil {
		return op, 0, err
	}
	ids := b.key("ids", t.ID)
	when := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(ids), "=", 0)}
	then := []clientv3.Op{
		clientv3.OpPut(b.liveKey(t.Agent, t.Type, t.ID), string(body), clientv3.WithLease(lease)),
		clientv3.OpPut(ids, b.owner(t.Agent, t.Type), clientv3.WithLease(lease)),
	}
	if t.Key != "" && t.Key != t.ID {
		told := b.key("told", t.Agent, t.Key)
		when = append(when, clientv3.Compare(clientv3.CreateRevision(told), "=", 0))
		then = append(then, clientv3.OpPut(told, t.ID, clientv3.WithLease(lease)))
	}
	return clientv3.OpTxn(when, then, nil), len(body), nil
}

// owner says whose a trigger is, and of which type.
func (b *box) owner(agent string, t inbox.Type) string { return string(t) + " " + agent }

func ownerOf(value []byte) (agent string, t inbox.Type) {
	kind, agent, _ := strings.Cut(string(value), " ")
	return agent, inbox.Type(kind)
}

// The most that one transaction does: etcd takes 128 operations and 1.5 MB.
const (
	maxPuts  = 20
	maxBytes = 512 << 10
)

// put puts triggers, as far as they are new, and does what final says together with the last
// of them, at a revision that it returns. If one of the conditions does not hold, that is 0:
// what is left was not done. It returns those that were new.
func (b *box) put(ctx context.Context, when []clientv3.Cmp, triggers []inbox.Trigger, final ...clientv3.Op) (fresh []inbox.Trigger, at int64, err error) {
	lease, err := b.kept(ctx)
	if err != nil {
		return nil, 0, err
	}
	for first := true; first || len(triggers) > 0; first = false {
		var ops []clientv3.Op
		var now []inbox.Trigger
		size := 0
		seen := make(map[[2]string]bool)
		for len(triggers) > 0 && len(ops) < maxPuts && size < maxBytes {
			t := triggers[0]
			if seen[[2]string{t.Agent, t.Key}] && t.Key != "" {
				break // one transaction puts no key twice
			}
			seen[[2]string{t.Agent, t.Key}] = true
			op, n, err := b.putting(t, lease)
			if err != nil {
				return fresh, 0, err
			}
			ops, now, size, triggers = append(ops, op), append(now, t), size+n, triggers[1:]
		}
		if len(triggers) == 0 {
			ops = append(ops, final...)
		}
		resp, err := b.commit(ctx, when, ops, nil)
		if err != nil || !resp.Succeeded {
			return fresh, 0, err
		}
		at = resp.Header.Revision
		for i, t := range now {
			if resp.Responses[i].GetResponseTxn().GetSucceeded() {
				fresh = append(fresh, t)
			}
		}
	}
	return fresh, at, nil
}

// owners returns whose triggers these are, and of which types; unknown ones are left out.
func (b *box) owners(ctx context.Context, ids []string) (map[string][]byte, error) {
	owners := make(map[string][]byte)
	for some := range slices.Chunk(ids, maxPuts) {
		var ops []clientv3.Op
		for _, id := range some {
			ops = append(ops, clientv3.OpGet(b.key("ids", id)))
		}
		resp, err := b.commit(ctx, nil, ops, nil)
		if err != nil {
			return nil, err
		}
		for i, id := range some {
			if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
				owners[id] = kvs[0].Value
			}
		}
	}
	return owners, nil
}

// ack takes an agent's triggers off, and returns those that it never had.
func (b *box) ack(ctx context.Context, agent string, ids []string) (unknown []string, err error) {
	owners, err := b.owners(ctx, ids)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, id := range ids {
		if of, _ := ownerOf(owners[id]); of != agent || owners[id] == nil {
			unknown = append(unknown, id)
		} else if !slices.Contains(known, id) {
			known = append(known, id)
		}
	}
	for some := range slices.Chunk(known, maxPuts) {
		var ops []clientv3.Op
		for _, id := range some {
			_, kind := ownerOf(owners[id])
			ops = append(ops,
				clientv3.OpDelete(b.liveKey(agent, kind, id)),
				clientv3.OpDelete(b.key("now", "taken", agent, id), clientv3.WithPrevKV()))
		}
		resp, err := b.commit(ctx, nil, ops, nil)
		if err != nil {
			return nil, err
		}
		b.endTakes(ctx, resp)
	}
	return unknown, nil
}

// endTakes ends the leases of takes that a transaction has taken off wholly, so that they do
// not pile up. Where that fails, they end by themselves.
func (b *box) endTakes(ctx context.Context, resp *clientv3.TxnResponse) {
	off := make(map[int64]int)
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseDeleteRange().GetPrevKvs() {
			var t taken
			if json.Unmarshal(kv.Value, &t) != nil {
				continue
			}
			if off[kv.Lease]++; off[kv.Lease] == t.Of {
				_ = b.etcd.EndLease(ctx, clientv3.LeaseID(kv.Lease))
			}
		}
	}
}

// offer is an offer as it is stored.
type offer struct {
	inbox.Offer
	Member string `json:"member"` // whose agent made it
	raw    string
}

func (b *box) offerKey(id task.ID) string { return b.key("now", "offers", string(id)) }

// offering is what stores an offer.
func (b *box) offering(o inbox.Offer) (clientv3.Op, error) {
	body, err := json.Marshal(offer{Offer: o, Member: b.etcd.Member()})
	return clientv3.OpPut(b.offerKey(o.Task), string(body)), err
}

// endOffer takes an offer off, and its trigger if nobody has heard of it yet.
func (b *box) endOffer(ctx context.Context, o offer) error {
	key := b.offerKey(o.Task)
	unheard := clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(b.key("now", "taken", o.To, o.ID)), "=", 0)},
		[]clientv3.Op{clientv3.OpDelete(b.liveKey(o.To, inbox.TaskOffered, o.ID))}, nil)
	_, err := b.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", o.raw)}, []clientv3.Op{clientv3.OpDelete(key), unheard}, nil)
	return err
}

func decode[T any](kv *mvccpb.KeyValue) (v T, err error) {
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return v, fmt.Errorf("the key %s in etcd is not dibs's: %w: delete it with etcdctl del", kv.Key, err)
	}
	return v, nil
}

// names returns the distinct texts of one part of keys.
func (b *box) names(kvs []*mvccpb.KeyValue, n int) []string {
	var names []string
	for _, kv := range kvs {
		if name := b.part(kv.Key, n); name != "" && utf8.ValidString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
