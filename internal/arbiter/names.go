package arbiter

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// namesKey begins the keys of the names that members have given to agents which bring none:
// each is the id of the member that has given it. All of a run's are bound to one lease.
func (e *Etcd) namesKey() string { return e.prefix + "names/" }

func (e *Etcd) nameKey(name string) string { return e.namesKey() + url.PathEscape(name) }

// nameLease is what the names of this run are bound to: made if there is none, or none any
// longer. They last for that long after it was kept last.
func (e *Etcd) nameLease(ctx context.Context, lasting time.Duration) (clientv3.LeaseID, error) {
	e.naming.Lock()
	defer e.naming.Unlock()
	if e.names != 0 {
		return e.names, nil
	}
	id, err := e.lease(ctx, lasting)
	if err == nil {
		e.names, e.namesMade, e.namesBound = id, time.Now(), false
	}
	return id, err
}

// renewNames is after how long a run gets a new lease for its names. What is bound to the old
// one, and forgotten by the member, ends with that.
const renewNames = 24 * time.Hour

// TakeName has this member have a name, unless another one has it.
func (e *Etcd) TakeName(ctx context.Context, name string, lasting time.Duration) (mine bool, err error) {
	lease, err := e.nameLease(ctx, lasting)
	if err != nil {
		return false, err
	}
	key := e.nameKey(name)
	resp, err := e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, e.Member(), clientv3.WithLease(lease))}, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil {
		if strings.Contains(err.Error(), "lease not found") {
			e.forgetNames()
		}
		return false, err
	}
	if resp.Succeeded {
		return true, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	return len(kvs) > 0 && string(kvs[0].Value) == e.Member(), nil
}

// DropName gives up a name that this member has.
func (e *Etcd) DropName(ctx context.Context, name string) error {
	key := e.nameKey(name)
	_, err := e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", e.Member())}, []clientv3.Op{clientv3.OpDelete(key)}, nil)
	return err
}

// KeepNames makes the names of this run last anew. bound is false if they are not all bound
// to one lease: then BindNames has to.
func (e *Etcd) KeepNames(ctx context.Context) (bound bool, err error) {
	client, err := e.connection()
	if err != nil {
		return false, err
	}
	e.naming.Lock()
	id, bound, old := e.names, e.namesBound, time.Since(e.namesMade) > renewNames
	e.naming.Unlock()
	if id == 0 || old {
		e.forgetNames()
		return false, nil
	}
	switch _, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), id); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		e.forgetNames()
		return false, nil
	case err != nil:
		return false, e.cluster.away(err)
	}
	return bound, nil
}

func (e *Etcd) forgetNames() {
	e.naming.Lock()
	defer e.naming.Unlock()
	e.names, e.namesBound = 0, false
}

// BindNames has this member have those of the names that no other member has, and no others,
// all bound to one lease. It returns those that others have.
func (e *Etcd) BindNames(ctx context.Context, names []string, lasting time.Duration) (others []string, err error) {
	lease, err := e.nameLease(ctx, lasting)
	if err != nil {
		return nil, err
	}
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.namesKey(), clientv3.WithPrefix())}, nil)
	if err != nil {
		return nil, err
	}
	type had struct {
		by    string
		lease clientv3.LeaseID
	}
	has := make(map[string]had)
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if name, err := url.PathUnescape(strings.TrimPrefix(string(kv.Key), e.namesKey())); err == nil {
			has[name] = had{string(kv.Value), clientv3.LeaseID(kv.Lease)}
		}
	}
	for _, name := range names {
		key := e.nameKey(name)
		now, there := has[name]
		delete(has, name)
		when := clientv3.Compare(clientv3.Value(key), "=", e.Member())
		switch {
		case there && now.by != e.Member():
			others = append(others, name)
			continue
		case there && now.lease == lease:
			continue
		case !there:
			when = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		}
		put, err := e.commit(ctx, []clientv3.Cmp{when}, []clientv3.Op{clientv3.OpPut(key, e.Member(), clientv3.WithLease(lease))}, nil)
		if err != nil {
			return nil, err
		}
		if !put.Succeeded {
			others = append(others, name)
		}
	}
	for name, now := range has {
		if now.by == e.Member() && now.lease != lease { // of this run's, one may be about to be stored
			if err := e.DropName(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	e.naming.Lock()
	defer e.naming.Unlock()
	e.namesBound = e.names == lease
	return others, nil
}
