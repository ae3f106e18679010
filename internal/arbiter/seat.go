package arbiter

import (
	"context"
	"encoding/json"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The seat of a workspace in etcd: the key leader is bound to the lease of a term, whose
// number is the key's create revision.
func (e *Etcd) leaderKey() string { return e.prefix + "leader" }

var _ Seat = (*Etcd)(nil)

// leader is what the key says.
type leader struct {
	Member string `json:"member"`
	Name   string `json:"name"`
}

func (e *Etcd) termIn(kvs []*mvccpb.KeyValue) Term {
	var l leader
	if len(kvs) == 0 || json.Unmarshal(kvs[0].Value, &l) != nil {
		return Term{}
	}
	return Term{Number: e.base() + kvs[0].CreateRevision, Member: l.Member, Name: l.Name, lease: kvs[0].Lease}
}

// leads is the condition that a term is not over.
func (e *Etcd) leads(term int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "=", term-e.base())
}

// Leader implements Seat.
func (e *Etcd) Leader(ctx context.Context) (Term, error) {
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.leaderKey())}, nil)
	if err != nil {
		return Term{}, err
	}
	return e.termIn(resp.Responses[0].GetResponseRange().Kvs), nil
}

// TakeSeat implements Seat.
func (e *Etcd) TakeSeat(ctx context.Context) (Term, bool, error) {
	value, err := json.Marshal(leader{e.Member(), e.cluster.Name})
	if err != nil {
		return Term{}, false, err
	}
	lease, err := e.lease(ctx, SeatTime)
	if err != nil {
		return Term{}, false, err
	}
	resp, err := e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(e.leaderKey(), string(value), clientv3.WithLease(lease))}, nil)
	if err != nil {
		return Term{}, false, err // if it was put after all, it is found to be this member's
	}
	if !resp.Succeeded {
		e.revoke(ctx, lease)
		return Term{}, false, nil
	}
	return Term{Number: e.base() + resp.Header.Revision, Member: e.Member(), Name: e.cluster.Name, lease: int64(lease)}, true, nil
}

// KeepSeat implements Seat.
func (e *Etcd) KeepSeat(ctx context.Context, t Term) (bool, error) {
	client, err := e.connection()
	if err != nil {
		return false, err
	}
	switch _, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), clientv3.LeaseID(t.lease)); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, nil
	case err != nil:
		return false, e.cluster.away(err)
	}
	// A key can be deleted without its lease, and only a transaction has the marker as its
	// condition.
	resp, err := e.commit(ctx, []clientv3.Cmp{e.leads(t.Number)}, nil, nil)
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// LeaveSeat implements Seat.
func (e *Etcd) LeaveSeat(ctx context.Context, t Term) error {
	_, err := e.commit(ctx, []clientv3.Cmp{e.leads(t.Number)}, []clientv3.Op{clientv3.OpDelete(e.leaderKey())}, nil)
	e.revoke(ctx, clientv3.LeaseID(t.lease))
	return err
}
