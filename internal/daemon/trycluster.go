package daemon

import (
	"context"

	"dibs/config"
)

// TryCluster reports whether the cluster's etcd can be used as it is configured: its files, its
// certificates, the password, and a leader. It changes nothing there.
func TryCluster(ctx context.Context, c config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	return clusterOf(c.Cluster, c.Databases.Tasks).Try(ctx)
}
