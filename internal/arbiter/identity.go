package arbiter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// metaIdentity is the key under which a member remembers its identity.
const metaIdentity = "arbiter"

// identity is the etcd that a member belongs to, and who it is there. An etcd that was
// emptied, or restored from a copy, says that tasks are free which somebody has; so it is
// told from the one that is known, by its id, by a marker that is put there once, and by its
// revision, which only grows.
type identity struct {
	// Member is this member's id, for as long as its journal lasts.
	Member string `json:"member"`
	// Cluster is etcd's own id, and Marker all that is in the marker; 0 and empty if none was
	// seen.
	Cluster uint64 `json:"cluster,omitempty,string"`
	Marker  string `json:"marker,omitempty"`
	// Revision is the latest revision that was seen, or a little earlier one.
	Revision int64 `json:"revision,omitempty"`
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
	e.revision = e.identity.Revision
	if e.identity.Member != "" {
		return nil
	}
	e.identity.Member = rand.Text()
	return e.store(ctx, e.identity)
}

func (e *Etcd) store(ctx context.Context, id identity) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return e.memory.SetMeta(ctx, metaIdentity, string(data))
}

// rememberEvery is after how many revisions the latest one is stored.
const rememberEvery = 100

// remember stores the latest revision, if it has grown by some.
func (e *Etcd) remember(ctx context.Context, always bool) error {
	e.mu.Lock()
	id := e.identity
	id.Revision = e.revision
	grown := id.Revision - e.identity.Revision
	e.mu.Unlock()
	if grown == 0 || grown < rememberEvery && !always {
		return nil
	}
	if err := e.store(ctx, id); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.identity.Revision = max(e.identity.Revision, id.Revision)
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

// marker is what is put into etcd once. The fences of rows are the revisions at which they
// were put, counted from Base: so that they go on to grow when etcd has begun anew.
type marker struct {
	ID   string `json:"id"`
	Base int64  `json:"base,omitempty"`
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
	if id.Marker != "" { // each transaction compares
		e.mu.Lock()
		defer e.mu.Unlock()
		e.checked = true
		return client, nil
	}
	return client, e.settle(ctx, client, marker{ID: rand.Text()})
}

// settle makes etcd the one that this member belongs to, with the marker that is there, or
// else that one. A marker from which fences would not go on to grow is replaced.
func (e *Etcd) settle(ctx context.Context, client *clientv3.Client, ours marker) error {
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
		if there := readMarker(said); there.Base+resp.Header.Revision < seen {
			there.Base = ours.Base
			put, err := client.Txn(clientv3.WithRequireLeader(ctx)).
				If(clientv3.Compare(clientv3.ModRevision(e.markerKey()), "=", kv.ModRevision)).
				Then(clientv3.OpPut(e.markerKey(), there.String())).Commit()
			switch {
			case err != nil:
				return e.cluster.away(err)
			case !put.Succeeded: // another member was faster
				return e.settle(ctx, client, ours)
			}
			said, resp.Header = there.String(), put.Header
		}
	}
	e.mu.Lock()
	id := e.identity
	e.mu.Unlock()
	id.Cluster, id.Marker, id.Revision = resp.Header.ClusterId, said, resp.Header.Revision
	if err := e.store(ctx, id); err != nil {
		return err
	}
	e.forgetNames() // leases are another etcd's, and so are revisions
	e.mu.Lock()
	defer e.mu.Unlock()
	e.identity, e.revision, e.checked = id, id.Revision, true
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
	if ours.ID == "" {
		return e.settle(ctx, client, marker{ID: rand.Text()})
	}
	return e.settle(ctx, client, marker{ours.ID, ours.Base + seen + others})
}
