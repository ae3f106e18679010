package arbiter

import (
	"context"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Shelf has small things in etcd that all members see, by their ids: one of a name for each
// subject. Its revisions only grow, also when another etcd was adopted. It is safe for
// concurrent use. Its errors wrap ErrAway or ErrForeign.
type Shelf struct {
	etcd   *Etcd
	prefix string
}

// Shelf returns the shelf of that name.
func (e *Etcd) Shelf(name string) *Shelf { return &Shelf{e, e.prefix + name + "/"} }

func (s *Shelf) key(id string) string { return s.prefix + url.PathEscape(id) }

// All returns what is on the shelf, and as of which revision.
func (s *Shelf) All(ctx context.Context) (things map[string][]byte, at int64, err error) {
	resp, err := s.etcd.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(s.prefix, clientv3.WithPrefix())}, nil)
	if err != nil {
		return nil, 0, err
	}
	things = make(map[string][]byte)
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if id, err := url.PathUnescape(strings.TrimPrefix(string(kv.Key), s.prefix)); err == nil {
			things[id] = kv.Value
		}
	}
	return things, s.etcd.base() + resp.Header.Revision, nil
}

// Put puts a thing on the shelf for that long, in place of the one of its id if there is one.
// done is false, and nothing was put, if anybody has put anything there since that revision.
func (s *Shelf) Put(ctx context.Context, id string, thing []byte, lasting time.Duration, at int64) (done bool, err error) {
	lease, err := s.etcd.lease(ctx, lasting)
	if err != nil {
		return false, err
	}
	resp, err := s.etcd.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.prefix), "<", at-s.etcd.base()+1).WithPrefix()},
		[]clientv3.Op{clientv3.OpPut(s.key(id), string(thing), clientv3.WithLease(lease), clientv3.WithPrevKV())}, nil)
	switch {
	case err != nil:
		return false, err // the thing may be bound to the new lease or to the old one: both end
	case !resp.Succeeded:
		s.etcd.revoke(ctx, lease)
		return false, nil
	}
	if before := resp.Responses[0].GetResponsePut().PrevKv; before != nil {
		s.etcd.revoke(ctx, clientv3.LeaseID(before.Lease)) // nothing is bound to it any more
	}
	return true, nil
}

// Delete takes a thing off the shelf, if it is there.
func (s *Shelf) Delete(ctx context.Context, id string) error {
	resp, err := s.etcd.commit(ctx, nil, []clientv3.Op{clientv3.OpDelete(s.key(id), clientv3.WithPrevKV())}, nil)
	if err != nil {
		return err
	}
	for _, kv := range resp.Responses[0].GetResponseDeleteRange().PrevKvs {
		s.etcd.revoke(ctx, clientv3.LeaseID(kv.Lease))
	}
	return nil
}

// Await returns when something has changed on the shelf since that revision, or may have. The
// error is that of ctx, or etcd's if there is no connection to it.
func (s *Shelf) Await(ctx context.Context, since int64) error {
	return s.etcd.await(ctx, s.prefix, max(0, since-s.etcd.base()), clientv3.WithPrefix())
}
