package server

import (
	"context"

	"dibs/internal/api"
)

func (s *Server) cluster(ctx context.Context, _ *struct{}) (api.Cluster, error) {
	c, err := s.broker.Cluster(ctx)
	return s.clusterOf(ctx, c, err)
}

func (s *Server) adoptCluster(ctx context.Context, _ *api.BareInput) (api.Cluster, error) {
	if err := ownersOnly(ctx, "may say that the database is right"); err != nil {
		return api.Cluster{}, err
	}
	c, err := s.broker.AdoptCluster(ctx, signature(ctx, ""))
	return s.clusterOf(ctx, c, err)
}

// clusterOf shows a cluster from the view of the member that the caller came in by.
func (s *Server) clusterOf(ctx context.Context, c api.Cluster, err error) (api.Cluster, error) {
	if err != nil {
		return api.Cluster{}, err
	}
	if len(c.Members) > 0 {
		c.Name = guest(ctx).Member
	}
	for i, m := range c.Members {
		c.Members[i].Self = m.Name == guest(ctx).Member
	}
	return c, nil
}
