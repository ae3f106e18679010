package mailbox

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"dibs/internal/inbox"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// tellReady stores whether there are tasks to claim, and tells all who poll if there are some
// again. They are told in several transactions, of which the last one stores it; until then
// nobody gets what was put for it. So who is told again, because that was not the end of it, has
// a trigger that waits, and is told nothing.
func (in *Inbox) tellReady(ctx context.Context, ready, tell bool, now time.Time) error {
	t := &in.board
	body, err := json.Marshal(state{Ready: ready})
	if err != nil {
		return err
	}
	key := in.box.key("now", "board")
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", t.state.revision)}
	if ready && tell {
		if err := in.tellPollers(ctx, when, now); err != nil {
			return err
		}
	}
	return in.ask(ctx, func(ctx context.Context) error {
		resp, err := in.box.commit(ctx, when, []clientv3.Op{clientv3.OpPut(key, string(body))}, nil)
		if err != nil {
			return err
		}
		if !resp.Succeeded {
			return errStale
		}
		t.state = state{ready, resp.Header.Revision}
		return nil
	})
}

// tellPollers tells all who poll that there are tasks, however long that takes. The error is
// errStale if one of the conditions does not hold.
func (in *Inbox) tellPollers(ctx context.Context, when []clientv3.Cmp, now time.Time) error {
	var pollers []string
	var last map[string]*mvccpb.KeyValue
	err := in.ask(ctx, func(ctx context.Context) (err error) {
		pollers, last, err = in.box.pollers(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(pollers, maxPuts) {
		err := in.ask(ctx, func(ctx context.Context) error {
			done, err := in.box.available(ctx, when, some, last, now)
			if err == nil && !done {
				return errStale
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pollers returns who polls, and who of them was told last by which trigger that there are tasks.
func (b *box) pollers(ctx context.Context) (agents []string, last map[string]*mvccpb.KeyValue, err error) {
	resp, err := b.commit(ctx, nil, []clientv3.Op{b.all(true, "pollers"), b.all(false, "available")}, nil)
	if err != nil {
		return nil, nil, err
	}
	last = make(map[string]*mvccpb.KeyValue)
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		last[b.part(kv.Key, 1)] = kv
	}
	return b.names(resp.Responses[0].GetResponseRange().Kvs, 1), last, nil
}

// available tells agents, of whom it is known by which triggers they were told last, that there
// are tasks, unless such a trigger waits: who polls where the board is ahead gets that only once
// it is told here that there are some. done is false if one of the conditions does not hold.
func (b *box) available(ctx context.Context, when []clientv3.Cmp, agents []string, last map[string]*mvccpb.KeyValue, now time.Time) (done bool, err error) {
	lease, err := b.kept(ctx)
	if err != nil {
		return false, err
	}
	var ops []clientv3.Op
	for _, agent := range agents {
		t := inbox.Available(agent, now)
		t.ID = inbox.NewID(t.At)
		op, _, err := b.putting(t, lease)
		if err != nil {
			return false, err
		}
		key := b.key("available", agent)
		tells := []clientv3.Op{op, clientv3.OpPut(key, t.ID, clientv3.WithLease(lease))}
		var seen int64
		if kv := last[agent]; kv != nil {
			seen = kv.ModRevision
			waits := []clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(b.liveKey(agent, t.Type, string(kv.Value))), ">", 0),
				clientv3.Compare(clientv3.CreateRevision(b.key("now", "taken", agent, string(kv.Value))), "=", 0),
			}
			tells = []clientv3.Op{clientv3.OpTxn(waits, nil, tells)}
		}
		same := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", seen)}
		ops = append(ops, clientv3.OpTxn(same, tells, nil))
	}
	resp, err := b.commit(ctx, when, ops, nil)
	return err == nil && resp.Succeeded, err
}
