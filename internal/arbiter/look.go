package arbiter

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Look is what there is to be seen of a cluster's etcd, of which nothing is changed.
type Look struct {
	// Endpoints are those that are configured, in their order.
	Endpoints []Endpoint
	// Unlisted are addresses of etcd's members that are none of the endpoints, of one line for
	// each member; empty also if that could not be found out.
	Unlisted []string
	// Err is why the keys of the workspace cannot be used, nil if they can be read and written.
	Err error
	// Took is how long a transaction takes.
	Took time.Duration
}

// Endpoint is one of etcd's members.
type Endpoint struct {
	URL string
	// Err is why it does not answer. If it is set, the rest says nothing.
	Err     error
	Version string
	// Etcd is the id of the etcd that it is of.
	Etcd   uint64
	member uint64
	// Leader says that it is the leader, and HasLeader that it knows one.
	Leader, HasLeader bool
	// Learner says that it does not decide yet.
	Learner bool
	// Size is how many bytes its database has, and Quota how many it may have; 0 if etcd does
	// not say.
	Size, Quota int64
	// Full says that etcd takes nothing more, as the quota was reached.
	Full bool
}

// Look looks at etcd as it is configured: at its members one by one, and then whether the keys
// of the workspace can be read and written. A transaction that does nothing shows that, since
// etcd asks for the rights to all that could be done in it.
func (c Cluster) Look(ctx context.Context) Look {
	look := Look{Endpoints: make([]Endpoint, len(c.Endpoints))}
	var all sync.WaitGroup
	for i, url := range c.Endpoints {
		all.Go(func() { look.Endpoints[i] = c.endpoint(ctx, url) })
	}
	all.Wait()
	client, err := c.connect(new(reach))
	if err != nil {
		look.Err = c.away(err)
		return look
	}
	defer client.Close()
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if look.Took, look.Err = c.try(asking, client); look.Err != nil {
		return look
	}
	if list, err := client.MemberList(asking); err == nil { // it may be that this user is not told
		look.Unlisted = unlisted(list.Members, look.Endpoints)
	}
	return look
}

// endpoint looks at one member of etcd.
func (c Cluster) endpoint(ctx context.Context, url string) Endpoint {
	e := Endpoint{URL: url}
	c.Endpoints = []string{url}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := c.connect(new(reach))
	if err != nil {
		e.Err = c.away(err)
		return e
	}
	defer client.Close()
	s, err := client.Status(ctx, url)
	if err != nil {
		e.Err = c.away(err)
		return e
	}
	e.Version, e.Etcd, e.member, e.Learner = s.Version, s.Header.ClusterId, s.Header.MemberId, s.IsLearner
	e.Leader, e.HasLeader = s.Leader == s.Header.MemberId, s.Leader != 0
	e.Size, e.Quota = s.DbSize, s.DbSizeQuota
	e.Full = slices.ContainsFunc(s.Errors, func(s string) bool { return strings.Contains(s, "NOSPACE") })
	return e
}

// try reports why the keys of the workspace cannot be used, and how long a transaction takes.
func (c Cluster) try(ctx context.Context, client *clientv3.Client) (time.Duration, error) {
	lease, err := client.Grant(clientv3.WithRequireLeader(ctx), int64(memberTime.Seconds()))
	if err != nil {
		return 0, c.away(err)
	}
	defer client.Revoke(ctx, lease.ID) // or it ends by itself
	key := c.keys() + "marker"
	never := clientv3.Compare(clientv3.CreateRevision(key), "=", -1)
	began := time.Now()
	_, err = client.Txn(clientv3.WithRequireLeader(ctx)).If(never).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(lease.ID)), clientv3.OpDelete(c.keys()+"tasks/", clientv3.WithPrefix())).
		Else(clientv3.OpGet(c.keys(), clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return 0, c.away(err)
	}
	return time.Since(began), nil
}

// unlisted are the addresses of the members that are none of the endpoints, whatever these call
// them; none if that is not known, as one of them does not answer.
func unlisted(members []*etcdserverpb.Member, endpoints []Endpoint) []string {
	var lines []string
	if slices.ContainsFunc(endpoints, func(e Endpoint) bool { return e.Err != nil }) {
		return nil
	}
	for _, m := range members {
		listed := slices.ContainsFunc(endpoints, func(e Endpoint) bool { return e.member == m.ID })
		if len(m.ClientURLs) > 0 && !listed {
			lines = append(lines, strings.Join(m.ClientURLs, " or "))
		}
	}
	return lines
}
