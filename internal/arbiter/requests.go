package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyTime is how long a request is remembered at least, and keyLeases how often a new lease
// is made for those that come next: they share it.
const (
	keyTime   = 24 * time.Hour
	keyLeases = time.Hour
)

// RequestName is what tells requests with idempotency keys apart in a cluster.
type RequestName struct {
	// Owner is whose key it is: see OfAgent.
	Owner string `json:"owner"`
	Key   string `json:"key"`
}

// OfAgent is the owner of the keys of requests that are made in an agent's name.
func OfAgent(agent string) string { return "agent " + agent }

// Request is what the members remember of a request with an idempotency key: who works on it,
// and what it was answered.
type Request struct {
	// Member is the id of the member that works on it, or has answered it; empty if nobody
	// does, and whoever is asked next goes on with it. Name is what that member is called.
	Member string `json:"member,omitempty"`
	Name   string `json:"name,omitempty"`
	// Run tells a member's run from its earlier ones.
	Run string `json:"run,omitempty"`
	// UID is whose request it is there.
	UID int `json:"uid,omitempty"`
	// Fingerprint tells it from others; empty for a claim that was made without a request.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Stays is set if nobody but its member may go on with it.
	Stays bool `json:"stays,omitempty"`
	// Note is of what was done for it, for whoever goes on with it.
	Note string `json:"note,omitempty"`
	// Agent, Claim and Task are those of the claim that was made for it, if one was.
	Agent string   `json:"agent,omitempty"`
	Claim claim.ID `json:"claim,omitempty"`
	Task  task.ID  `json:"task,omitempty"`
	// Status is what it was answered, as of HTTP; 0 for nothing yet. Body is empty also if it
	// is too long to be passed on.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
}

// Request is that of the row's claim.
func (r Row) Request() Request {
	return Request{Member: r.Member, Name: r.Claim.Member, Agent: r.Claim.Agent, Claim: r.Claim.ID, Task: r.Claim.Task.ID}
}

// Remembered is a request as etcd has it.
type Remembered struct {
	Request
	// Revision is at which it was put last.
	Revision int64
	// Gone is set if its member was not heard of lately.
	Gone bool
}

func (e *Etcd) requestKey(n RequestName) string {
	return e.prefix + "requests/" + url.PathEscape(n.Owner) + "/" + url.PathEscape(n.Key)
}

// begunKey begins the keys of the requests that a member has begun.
func (e *Etcd) begunKey(member string) string { return e.prefix + "begun/" + member + "/" }

func (e *Etcd) begunName(n RequestName) string {
	return url.PathEscape(n.Owner) + "/" + url.PathEscape(n.Key)
}

// requestOf names the request that row's claim is made for.
func requestOf(row Row) RequestName {
	return RequestName{OfAgent(row.Claim.Agent), row.Claim.Key}
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

// forgetLease has the next key get a new lease: etcd does not know the one there is.
func (e *Etcd) forgetLease() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys = 0
}

// PutRequest remembers a request if what is remembered of it now was put at that revision; 0
// if nothing is. If gone is not empty, that member must not have been heard of lately. If it
// was not put, the error is nil, and now is what is remembered; nil if nothing is.
func (e *Etcd) PutRequest(ctx context.Context, n RequestName, r Request, at int64, gone string) (put bool, now *Remembered, err error) {
	value, err := json.Marshal(r)
	if err != nil {
		return false, nil, err
	}
	key := e.requestKey(n)
	lease, err := e.keyLease(ctx)
	if err != nil {
		return false, nil, err
	}
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", at)}
	if gone != "" {
		when = append(when, clientv3.Compare(clientv3.CreateRevision(e.membersKey()+gone), "=", 0))
	}
	then := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(lease))}
	mine := e.begunKey(e.Member()) + e.begunName(n)
	if r.Member == e.Member() && r.Status == 0 {
		then = append(then, clientv3.OpPut(mine, "", clientv3.WithLease(lease)))
	} else {
		then = append(then, clientv3.OpDelete(mine))
	}
	resp, err := e.commit(ctx, when, then, e.lookAt(key))
	if err != nil {
		e.knows(n, nil) // it may have been put
		if strings.Contains(err.Error(), "lease not found") {
			e.forgetLease()
		}
		return false, nil, err
	}
	if !resp.Succeeded {
		now, err = e.remembered(resp)
		return false, now, err
	}
	e.knows(n, &Remembered{Request: r, Revision: resp.Header.Revision})
	return true, nil, nil
}

// LookRequest returns what is remembered of a request; nil if nothing is.
func (e *Etcd) LookRequest(ctx context.Context, n RequestName) (*Remembered, error) {
	resp, err := e.commit(ctx, nil, e.lookAt(e.requestKey(n)), nil)
	if err != nil {
		return nil, err
	}
	return e.remembered(resp)
}

// lookAt reads what is remembered under a key, and who is in the cluster.
func (e *Etcd) lookAt(key string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(key), clientv3.OpGet(e.membersKey(), clientv3.WithPrefix(), clientv3.WithKeysOnly())}
}

func (e *Etcd) remembered(resp *clientv3.TxnResponse) (*Remembered, error) {
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil, nil
	}
	r, err := requestIn(kvs[0])
	if err != nil {
		return nil, err
	}
	r.Gone = r.Member != e.Member()
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if string(kv.Key) == e.membersKey()+r.Member {
			r.Gone = false
		}
	}
	return r, nil
}

func requestIn(kv *mvccpb.KeyValue) (*Remembered, error) {
	r := &Remembered{Revision: kv.ModRevision}
	if err := json.Unmarshal(kv.Value, &r.Request); err != nil {
		return nil, fmt.Errorf("the key %s in etcd is not dibs's: %w: delete it with etcdctl del", kv.Key, err)
	}
	return r, nil
}

// ForgetRequest forgets a request if what is remembered of it was put at that revision. If
// not, now is what is remembered; nil if nothing is.
func (e *Etcd) ForgetRequest(ctx context.Context, n RequestName, at int64) (now *Remembered, err error) {
	key := e.requestKey(n)
	e.knows(n, nil)
	resp, err := e.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", at)},
		[]clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(e.begunKey(e.Member()) + e.begunName(n))}, e.lookAt(key))
	if err != nil || resp.Succeeded {
		return nil, err
	}
	return e.remembered(resp)
}

// BegunRequests names the requests that this member has begun, and not answered.
func (e *Etcd) BegunRequests(ctx context.Context) ([]RequestName, error) {
	prefix := e.begunKey(e.Member())
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())}, nil)
	if err != nil {
		return nil, err
	}
	var names []RequestName
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		owner, key, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
		o, oerr := url.PathUnescape(owner)
		k, kerr := url.PathUnescape(key)
		if oerr == nil && kerr == nil {
			names = append(names, RequestName{o, k})
		}
	}
	return names, nil
}

// AwaitRequest returns when what is remembered of a request has changed since that revision,
// or may have.
func (e *Etcd) AwaitRequest(ctx context.Context, n RequestName, since int64) error {
	return e.await(ctx, e.requestKey(n), since)
}

// knows notes what is remembered of a request that this member works on.
func (e *Etcd) knows(n RequestName, r *Remembered) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r == nil || r.Member != e.identity.Member || r.Status != 0 {
		delete(e.requests, n)
		return
	}
	if e.requests == nil {
		e.requests = make(map[RequestName]Remembered)
	}
	e.requests[n] = *r
}

// Working returns what is remembered of a request that this member works on; ok is false if
// it does not.
func (e *Etcd) Working(n RequestName) (r Remembered, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok = e.requests[n]
	return r, ok
}

// remembering is what a transaction that puts row has to have as a condition and do as well,
// so that it is known for which claim its request was made: r is what is remembered then. The
// request is returned as other if another member has it, or it has its answer.
func (e *Etcd) remembering(ctx context.Context, row Row) (when []clientv3.Cmp, then []clientv3.Op, r Request, other *Request, err error) {
	if row.Claim.Key == "" {
		return nil, nil, r, nil, nil
	}
	n := requestOf(row)
	seen, known := e.Working(n)
	if !known {
		now, err := e.LookRequest(ctx, n)
		switch {
		case err != nil:
			return nil, nil, r, nil, err
		case now != nil && (now.Member != row.Member || now.Status != 0):
			return nil, nil, r, &now.Request, nil
		case now != nil:
			seen = *now
		}
	}
	lease, err := e.keyLease(ctx)
	if err != nil {
		return nil, nil, r, nil, err
	}
	r = seen.Request
	r.Member, r.Agent, r.Claim, r.Task = row.Member, row.Claim.Agent, row.Claim.ID, row.Claim.Task.ID
	value, err := json.Marshal(r)
	if err != nil {
		return nil, nil, r, nil, err
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.requestKey(n)), "=", seen.Revision)},
		[]clientv3.Op{clientv3.OpPut(e.requestKey(n), string(value), clientv3.WithLease(lease))}, r, nil, nil
}

// took notes what came of a transaction that had what remembering said.
func (e *Etcd) took(row Row, r Request, done bool, revision int64) {
	if row.Claim.Key == "" {
		return
	}
	if n := requestOf(row); done && r.Fingerprint != "" {
		e.knows(n, &Remembered{Request: r, Revision: revision})
	} else {
		e.knows(n, nil)
	}
}

// Forget implements Table. A request that the member works on goes on without the claim.
func (e *Etcd) Forget(ctx context.Context, row Row) error {
	n := requestOf(row)
	now, err := e.LookRequest(ctx, n)
	if err != nil || now == nil || now.Member != row.Member || now.Claim != row.Claim.ID || now.Status != 0 {
		return err
	}
	if now.Fingerprint == "" {
		_, err = e.ForgetRequest(ctx, n, now.Revision)
		return err
	}
	r := now.Request
	r.Agent, r.Claim, r.Task = "", "", ""
	_, _, err = e.PutRequest(ctx, n, r, now.Revision, "")
	return err
}
