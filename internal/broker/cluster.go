package broker

import (
	"context"

	"dibs/internal/api"
)

// Cluster is the daemons that share a journal with this one.
type Cluster interface {
	// Members returns who they are.
	Members(context.Context) (api.Cluster, error)
	// Adopt takes the journal as it is now for the right one, as a user says who may.
	Adopt(ctx context.Context, by string) (api.Cluster, error)
	// AgentsAt returns the names that the users of a member may go by, and false if that is
	// not known.
	AgentsAt(member string) ([]Agent, bool)
}

// Cluster returns the members of the cluster; none if there is no cluster.
func (b *Broker) Cluster(ctx context.Context) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{Members: []api.Member{}}, nil
	}
	return b.members(b.cluster.Members(ctx))
}

// AdoptCluster takes the journal as it is now for the right one. The error is an
// *InvalidError if no others share it.
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
