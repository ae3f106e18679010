package arbiter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Memory is where a member remembers the etcd that it belongs to. Meta returns what SetMeta
// stored under a key, "" if nothing was, and Live the claims that have not ended.
type Memory interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
	Live(ctx context.Context) ([]claim.Claim, error)
}

// Etcd is a Table in etcd. It is safe for concurrent use.
type Etcd struct {
	cluster Cluster
	prefix  string // of this workspace's keys, with a slash at its end
	memory  Memory
	run     string // is another one each time that the member starts
	log     *slog.Logger

	connecting sync.Mutex
	client     *clientv3.Client // nil as long as there is none
	reach      *reach           // of the client
	watches    clientv3.Watcher // see changes; nil as long as there is none
	checking   sync.Mutex       // one check of the identity at a time

	mu       sync.Mutex
	identity identity
	checked  bool          // this run has seen that etcd is the one of the identity
	settled  chan struct{} // closed when that becomes another one
	refuses  bool          // etcd answers, and refused what was to be written last, see written
	revision int64
	trace    trace            // of what this member has written
	keys     clientv3.LeaseID // see keyLease
	keysMade time.Time
	requests map[RequestName]Remembered // that this member works on
	// names is the lease of this member's names, 0 for none, and namesBound that all are.
	naming     sync.Mutex
	names      clientv3.LeaseID
	namesMade  time.Time
	namesBound bool
	// announced is what this member has said of itself last.
	announced announced
}

var _ Table = (*Etcd)(nil)

// Open returns the table of a cluster. Etcd need not be there: until it is, the methods of
// the table fail.
func Open(ctx context.Context, c Cluster, m Memory, log *slog.Logger) (*Etcd, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	e := &Etcd{cluster: c, prefix: c.keys(), memory: m, run: rand.Text(), log: log, settled: make(chan struct{})}
	if err := e.recall(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Close ends the connection to etcd.
func (e *Etcd) Close() error {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if e.client == nil {
		return nil
	}
	err := e.client.Close()
	e.client, e.watches = nil, nil
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// connection returns the client, once there is one. If etcd has refused the password of one,
// and the file has another one by now, that is what it goes by.
func (e *Etcd) connection() (*clientv3.Client, error) {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if e.client != nil && e.reach.refused.Load() {
		if password, err := e.cluster.password(); err == nil && password != e.client.Password {
			// What was under way has failed, or does now, as if etcd were away.
			go e.client.Close() // which waits for whoever does not take what it says
			e.client, e.watches = nil, nil
		}
	}
	if e.client == nil {
		over := new(reach)
		client, err := e.cluster.connect(over)
		if err != nil {
			return nil, e.cluster.away(err)
		}
		e.client, e.reach = client, over
	}
	return e.client, nil
}

// The keys of a workspace.
func (e *Etcd) markerKey() string { return e.prefix + "marker" }

func (e *Etcd) tasksKey() string { return e.prefix + "tasks/" }

func (e *Etcd) taskKey(id task.ID) string { return e.tasksKey() + string(id) }

// agentKey begins the keys of the tasks that an agent has: one each, so that they can be
// counted.
func (e *Etcd) agentKey(agent string) string {
	return e.prefix + "agents/" + url.PathEscape(agent) + "/"
}

// commit carries out one transaction, if its conditions hold, and etcd is the one that this
// member knows, as it left it. If not, the responses are those of its else part.
func (e *Etcd) commit(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	var client *clientv3.Client
	var marker string
	var before, trace int64
	for checked := false; !checked; { // it may be adopted meanwhile
		var err error
		if client, err = e.known(ctx); err != nil {
			return nil, err
		}
		e.mu.Lock()
		marker, before, trace, checked = e.identity.Marker, e.revision, e.trace.revision, e.checked
		e.mu.Unlock()
	}
	traced, then := e.traced(trace, then)
	when = slices.Concat([]clientv3.Cmp{clientv3.Compare(clientv3.Value(e.markerKey()), "=", marker)}, traced, when)
	otherwise = append([]clientv3.Op{clientv3.OpGet(e.markerKey()), clientv3.OpGet(e.traceKey())}, otherwise...)
	resp, err := client.Txn(clientv3.WithRequireLeader(ctx)).If(when...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		err = e.cluster.away(err)
	}
	if writes(then) {
		e.written(err)
	}
	if err != nil {
		return nil, err
	}
	if err := e.believe(ctx, marker, resp.Header, before); err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		if err := e.mistrust(ctx, resp, marker, trace, e.run); err != nil {
			return nil, err
		}
		resp.Responses = resp.Responses[2:]
		return resp, nil
	}
	if writes(then) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.identity.Marker == marker {
			e.trace.revision = max(e.trace.revision, resp.Header.Revision)
		}
	}
	return resp, nil
}

// lease is what keys are bound to that are to be gone after some time.
func (e *Etcd) lease(ctx context.Context, lasting time.Duration) (clientv3.LeaseID, error) {
	client, err := e.connection()
	if err != nil {
		return 0, err
	}
	lease, err := client.Grant(clientv3.WithRequireLeader(ctx), int64(math.Ceil(lasting.Seconds())))
	if err != nil {
		err = e.cluster.away(err)
		e.written(err)
		return 0, err
	}
	return lease.ID, nil
}

// revoke ends a lease, with what is bound to it. If that fails, it ends by itself.
func (e *Etcd) revoke(ctx context.Context, id clientv3.LeaseID) {
	client, err := e.connection()
	if id == 0 || err != nil {
		return
	}
	if _, err := client.Revoke(ctx, id); err != nil {
		e.log.Debug("a lease in etcd ends by itself", "error", err)
	}
}

// Take implements Table.
func (e *Etcd) Take(ctx context.Context, row Row, lasting time.Duration, limit int) (grant Grant, err error) {
	value, err := json.Marshal(row)
	if err != nil {
		return Grant{}, err
	}
	lease, err := e.lease(ctx, lasting)
	if err != nil {
		return Grant{}, err
	}
	defer func() {
		if grant.Fence == 0 || err != nil {
			// Also where the answer was lost: a row that was put after all goes with its lease.
			left, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
			defer cancel()
			e.revoke(left, lease)
		}
	}()
	id, agent := row.Claim.Task.ID, row.Claim.Agent
	key := e.taskKey(id)
	put := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(lease))}
	if row.counts() {
		put = append(put, clientv3.OpPut(e.agentKey(agent)+string(id), string(row.Claim.ID), clientv3.WithLease(lease)))
	}
	free := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	for { // until it is decided: what others add meanwhile comes to an end, by the limit or by the key
		when, then, request, other, err := e.remembering(ctx, row)
		switch {
		case err != nil:
			return Grant{}, err
		case other != nil:
			return Grant{Repeated: other}, nil
		}
		when, then = append(when, free), append(then, put...)
		if limit > 0 {
			has, at, held, err := e.count(ctx, agent, id)
			switch {
			case err != nil:
				return Grant{}, err
			case held != nil:
				return granted(0, held, row), nil
			case len(has) >= limit:
				return Grant{Limit: true, Has: e.those(ctx, has)}, nil
			}
			when = append(when, clientv3.Compare(clientv3.CreateRevision(e.agentKey(agent)), "<", at+1).WithPrefix())
		}
		resp, err := e.commit(ctx, when, then, []clientv3.Op{clientv3.OpGet(key)})
		if err != nil {
			e.took(row, request, false, 0)
			return Grant{}, err
		}
		held, err := e.heldOf(resp)
		e.took(row, request, resp.Succeeded, resp.Header.Revision)
		if err != nil || resp.Succeeded || held != nil {
			return granted(e.base()+resp.Header.Revision, held, row), err
		}
	}
}

// granted is what a transaction came to that put row at a revision, or found held in its way.
func granted(revision int64, held *Held, row Row) Grant {
	switch {
	case held == nil:
		return Grant{Fence: revision}
	case held.Claim.ID == row.Claim.ID:
		return Grant{Fence: held.Fence}
	}
	return Grant{Holder: held}
}

// count returns which tasks but one an agent has, at which revision that was, and who had
// that one.
func (e *Etcd) count(ctx context.Context, agent string, except task.ID) (has []task.ID, at int64, held *Held, err error) {
	resp, err := e.commit(ctx, nil, []clientv3.Op{
		clientv3.OpGet(e.agentKey(agent), clientv3.WithPrefix(), clientv3.WithKeysOnly()), clientv3.OpGet(e.taskKey(except)),
	}, nil)
	if err != nil {
		return nil, 0, nil, err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if id := task.ID(strings.TrimPrefix(string(kv.Key), e.agentKey(agent))); id != except {
			has = append(has, id)
		}
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		held, err = e.rowIn(kvs[0])
	}
	return has, resp.Header.Revision, held, err
}

// maxThose is how many rows are read to say what an agent has.
const maxThose = 20

// those returns the rows of tasks, as far as they are still there, to tell somebody of them.
func (e *Etcd) those(ctx context.Context, ids []task.ID) (rows []Held) {
	var get []clientv3.Op
	for _, id := range ids[:min(len(ids), maxThose)] {
		get = append(get, clientv3.OpGet(e.taskKey(id)))
	}
	resp, err := e.commit(ctx, nil, get, nil)
	if err != nil {
		return nil
	}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			if h, err := e.rowIn(kv); err == nil {
				rows = append(rows, *h)
			}
		}
	}
	return rows
}

// heldOf is the row that a transaction found in its way, nil if there was none.
func (e *Etcd) heldOf(resp *clientv3.TxnResponse) (*Held, error) {
	if resp.Succeeded {
		return nil, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil, nil
	}
	return e.rowIn(kvs[0])
}

func (e *Etcd) rowIn(kv *mvccpb.KeyValue) (*Held, error) {
	h := &Held{Fence: e.base() + kv.CreateRevision}
	if err := json.Unmarshal(kv.Value, &h.Row); err != nil {
		return nil, fmt.Errorf("the key %s in etcd is not dibs's: %w: delete it with etcdctl del", kv.Key, err)
	}
	h.Claim.Fence = h.Fence // which is known only once the row is put
	return h, nil
}

// Keep implements Table.
func (e *Etcd) Keep(ctx context.Context, row Row, fence int64, lasting time.Duration) (kept bool, now *Held, err error) {
	value, err := json.Marshal(row)
	if err != nil {
		return false, nil, err
	}
	lease, err := e.lease(ctx, lasting)
	if err != nil {
		return false, nil, err
	}
	key := e.taskKey(row.Claim.Task.ID)
	put := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(lease), clientv3.WithPrevKV())}
	if row.counts() {
		put = append(put, clientv3.OpPut(e.agentKey(row.Claim.Agent)+string(row.Claim.Task.ID), string(row.Claim.ID), clientv3.WithLease(lease)))
	}
	when := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", fence-e.base())}
	resp, err := e.commit(ctx, when, put, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil {
		return false, nil, err // the row may be bound to the new lease or to the old one: both end
	}
	if !resp.Succeeded {
		e.revoke(ctx, lease)
		now, err = e.heldOf(resp)
		return false, now, err
	}
	if before := resp.Responses[0].GetResponsePut().PrevKv; before != nil {
		e.revoke(ctx, clientv3.LeaseID(before.Lease)) // nothing is bound to it any more
	}
	return true, nil, nil
}

// Drop implements Table.
func (e *Etcd) Drop(ctx context.Context, row Row, fence int64) error {
	key := e.taskKey(row.Claim.Task.ID)
	take := []clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrevKV())}
	if row.counts() {
		take = append(take, clientv3.OpDelete(e.agentKey(row.Claim.Agent)+string(row.Claim.Task.ID)))
	}
	resp, err := e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", fence-e.base())}, take, nil)
	if err != nil || !resp.Succeeded {
		return err
	}
	for _, kv := range resp.Responses[0].GetResponseDeleteRange().PrevKvs {
		e.revoke(ctx, clientv3.LeaseID(kv.Lease))
	}
	return nil
}

// Rows implements Table.
func (e *Etcd) Rows(ctx context.Context) ([]Held, error) {
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.tasksKey(), clientv3.WithPrefix())}, nil)
	if err != nil {
		return nil, err
	}
	var rows []Held
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		h, err := e.rowIn(kv)
		if err != nil {
			return nil, err
		}
		rows = append(rows, *h)
	}
	return rows, nil
}

// written notes what came of something that was to be written: an etcd whose quota is used up,
// or whose user may not write any more, goes on answering what is read.
func (e *Etcd) written(err error) {
	_, refused := errors.AsType[*unusable](err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses = refused || e.refuses && err != nil
}

// Probe implements Table. Where etcd refused what was to be written last, it is asked for what it
// would refuse still: to write something under a condition that never holds.
func (e *Etcd) Probe(ctx context.Context) error {
	e.mu.Lock()
	refuses := e.refuses
	e.mu.Unlock()
	var never []clientv3.Cmp
	var write []clientv3.Op
	if refuses {
		never = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.markerKey()), "=", -1)}
		write = []clientv3.Op{clientv3.OpPut(e.markerKey(), "")}
	}
	if _, err := e.commit(ctx, never, write, nil); err != nil {
		return err
	}
	if err := e.keepTrace(ctx); err != nil {
		return err
	}
	return e.remember(ctx)
}
