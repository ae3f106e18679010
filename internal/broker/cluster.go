package broker

import (
	"context"

	"dibs/internal/api"
)

// Cluster is the group of daemons that share this one's journal.
type Cluster interface {
	// Members returns the daemons of the cluster.
	Members(context.Context) (api.Cluster, error)
	// Adopt accepts the journal as it is now, on the word of a user.
	Adopt(ctx context.Context, by string) (api.Cluster, error)
	// AgentsAt returns the names allowed to users of a member, and false if they are unknown.
	AgentsAt(member string) ([]Agent, bool)
}

// Cluster returns the members of the cluster; without a cluster, none.
func (b *Broker) Cluster(ctx context.Context) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{Members: []api.Member{}}, nil
	}
	return b.members(b.cluster.Members(ctx))
}

// AdoptCluster accepts the journal as it is now. Without a cluster, the error is an *InvalidError.
func (b *Broker) AdoptCluster(ctx context.Context, by string) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{}, &InvalidError{Detail: "this daemon is in no cluster: set journal.postgres in its configuration, and restart it"}
	}
	return b.members(b.cluster.Adopt(ctx, by))
}

func (b *Broker) members(c api.Cluster, err error) (api.Cluster, error) {
	if err != nil {
		return api.Cluster{}, err
	}
	c.Members = orEmpty(c.Members)
	for i, m := range c.Members {
		c.Members[i].SeenAt = b.time(m.SeenAt.Time)
	}
	return c, nil
}
