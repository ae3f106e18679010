package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/arbiter"
	"dibs/internal/daemon"
)

// cluster looks at the etcd that decides between daemons, if there is one.
func (e *examination) cluster(ctx context.Context) {
	c := e.Config.Cluster
	if !c.Set() {
		if s := e.status; s != nil && s.Cluster != nil {
			e.warn("cluster", fmt.Sprintf("the daemon is member %s of a cluster, and cluster.etcd is not configured", s.Cluster.Name), "restart the daemon, or configure what it runs with")
		}
		return
	}
	for _, file := range []string{c.PasswordFile, c.TLS.Key} {
		if said := readable(file); said != "" {
			e.warn("cluster.secrets", said, "chmod 600 "+file)
		}
	}
	look := daemon.LookAtCluster(ctx, e.Config)
	e.endpoints(look)
	if look.Err != nil {
		found, remedy := advised(look.Err)
		e.problem("cluster", found, remedy)
		return
	}
	takes := fmt.Sprintf("etcd answers at %s, and may be read and written to, in %v", strings.Join(c.Etcd, ", "), look.Took.Round(100*time.Microsecond))
	switch s := e.status; {
	case s == nil:
		e.ok("cluster", takes)
	case s.Cluster == nil:
		e.warn("cluster", "the daemon runs without a cluster, and cluster.etcd is configured", "restart the daemon")
	case s.Cluster.LastError != "":
		e.problem("cluster", s.Cluster.LastError, "see to the error; if etcd was emptied or restored, run dibs cluster adopt on each machine")
	default:
		e.ok("cluster", takes+", and the daemon is member "+s.Cluster.Name)
		e.members(ctx)
	}
}

// readable says that a file which only the daemon's user should read is open to others; ""
// if it is not. That it cannot be read is said with what needs it.
func readable(file string) string {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("%s, which others may be able to read (mode %#o)", file, info.Mode().Perm())
	}
	return ""
}

// advised is what happened and what to do about it: what stands last, where the error says it.
func advised(err error) (found, remedy string) {
	found = err.Error()
	if i := strings.LastIndex(found, ": "); i >= 0 && strings.Contains(found, "cannot be used: ") {
		return found[:i], found[i+2:]
	}
	return found, "see that etcd runs and has a leader, and what cluster.etcd and cluster.tls say: etcdctl endpoint health, with the same, should do"
}

// endpoints looks at what etcd's members say, one by one.
func (e *examination) endpoints(look arbiter.Look) {
	answer := slices.DeleteFunc(slices.Clone(look.Endpoints), func(m arbiter.Endpoint) bool { return m.Err != nil })
	for _, m := range look.Endpoints {
		if m.Err == nil {
			level, found, remedy := endpoint(m, answer[0])
			e.add(level, "cluster.etcd", found, remedy)
			continue
		}
		found, remedy := advised(m.Err)
		level := Error
		if len(answer) > 0 {
			level, found = Warning, fmt.Sprintf("%s (%d of %d answer)", found, len(answer), len(look.Endpoints))
		}
		e.add(level, "cluster.etcd", found, remedy)
	}
	if len(look.Unlisted) > 0 {
		e.warn("cluster.etcd", "etcd has a member at "+strings.Join(look.Unlisted, ", and one at ")+", which cluster.etcd does not list", "list it there, too: it is not asked when the others are away")
	}
}

// endpoint is the finding about a member of etcd that answers, as the first one does.
func endpoint(m, first arbiter.Endpoint) (level Level, found, remedy string) {
	switch {
	case m.Etcd != first.Etcd:
		return Error, fmt.Sprintf("%s is of another etcd than %s", m.URL, first.URL), "list the members of one etcd"
	case m.Full:
		return Error, fmt.Sprintf("%s takes nothing more, as its quota is used up: %s", m.URL, sizes(m)),
			"compact and defragment it (etcdctl compact, etcdctl defrag), then etcdctl alarm disarm; run it with --auto-compaction-retention=1h"
	case !m.HasLeader:
		return Error, m.URL + " has no leader: most members of etcd are away", "start them again; until then no task can be claimed"
	case m.Quota > 0 && float64(m.Size) > nearBudget*float64(m.Quota):
		return Warning, fmt.Sprintf("%s has almost used up its quota: %s", m.URL, sizes(m)),
			"run it with --auto-compaction-retention=1h, and etcdctl defrag; or raise --quota-backend-bytes"
	case m.Learner:
		return Warning, m.URL + " is a learner, which does not decide", "etcdctl member promote, once it has caught up"
	}
	role := "follower"
	if m.Leader {
		role = "leader"
	}
	return OK, fmt.Sprintf("%s, etcd %s, %s, %s", m.URL, m.Version, role, sizes(m)), ""
}

func sizes(m arbiter.Endpoint) string {
	const mb = 1 << 20
	if m.Quota == 0 {
		return fmt.Sprintf("%.1f MB", float64(m.Size)/mb)
	}
	return fmt.Sprintf("%.1f of %d MB", float64(m.Size)/mb, m.Quota/mb)
}

// members looks at what the other daemons of the cluster say of themselves.
func (e *examination) members(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := e.Daemon.Cluster(ctx)
	if err != nil {
		e.problem("cluster.members", err.Error(), "see what dibs cluster says")
		return
	}
	var names []string
	for _, m := range c.Members {
		names = append(names, m.Name)
		for _, line := range m.Differs {
			e.warn("cluster.members", fmt.Sprintf("member %s has %s", m.Name, line), api.SameInCluster)
		}
	}
	e.ok("cluster.members", strings.Join(names, ", "))
}
