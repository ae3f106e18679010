package arbiter

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// await returns when something at a key, or below a prefix with an option that says so, has
// changed since that revision, or may have. Who reads then learns what, and whether etcd is to
// be believed. The error is that of ctx.
func (e *Etcd) await(ctx context.Context, key string, since int64, options ...clientv3.OpOption) error {
	client, err := e.connection()
	if err != nil {
		return err
	}
	e.mu.Lock()
	settled := e.settled
	e.mu.Unlock()
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := e.changes(watching, client, key, append(options, clientv3.WithRev(since+1))...)
	for {
		select {
		case <-settled: // revisions are another etcd's
			return nil
		case resp, open := <-changes:
			if !open {
				return context.Cause(ctx)
			}
			if len(resp.Events) > 0 || resp.Err() != nil {
				return nil
			}
		}
	}
}
