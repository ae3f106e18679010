package server

import (
	"context"
	"net/http"

	"dibs/internal/api"

	"github.com/danielgtaylor/huma/v2"
)

type clusterOutput struct{ Body api.Cluster }

func (s *Server) clusterRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "cluster", Method: http.MethodGet, Path: "/v1/cluster",
		Summary: "The daemons that work as one with this one",
	}, s.cluster)
	add(o, huma.Operation{
		OperationID: "adoptCluster", Method: http.MethodPost, Path: "/v1/cluster/adopt",
		Summary: "Take the database of the journal as it is now for the right one",
	}, s.adoptCluster)
}

func (s *Server) cluster(ctx context.Context, _ *struct{}) (*clusterOutput, error) {
	c, err := s.broker.Cluster(ctx)
	return s.clusterOf(ctx, c, err)
}

func (s *Server) adoptCluster(ctx context.Context, _ *struct {
	Key string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
}) (*clusterOutput, error) {
	if g := guest(ctx); !g.Own {
		p := api.NewProblem(api.CodeForbiddenAgent, "only the daemon's user, and root, may say that the database is right")
		p.Title = "The user may not do this"
		return nil, p
	}
	c, err := s.broker.AdoptCluster(ctx, signature(ctx, ""))
	return s.clusterOf(ctx, c, err)
}

// clusterOf is a cluster as it is seen from where it was asked for.
func (s *Server) clusterOf(ctx context.Context, c api.Cluster, err error) (*clusterOutput, error) {
	if err != nil {
		return nil, err
	}
	c.Members = orEmpty(c.Members)
	if len(c.Members) > 0 {
		c.Name = guest(ctx).Member
	}
	for i, m := range c.Members {
		c.Members[i].SeenAt, c.Members[i].Self = s.localTime(m.SeenAt.Time), m.Name == guest(ctx).Member
	}
	return &clusterOutput{c}, nil
}
