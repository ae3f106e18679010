package daemon

import (
	"context"

	"dibs/config"
	"dibs/internal/arbiter"
)

// LookAtCluster looks at the cluster's etcd as it is configured, and changes nothing there.
func LookAtCluster(ctx context.Context, c config.Config) arbiter.Look {
	ctx, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	return clusterOf(c.Cluster, c.Databases.Tasks).Look(ctx)
}
