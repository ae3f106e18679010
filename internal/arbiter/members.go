package arbiter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Member is one of the daemons of a cluster, as it says itself.
type Member struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// SeenAt is when it said so last, in Notion's time: a minute ago at most.
	SeenAt time.Time `json:"seen_at"`
	// RequestsPerMinute is how many requests it sent to Notion in the last minute.
	RequestsPerMinute int `json:"requests_per_minute"`
	// Share is how many it may send in a minute.
	Share int `json:"share,omitempty"`
	// Version is that of dibs, and Settings those that all should have alike.
	Version  string   `json:"version,omitempty"`
	Settings Settings `json:"settings,omitempty"`
	// Lag is for how many seconds it has not taken over what the leader has read, and Behind
	// how many publications those are that it has received.
	Lag    int `json:"lag,omitempty"`
	Behind int `json:"behind,omitempty"`
	// Leader is set if the members' reading is its to do now. It is not part of what it says.
	Leader bool `json:"-"`
}

// memberTime is for how long a member is on the list after it was heard of last.
const memberTime = 15 * time.Second

func (e *Etcd) membersKey() string { return e.prefix + "members/" }

// What is said of a member is written anew this often at most, and this often if nothing but
// the time has changed: etcd keeps all that was ever written until it is compacted.
const (
	announceSoonest = 15 * time.Second
	announceLatest  = time.Minute
)

// announced is what a member has said of itself last.
type announced struct {
	Member
	lease clientv3.LeaseID
	at    time.Time
}

// says reports whether m says the same, but for the time.
func (a announced) says(m Member) bool {
	m.SeenAt = a.SeenAt
	return a.Member == m
}

// Announce puts this member on the list, keeps it there, and says now and then what it is
// doing. It has to be called again within memberTime.
func (e *Etcd) Announce(ctx context.Context, m Member) error {
	m.ID, m.Name = e.Member(), e.cluster.Name
	e.mu.Lock()
	last := e.announced
	e.mu.Unlock()
	age := time.Since(last.at)
	if last.lease != 0 && (age < announceSoonest || age < announceLatest && last.says(m)) {
		client, err := e.connection()
		if err != nil {
			return err
		}
		if _, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), last.lease); err == nil {
			return nil
		} // else it may have ended
	}
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	lease, err := e.lease(ctx, memberTime)
	if err != nil {
		return err
	}
	resp, err := e.commit(ctx, nil, []clientv3.Op{
		clientv3.OpPut(e.membersKey()+m.ID, string(value), clientv3.WithLease(lease), clientv3.WithPrevKV()),
	}, nil)
	if err != nil {
		return err
	}
	if before := resp.Responses[0].GetResponsePut().PrevKv; before != nil {
		e.revoke(ctx, clientv3.LeaseID(before.Lease))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.announced = announced{m, lease, time.Now()}
	return nil
}

// Leave takes this member off the list.
func (e *Etcd) Leave(ctx context.Context) error {
	_, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpDelete(e.membersKey() + e.Member())}, nil)
	return err
}

// Members lists the members that were heard of within memberTime, by their names.
func (e *Etcd) Members(ctx context.Context) ([]Member, error) {
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.membersKey(), clientv3.WithPrefix()), clientv3.OpGet(e.leaderKey())}, nil)
	if err != nil {
		return nil, err
	}
	members, leads := []Member{}, e.termIn(resp.Responses[1].GetResponseRange().Kvs)
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil { // a newer version may say more, never less
			m.Leader = m.ID == leads.Member
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return members, nil
}
