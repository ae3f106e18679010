package broker

import (
	"context"

	"dibs/internal/api"
)

// Cluster is the cluster that a daemon is a member of. Its times are Notion's.
type Cluster interface {
	// Members returns who is in it.
	Members(context.Context) (api.Cluster, error)
	// Adopt makes etcd as it is now the one that the daemon belongs to, and returns who is in
	// it then, and whether that had to be. The error is a *claim.ArbiterError if etcd cannot be used all the same.
	// Of a journal that daemons share it is the database that was restored; then the user, uid,
	// has to be the daemon's, or root.
	Adopt(ctx context.Context, uid int) (api.Cluster, error)
}

// Cluster returns the members of the cluster; none if there is no cluster.
func (b *Broker) Cluster(ctx context.Context) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{Members: []api.Member{}}, nil
	}
	return b.cluster.Members(ctx)
}

// AdoptCluster makes an etcd, or a journal's database, that was emptied or restored the one that
// the daemon belongs to, for good. The error is an *InvalidError if there is no cluster.
func (b *Broker) AdoptCluster(ctx context.Context, uid int) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{}, &InvalidError{Detail: "this daemon is in no cluster: set cluster.etcd in its configuration, and restart it"}
	}
	return b.cluster.Adopt(ctx, uid)
}
