package arbiter

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Wire passes on what a leader has found out to the other members. It keeps what was passed
// on for a while, in the order in which that was done. Positions only grow. Implementations
// are safe for concurrent use, and their errors wrap ErrAway, ErrForeign or ErrForgotten.
type Wire interface {
	// Publish passes on data, of at most MaxPublication bytes, as long as the term of that
	// number is not over; led is false if it is.
	Publish(ctx context.Context, term int64, data []byte) (led bool, err error)
	// Newest returns what was passed on last, nil if nothing was, and the position of now.
	Newest(ctx context.Context) (at int64, data []byte, err error)
	// Follow calls tell with all that is passed on after a position, until ctx ends, which is
	// no error, or it fails.
	Follow(ctx context.Context, after int64, tell func(at int64, data []byte)) error
}

// MaxPublication is how large a publication may be: etcd refuses requests of more than 1.5 MB.
const MaxPublication = 1 << 20

// ErrForgotten says that what was passed on after a position is not kept any more.
var ErrForgotten = errors.New("was forgotten")

// What is passed on is the versions of one key: etcd keeps them until it is compacted, and
// shows them in order to whoever watches.
func (e *Etcd) newsKey() string { return e.prefix + "news" }

var _ Wire = (*Etcd)(nil)

// Publish implements Wire.
func (e *Etcd) Publish(ctx context.Context, term int64, data []byte) (led bool, err error) {
	resp, err := e.commit(ctx, []clientv3.Cmp{e.leads(term)}, []clientv3.Op{clientv3.OpPut(e.newsKey(), string(data))}, nil)
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// Newest implements Wire.
func (e *Etcd) Newest(ctx context.Context) (int64, []byte, error) {
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.newsKey())}, nil)
	if err != nil {
		return 0, nil, err
	}
	var data []byte
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		data = kvs[0].Value
	}
	return e.base() + resp.Header.Revision, data, nil
}

// Follow implements Wire.
func (e *Etcd) Follow(ctx context.Context, after int64, tell func(at int64, data []byte)) error {
	return e.watch(ctx, after, e.newsKey(), nil, func(at int64, events []*clientv3.Event) {
		for _, v := range events {
			if v.Type == clientv3.EventTypePut {
				tell(e.base()+v.Kv.ModRevision, v.Kv.Value)
			}
		}
	})
}

// watch calls tell with all that becomes of a key after a position, until ctx ends.
func (e *Etcd) watch(ctx context.Context, after int64, key string, options []clientv3.OpOption, tell func(at int64, events []*clientv3.Event)) error {
	client, err := e.known(ctx)
	if err != nil {
		return err
	}
	from := after - e.base() + 1
	if from <= 0 { // a position in an etcd that was given up
		return fmt.Errorf("%s: what was passed on after %d %w", e.cluster.where(), after, ErrForgotten)
	}
	e.mu.Lock()
	marker := e.identity.Marker
	e.mu.Unlock()
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	for resp := range e.changes(ctx, client, key, append(options, clientv3.WithRev(from))...) {
		switch err := resp.Err(); {
		case ctx.Err() != nil:
			return nil
		case resp.CompactRevision != 0:
			return fmt.Errorf("%s: what was passed on after %d %w", e.cluster.where(), after, ErrForgotten)
		case err != nil:
			return e.cluster.away(err)
		}
		if err := e.believe(ctx, marker, resp.Header, 0); err != nil {
			return err
		}
		tell(e.base()+resp.Header.Revision, resp.Events)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%s %w: what is watched there ended", e.cluster.where(), ErrAway)
}
