package arbiter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// metaIdentity is the key under which a member remembers its identity.
const metaIdentity = "arbiter"

// identity is the etcd that a member belongs to, and who it is there. An etcd that was
// emptied, or restored from a copy, says that tasks are free which somebody has; so it is
// told from the one that is known, by its id, by a marker that is put there once, by its
// revision, which only grows, and by what this member wrote last (see traceKey).
type identity struct {
	// Member is this member's id, for as long as its journal lasts.
	Member string `json:"member"`
	// Cluster is etcd's own id, and Marker all that is in the marker; 0 and empty if none was
	// seen.
	Cluster uint64 `json:"cluster,omitempty,string"`
	Marker  string `json:"marker,omitempty"`
	// Revision is the latest revision that was seen, or a little earlier one, and Trace that
	// of what this member wrote last, likewise.
	Revision int64 `json:"revision,omitempty"`
	Trace    int64 `json:"trace,omitempty"`
	// TraceKept is when that was kept from ending, or a little earlier, by this machine's clock.
	TraceKept time.Time `json:"trace_kept,omitzero"`
	// Adopted is when etcd was adopted, by this machine's clock; zero if it never was.
	Adopted time.Time `json:"adopted,omitzero"`
}

// recall reads what this member remembers, and gives it an id if it has none.
func (e *Etcd) recall(ctx context.Context) error {
	said, err := e.memory.Meta(ctx, metaIdentity)
	if err != nil {
		return err
	}
	if said != "" {
		if err := json.Unmarshal([]byte(said), &e.identity); err != nil {
			return fmt.Errorf("what the journal says of the cluster: %w", err)
		}
	}
	if e.identity.Member != "" {
		return e.recallFences(ctx)
	}
	e.identity.Member = rand.Text()
	return e.store(ctx, e.identity)
}

// recallFences takes note of the revisions at which what is held was granted: all that is
// granted is in the journal before it matters to anybody, and what was seen is stored later.
func (e *Etcd) recallFences(ctx context.Context) error {
	live, err := e.memory.Live(ctx)
	if err != nil {
		return err
	}
	for _, c := range live {
		// From before an etcd was adopted they come to nothing.
		if at := c.Fence - e.base(); e.identity.Trace > 0 && c.Fence > 0 {
			e.identity.Trace = max(e.identity.Trace, at)
		}
	}
	e.identity.Revision = max(e.identity.Revision, e.identity.Trace)
	e.revision, e.trace = e.identity.Revision, trace{revision: e.identity.Trace, kept: e.identity.TraceKept}
	return nil
}

func (e *Etcd) store(ctx context.Context, id identity) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return e.memory.SetMeta(ctx, metaIdentity, string(data))
}

// rememberEvery is by how much the latest revision has grown when it is stored, if this
// member has written nothing.
const rememberEvery = 100

// remember stores the latest revisions, if there is something new.
func (e *Etcd) remember(ctx context.Context) error {
	e.mu.Lock()
	id := e.identity
	id.Revision, id.Trace, id.TraceKept = e.revision, e.trace.revision, e.trace.kept
	wrote, grown := id.Trace > e.identity.Trace, id.Revision-e.identity.Revision
	kept := id.TraceKept.Sub(e.identity.TraceKept) >= traceKeptEvery
	e.mu.Unlock()
	if !wrote && !kept && grown < rememberEvery {
		return nil
	}
	if err := e.store(ctx, id); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.identity.Marker == id.Marker {
		e.identity.Revision = max(e.identity.Revision, id.Revision)
		e.identity.Trace = max(e.identity.Trace, id.Trace)
		e.identity.TraceKept = id.TraceKept
	}
	return nil
}

// Member is this member's id.
func (e *Etcd) Member() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.identity.Member
}

// Marker is what tells this cluster from others; empty as long as none was seen.
func (e *Etcd) Marker() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return readMarker(e.identity.Marker).ID
}

// Adopted is when etcd was adopted last, by this machine's clock, also by an earlier run; zero
// if it never was.
func (e *Etcd) Adopted() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.identity.Adopted
}

// marker is what is put into etcd once. The fences of rows are the revisions at which they
// were put, counted from Base: so that they go on to grow when etcd has begun anew. Doubt is
// the name of a member that found that etcd has gone back.
type marker struct {
	ID    string `json:"id"`
	Base  int64  `json:"base,omitempty"`
	Doubt string `json:"doubt,omitempty"`
}

func (m marker) String() string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // there is nothing in it that could fail
	}
	return string(data)
}

// readMarker reads what String wrote; what somebody else did has no base.
func readMarker(s string) (m marker) {
	if s != "" && json.Unmarshal([]byte(s), &m) != nil {
		m = marker{ID: "unreadable"}
	}
	return m
}

// base is from where fences count.
func (e *Etcd) base() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return readMarker(e.identity.Marker).Base
}

// foreign is the error of an etcd that is not the one that is known.
func (e *Etcd) foreign(why string) error {
	return fmt.Errorf("%s %w (%s): it was emptied or restored, or is another one; once it is right, run dibs cluster adopt", e.cluster.where(), ErrForeign, why)
}

// known returns the client once etcd was seen to be the one that is known, or, if none is,
// makes it that one.
func (e *Etcd) known(ctx context.Context) (*clientv3.Client, error) {
	client, err := e.connection()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	checked := e.checked
	e.mu.Unlock()
	if checked {
		return client, nil
	}
	e.checking.Lock()
	defer e.checking.Unlock()
	e.mu.Lock()
	id, checked := e.identity, e.checked
	e.mu.Unlock()
	if checked {
		return client, nil
	}
	if id.Marker == "" {
		if err := e.settle(ctx, client, marker{ID: rand.Text()}, false); err != nil {
			return nil, err
		}
	}
	return client, e.begin(ctx, client)
}

// believe takes note of what the header of an answer says of etcd's identity. before is the
// latest revision that was known when its request was sent, and marker what etcd was then taken
// to be: what answers it may have been adopted as another one since.
func (e *Etcd) believe(ctx context.Context, marker string, h *etcdserverpb.ResponseHeader, before int64) error {
	e.mu.Lock()
	known := e.identity.Cluster
	e.mu.Unlock()
	switch {
	case h.ClusterId != known:
		return e.foreign(fmt.Sprintf("it is cluster %x, and %x is known", h.ClusterId, known))
	case h.Revision < before:
		return e.goneBack(ctx, marker, fmt.Sprintf("it is at revision %d, and was at %d before", h.Revision, before))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.identity.Marker == marker {
		e.revision = max(e.revision, h.Revision)
	}
	return nil
}

// settle makes etcd the one that this member belongs to, with the marker that is there, or
// else that one. A marker from which fences would not go on to grow is replaced, and one that
// is in doubt, if that is meant.
func (e *Etcd) settle(ctx context.Context, client *clientv3.Client, ours marker, meant bool) error {
	seen := ours.Base - others // the greatest fence, if there was any
	resp, err := client.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.CreateRevision(e.markerKey()), "=", 0)).
		Then(clientv3.OpPut(e.markerKey(), ours.String())).
		Else(clientv3.OpGet(e.markerKey())).Commit()
	if err != nil {
		return e.cluster.away(err)
	}
	said := ours.String()
	if !resp.Succeeded {
		kv := resp.Responses[0].GetResponseRange().Kvs[0]
		said = string(kv.Value)
		there := readMarker(said)
		if there.Doubt != "" && !meant {
			return e.foreign(foundBy(there.Doubt))
		}
		if there.Doubt != "" || there.Base+resp.Header.Revision < seen {
			there.Base, there.Doubt = max(ours.Base, there.Base+others), ""
			put, err := client.Txn(clientv3.WithRequireLeader(ctx)).
				If(clientv3.Compare(clientv3.ModRevision(e.markerKey()), "=", kv.ModRevision)).
				Then(clientv3.OpPut(e.markerKey(), there.String())).Commit()
			switch {
			case err != nil:
				return e.cluster.away(err)
			case !put.Succeeded: // another member was faster
				return e.settle(ctx, client, ours, meant)
			}
			said, resp.Header = there.String(), put.Header
		}
	}
	e.mu.Lock()
	id := e.identity
	e.mu.Unlock()
	id.Cluster, id.Marker, id.Revision, id.Trace, id.TraceKept = resp.Header.ClusterId, said, resp.Header.Revision, 0, time.Time{}
	if meant {
		id.Adopted = time.Now().Round(0)
	}
	if err := e.store(ctx, id); err != nil {
		return err
	}
	e.forgetNames() // leases are another etcd's, and so are revisions
	e.mu.Lock()
	defer e.mu.Unlock()
	e.identity, e.revision, e.trace, e.checked = id, id.Revision, trace{}, false
	e.keys, e.requests = 0, nil
	close(e.settled)
	e.settled = make(chan struct{})
	return nil
}

// others is by how much other members may have seen greater fences than this one.
const others = 1_000_000

// Adopt makes etcd as it is now the one that this member belongs to, for good. What is held
// here is put there again when it is renewed or finished; until then the pages of the tasks
// say who has them.
func (e *Etcd) Adopt(ctx context.Context) error {
	client, err := e.connection()
	if err != nil {
		return err
	}
	e.checking.Lock()
	defer e.checking.Unlock()
	e.mu.Lock()
	ours, seen := readMarker(e.identity.Marker), e.revision
	e.mu.Unlock()
	next := marker{ID: rand.Text()}
	if ours.ID != "" {
		next = marker{ID: ours.ID, Base: ours.Base + seen + others}
	}
	if err := e.settle(ctx, client, next, true); err != nil {
		return err
	}
	return e.begin(ctx, client)
}
