package arbiter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Key is the key of the workspace that the parts name, each of which may have any text.
func (e *Etcd) Key(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return e.prefix + strings.Join(escaped, "/")
}

// Parts are those that Key was called with, behind its first ones.
func Parts(key, behind string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, behind+"/")
	if !ok {
		return nil, false
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		whole, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		parts[i] = whole
	}
	return parts, true
}

// Commit carries out one transaction, as the table does: it succeeds if all of when holds, and
// what it answers is of then, or else of otherwise. The error wraps ErrAway, and then it is not
// known whether it was done, or ErrForeign.
func (e *Etcd) Commit(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return e.commit(ctx, when, then, otherwise)
}

// Lease is what keys are bound to that are to be gone after some time, unless Prolong is called.
func (e *Etcd) Lease(ctx context.Context, lasting time.Duration) (clientv3.LeaseID, error) {
	return e.lease(ctx, lasting)
}

// ErrLeaseOver says that a lease has ended.
var ErrLeaseOver = errors.New("the lease is over")

// Prolong has a lease last as long again as it did at first, from now. The error is ErrLeaseOver if it
// has ended.
func (e *Etcd) Prolong(ctx context.Context, id clientv3.LeaseID) error {
	client, err := e.connection()
	if err != nil {
		return err
	}
	switch _, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), id); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%s: %w", e.cluster.where(), ErrLeaseOver)
	case err != nil:
		return e.cluster.away(err)
	}
	return nil
}

// EndLease ends a lease, with what is bound to it. One that is over is no error.
func (e *Etcd) EndLease(ctx context.Context, id clientv3.LeaseID) error {
	client, err := e.connection()
	if err != nil {
		return err
	}
	if _, err := client.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return e.cluster.away(err)
	}
	return nil
}

// Watch tells of changes of keys that begin like that, from a revision on. It ends when ctx
// does, or etcd has no leader; whoever watches begins anew then, with a Commit that reads.
func (e *Etcd) Watch(ctx context.Context, prefix string, from int64) (clientv3.WatchChan, error) {
	client, err := e.connection()
	if err != nil {
		return nil, err
	}
	return e.changes(clientv3.WithRequireLeader(ctx), client, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)), nil
}
