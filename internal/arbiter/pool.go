package arbiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The budget of a workspace in etcd: budget/slots/N is the run that has slot N, and
// budget/wants/RUN how many it wants. A run is a lease, to which its keys are bound.
func (e *Etcd) slotsKey() string { return e.prefix + "budget/slots/" }

func (e *Etcd) slotKey(n int) string { return e.slotsKey() + strconv.Itoa(n) }

func (e *Etcd) wantsKey() string { return e.prefix + "budget/wants/" }

var _ Pool = (*Etcd)(nil)

// Begin implements Pool.
func (e *Etcd) Begin(ctx context.Context) (string, error) {
	lease, err := e.lease(ctx, SlotTime)
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(int64(lease), 16), nil
}

// leaseOf is the lease that is a run.
func leaseOf(run string) (clientv3.LeaseID, error) {
	id, err := strconv.ParseInt(run, 16, 64)
	return clientv3.LeaseID(id), err
}

// Extend implements Pool.
func (e *Etcd) Extend(ctx context.Context, run string) (Standing, error) {
	lease, err := leaseOf(run)
	if err != nil {
		return Standing{}, err
	}
	client, err := e.connection()
	if err != nil {
		return Standing{}, err
	}
	switch _, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), lease); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return Standing{}, fmt.Errorf("%s: %w", e.cluster.where(), ErrOver)
	case err != nil:
		return Standing{}, e.cluster.away(err)
	}
	resp, err := e.commit(ctx, nil, []clientv3.Op{
		clientv3.OpGet(e.slotsKey(), clientv3.WithPrefix()), clientv3.OpGet(e.wantsKey(), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Slots: make(map[int]Slot), Wants: make(map[string]int)}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if n, err := strconv.Atoi(strings.TrimPrefix(string(kv.Key), e.slotsKey())); err == nil {
			s.Slots[n] = Slot{string(kv.Value), kv.CreateRevision}
		}
	}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if n, err := strconv.Atoi(string(kv.Value)); err == nil {
			s.Wants[strings.TrimPrefix(string(kv.Key), e.wantsKey())] = n
		}
	}
	return s, nil
}

// Change implements Pool.
func (e *Etcd) Change(ctx context.Context, run string, c Change) (bool, error) {
	lease, err := leaseOf(run)
	if err != nil {
		return false, err
	}
	var when []clientv3.Cmp
	then := []clientv3.Op{clientv3.OpPut(e.wantsKey()+run, strconv.Itoa(c.Want), clientv3.WithLease(lease))}
	if c.Want == 0 {
		then[0] = clientv3.OpDelete(e.wantsKey() + run)
	}
	for _, n := range c.Take {
		when = append(when, clientv3.Compare(clientv3.CreateRevision(e.slotKey(n)), "=", 0))
		then = append(then, clientv3.OpPut(e.slotKey(n), run, clientv3.WithLease(lease)))
	}
	for n, s := range c.Give {
		when = append(when, clientv3.Compare(clientv3.CreateRevision(e.slotKey(n)), "=", s.Revision))
		then = append(then, clientv3.OpDelete(e.slotKey(n)))
	}
	resp, err := e.commit(ctx, when, then, nil)
	if err != nil {
		return false, err // also where the lease is over, which Extend finds out
	}
	return resp.Succeeded, nil
}
