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

// Cluster returns the members of the cluster, as the one sees them at which the caller came in;
// without a cluster, none.
func (b *Broker) Cluster(ctx context.Context, who Caller, _ *struct{}) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{Members: []api.Member{}}, nil
	}
	c, err := b.cluster.Members(ctx)
	return b.members(who, c, err)
}

// AdoptCluster accepts the journal as it is now. The error is a *ForbiddenError, or, without a
// cluster, an *InvalidError.
func (b *Broker) AdoptCluster(ctx context.Context, who Caller, _ *api.BareInput) (api.Cluster, error) {
	if err := who.owner("may say that the database is right"); err != nil {
		return api.Cluster{}, err
	}
	if b.cluster == nil {
		return api.Cluster{}, &InvalidError{Detail: "this daemon is in no cluster: set journal.postgres in its configuration, and restart it"}
	}
	c, err := b.cluster.Adopt(ctx, who.User)
	return b.members(who, c, err)
}

func (b *Broker) members(who Caller, c api.Cluster, err error) (api.Cluster, error) {
	if err != nil {
		return api.Cluster{}, err
	}
	c.Members = orEmpty(c.Members)
	if len(c.Members) > 0 {
		c.Name = who.Member
	}
	for i, m := range c.Members {
		c.Members[i].SeenAt, c.Members[i].Self = b.time(m.SeenAt.Time), m.Name == who.Member
	}
	return c, nil
}
