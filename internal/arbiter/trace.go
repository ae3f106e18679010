package arbiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A member's trace is a key that it puts together with everything that it writes, in the same
// transaction: its revision is that of what the member wrote last, and its value the
// member's run. All its transactions have the condition that it is there, of this run, and of
// no earlier revision than the last that the member knows of. An etcd that was restored from a
// copy has an older one, however far its revision has come by then.
//
// It is bound to a lease, so that members that do not come back leave nothing behind. A member
// that was away for longer than that finds none, and begins anew: by then whatever it had in
// etcd has ended as well. That is told by the machine's clock, and only where there is none at
// all: one that is there has to be as it is remembered.
func (e *Etcd) traceKey() string { return e.prefix + "traces/" + e.Member() }

const (
	// traceTime is for how long a trace lasts: longer than anything does that a member has.
	traceTime = 90 * 24 * time.Hour
	// traceKeptEvery is how often it is stored when the trace was kept last.
	traceKeptEvery = time.Hour
)

// trace is what a member knows of its trace.
type trace struct {
	revision int64
	lease    clientv3.LeaseID // that of this run is bound to; 0 for none
	kept     time.Time        // last, by the clock on the wall; zero if that is not known
}

// traceOver reports whether so much time has passed that this member's trace may have ended.
func (e *Etcd) traceOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.trace.kept.IsZero() && time.Now().Round(0).Sub(e.trace.kept) >= traceTime
}

// keepTrace makes the trace last for traceTime from now, if it is there.
func (e *Etcd) keepTrace(ctx context.Context) error {
	e.mu.Lock()
	lease := e.trace.lease
	e.mu.Unlock()
	now := time.Now().Round(0) // the clock on the wall, which goes on while the machine is suspended
	if err := e.Prolong(ctx, lease); err != nil {
		if errors.Is(err, ErrLeaseOver) {
			return nil // whatever is asked next finds out what that means
		}
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.trace.lease == lease {
		e.trace.kept = now
	}
	return nil
}

// newTraceLease makes what the trace of this run is bound to, unless an attempt that failed has.
func (e *Etcd) newTraceLease(ctx context.Context) (clientv3.LeaseID, error) {
	e.mu.Lock()
	lease := e.trace.lease
	e.mu.Unlock()
	if lease != 0 && e.Prolong(ctx, lease) == nil {
		return lease, nil
	}
	lease, err := e.lease(ctx, traceTime)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trace.lease = lease
	return lease, nil
}

// traced is what a transaction has as conditions for the trace, and what it puts as well if
// it writes something.
func (e *Etcd) traced(known int64, then []clientv3.Op) ([]clientv3.Cmp, []clientv3.Op) {
	when := []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(e.traceKey()), "=", e.run),
		clientv3.Compare(clientv3.ModRevision(e.traceKey()), ">", known-1),
	}
	if writes(then) {
		then = append(then[:len(then):len(then)], clientv3.OpPut(e.traceKey(), e.run, clientv3.WithIgnoreLease()))
	}
	return when, then
}

func writes(ops []clientv3.Op) bool {
	for _, op := range ops {
		if !op.IsGet() {
			return true
		}
	}
	return false
}

// begin puts the trace of this run, if that of an earlier one is there as it is remembered, or
// has ended.
func (e *Etcd) begin(ctx context.Context, client *clientv3.Client) error {
	e.mu.Lock()
	id, before := e.identity, e.revision
	e.mu.Unlock()
	lease, err := e.newTraceLease(ctx)
	if err != nil {
		return err
	}
	now := time.Now().Round(0)
	put := func(earlier clientv3.Cmp) (*clientv3.TxnResponse, error) {
		resp, err := client.Txn(clientv3.WithRequireLeader(ctx)).
			If(clientv3.Compare(clientv3.Value(e.markerKey()), "=", id.Marker), earlier).
			Then(clientv3.OpPut(e.traceKey(), e.run, clientv3.WithLease(lease), clientv3.WithPrevKV())).
			Else(clientv3.OpGet(e.markerKey()), clientv3.OpGet(e.traceKey())).Commit()
		if err != nil {
			return nil, e.cluster.away(err)
		}
		return resp, e.believe(ctx, id.Marker, resp.Header, before)
	}
	resp, err := put(clientv3.Compare(clientv3.ModRevision(e.traceKey()), ">", id.Trace-1))
	if err == nil && !resp.Succeeded && e.traceOver() {
		resp, err = put(clientv3.Compare(clientv3.CreateRevision(e.traceKey()), "=", 0))
	}
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return e.mistrust(ctx, resp, id.Marker, id.Trace, "")
	}
	if last := resp.Responses[0].GetResponsePut().PrevKv; last != nil && clientv3.LeaseID(last.Lease) != lease {
		e.revoke(ctx, clientv3.LeaseID(last.Lease)) // nothing is bound to it any more
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trace, e.checked = trace{resp.Header.Revision, lease, now}, true
	return nil
}

// mistrust returns why a transaction with the conditions of this member was not carried out,
// by the marker and the trace that begin its answer; nil if these are as they should be. The
// trace may be of any run if run is empty.
func (e *Etcd) mistrust(ctx context.Context, resp *clientv3.TxnResponse, ours string, known int64, run string) error {
	switch kvs := resp.Responses[0].GetResponseRange().Kvs; {
	case len(kvs) == 0:
		return e.foreign("nothing is there of its cluster below " + e.prefix + ", which cluster.prefix begins")
	case string(kvs[0].Value) != ours:
		if by := readMarker(string(kvs[0].Value)).Doubt; by != "" {
			return e.foreign(foundBy(by))
		}
		return e.foreign("below " + e.prefix + ", which cluster.prefix begins, is another cluster")
	}
	kvs := resp.Responses[1].GetResponseRange().Kvs
	switch {
	case len(kvs) == 0 && run != "" && e.traceOver():
		e.mu.Lock()
		e.checked = false
		e.mu.Unlock()
		return fmt.Errorf("%s %w: this member was away for so long that it begins anew there", e.cluster.where(), ErrAway)
	case len(kvs) == 0:
		return e.goneBack(ctx, ours, "nothing is there of what this member wrote")
	case kvs[0].ModRevision < known:
		return e.goneBack(ctx, ours, fmt.Sprintf("of what this member wrote it has nothing after revision %d, and it was at %d before", kvs[0].ModRevision, known))
	case run != "" && string(kvs[0].Value) != run:
		return fmt.Errorf("%s %w: another daemon has joined as the same member since, with a copy of this one's state directory: stop both, delete the copy, and start the other one again",
			e.cluster.where(), ErrForeign)
	}
	return nil
}

func foundBy(member string) string { return "member " + member + " found that it has gone back" }

// goneBack is foreign for an etcd that has lost something. It is written down there, so that
// members that did not see what it has lost do not believe it either.
func (e *Etcd) goneBack(ctx context.Context, ours, why string) error {
	if client, err := e.connection(); err == nil {
		doubted := readMarker(ours)
		doubted.Doubt = e.cluster.Name
		_, err = client.Txn(clientv3.WithRequireLeader(ctx)).
			If(clientv3.Compare(clientv3.Value(e.markerKey()), "=", ours)).
			Then(clientv3.OpPut(e.markerKey(), doubted.String())).Commit()
		if err != nil {
			e.log.Debug("the others are not told that etcd has gone back", "error", err)
		}
	}
	return e.foreign(why)
}
