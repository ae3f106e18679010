package daemon_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/task"
)

// often is the time between two syncs in the tests of what one member reads for all.
const often = 300 * time.Millisecond

// reader starts a daemon of that name that syncs often.
func (w *world) reader(name, url string, change func(*config.Config)) *node {
	w.Helper()
	n := w.daemon(func(c *config.Config) {
		c.Cluster.Etcd, c.Cluster.Name = []string{url}, name
		c.Notion.Rate, c.Notion.Burst = 500, 500
		c.Sync.Interval = often
		if change != nil {
			change(c)
		}
	})
	w.Cleanup(n.stop)
	return n
}

// leader is the member that all of the nodes say reads the board; empty if they do not agree.
func leader(t *testing.T, nodes ...*node) string {
	t.Helper()
	var names []string
	for _, n := range nodes {
		c, err := n.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, c.Leader)
	}
	if len(slices.Compact(slices.Clone(names))) > 1 {
		return ""
	}
	return names[0]
}

// status is how a task stands for a node.
func (n *node) taskStatus(id string) string {
	n.w.Helper()
	d, err := n.Task(n.w.Context(), task.ID(id))
	if err != nil {
		return err.Error()
	}
	return string(d.Status)
}

// Four members that have nothing to do ask no more than one, and all know what that one has
// read.
func TestOneMemberReads(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		var nodes []*node
		for i := range 4 {
			nodes = append(nodes, w.reader(fmt.Sprint("m", i), etcd.URL(), nil))
		}
		eventually(t, "one leads", func() bool { return leader(t, nodes...) != "" })
		w.notion.ResetRequests()
		began := time.Now()
		eventually(t, "some syncs are made", func() bool { return len(w.requests()) >= 8 })
		most := int(time.Since(began)/often) + 2
		requests := w.requests()
		if len(requests) > most || slices.ContainsFunc(requests, func(r string) bool { return r != "POST query" }) {
			t.Errorf("%d requests, want %d at most: %v", len(requests), most, requests)
		}
		w.edit(id, map[string]any{"status": option("status", "BLOCKED")})
		eventually(t, "all know of an edit", func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool { return n.taskStatus(id) != "BLOCKED" })
		})
		added := w.add("Paint the door", nil)
		eventually(t, "all know of a new task", func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool { return n.taskStatus(added) != "OPEN" })
		})
		var c api.Cluster
		eventually(t, "nobody is behind", func() bool {
			c, _ = nodes[0].Cluster(t.Context())
			return len(c.Members) == 4 && !slices.ContainsFunc(c.Members, func(m api.Member) bool { return m.LagSeconds > 0 })
		})
		leads := slices.DeleteFunc(c.Members, func(m api.Member) bool { return !m.Leader })
		if len(leads) != 1 || leads[0].Name != c.Leader {
			t.Errorf("leaders %+v, want %s alone", leads, c.Leader)
		}
	})
}
