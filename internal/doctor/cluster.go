package doctor

import (
	"context"
	"strings"

	"dibs/internal/daemon"
)

// cluster looks at the etcd that decides between daemons, if there is one.
func (e *examination) cluster(ctx context.Context) {
	c := e.Config.Cluster
	if !c.Set() {
		return
	}
	const remedy = "see that etcd runs and has a leader, and what cluster.tls, cluster.username and cluster.password_file say: etcdctl endpoint health, with the same, should do"
	if err := daemon.TryCluster(ctx, e.Config); err != nil {
		e.problem("cluster", err.Error(), remedy)
		return
	}
	switch s := e.status; {
	case s == nil:
		e.ok("cluster", "etcd answers at "+strings.Join(c.Etcd, ", "))
	case s.Cluster == nil:
		e.warn("cluster", "the daemon runs without a cluster, and cluster.etcd is configured", "restart the daemon")
	case s.Cluster.LastError != "":
		e.problem("cluster", s.Cluster.LastError, "see to the error; if etcd was emptied or restored, run dibs cluster adopt on each machine")
	default:
		e.ok("cluster", "etcd answers at "+strings.Join(c.Etcd, ", ")+", and the daemon is member "+s.Cluster.Name)
	}
}
