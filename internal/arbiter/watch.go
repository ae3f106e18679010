package arbiter

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// changes watches keys as the client does.
//
// Watches share a stream, which goes by what etcd had handed out for the password when it was
// opened. Once that has ended, what is watched there goes on to be told, and nothing else can be
// watched, although all other requests have something newer. So that is watched on another one.
func (e *Etcd) changes(ctx context.Context, client *clientv3.Client, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for again := false; ; again = true {
			watcher, refused := e.watcher(client), false
			for resp := range watcher.Watch(ctx, key, options...) {
				if refused = !again && outdated(resp.Err()); refused {
					break
				}
				select {
				case out <- resp:
				case <-ctx.Done():
					return
				}
			}
			if !refused {
				return
			}
			e.leave(watcher)
		}
	}()
	return out
}

// outdated reports whether etcd does not know any more by what somebody has shown to be a user.
func outdated(err error) bool {
	if err == nil {
		return false
	}
	for _, known := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision} {
		if strings.Contains(err.Error(), rpctypes.ErrorDesc(known)) {
			return true
		}
	}
	return false
}

// watcher is by what keys are watched.
func (e *Etcd) watcher(client *clientv3.Client) clientv3.Watcher {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if client != e.client {
		return clientv3.NewWatcher(client) // it has ended, and is not for others
	}
	if e.watches == nil {
		e.watches = clientv3.NewWatcher(client)
	}
	return e.watches
}

// leave has nothing more be watched by a watcher. What is goes on.
func (e *Etcd) leave(watcher clientv3.Watcher) {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if e.watches == watcher {
		e.watches = nil
	}
}
