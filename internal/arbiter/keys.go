package arbiter

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyTime is how long a request is remembered at least, and keyLeases how often a new lease
// is made for those that come next: they share it.
const (
	keyTime   = 24 * time.Hour
	keyLeases = time.Hour
)

func (e *Etcd) requestKey(row Row) string {
	return e.prefix + "keys/" + url.PathEscape(row.Claim.Agent) + "/" + url.PathEscape(row.Claim.Key)
}

// keyLease is what the keys of requests are bound to.
func (e *Etcd) keyLease(ctx context.Context) (clientv3.LeaseID, error) {
	e.mu.Lock()
	id, made := e.keys, e.keysMade
	e.mu.Unlock()
	if id != 0 && time.Since(made) < keyLeases {
		return id, nil
	}
	id, err := e.lease(ctx, keyTime+keyLeases)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys, e.keysMade = id, time.Now()
	return id, nil
}

// remembering is what a transaction that puts row has to have as a condition and do as well,
// so that its request is remembered. The other member that has the key is returned, if one
// has.
func (e *Etcd) remembering(ctx context.Context, row Row) (when []clientv3.Cmp, then []clientv3.Op, other *Request, err error) {
	if row.Claim.Key == "" {
		return nil, nil, nil, nil
	}
	key := e.requestKey(row)
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(key)}, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	var seen int64
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		var r Request
		if seen = kvs[0].ModRevision; json.Unmarshal(kvs[0].Value, &r) == nil && r.Member != row.Member {
			return nil, nil, &r, nil
		}
	}
	lease, err := e.keyLease(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	value, err := json.Marshal(row.Request())
	if err != nil {
		return nil, nil, nil, err
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", seen)},
		[]clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(lease))}, nil, nil
}

// Forget implements Table.
func (e *Etcd) Forget(ctx context.Context, row Row) error {
	value, err := json.Marshal(row.Request())
	if err != nil {
		return err
	}
	key := e.requestKey(row)
	_, err = e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", string(value))}, []clientv3.Op{clientv3.OpDelete(key)}, nil)
	return err
}
