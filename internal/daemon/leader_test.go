package daemon_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// often is the time between two syncs in the tests of what one member reads for all.
const often = 200 * time.Millisecond

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
		eventually(t, "some syncs are made", func() bool { return len(w.requests()) >= 6 })
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

// When the leader is cut off from etcd, as if it were killed, another member reads, sweeps and
// tells within ten seconds; no task is swept twice, and nothing is logged twice.
func TestAnotherMemberReads(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		sweeping := func(c *config.Config) { c.Schedule.Sweep = "@every 1s" }
		first := w.reader("first", way.URL(), sweeping)
		eventually(t, "the first leads", func() bool { return leader(t, first) == "first" })
		others := []*node{w.reader("north", etcd.URL(), sweeping), w.reader("south", etcd.URL(), sweeping)}
		stale := func(title string) string {
			long := time.Now().Add(-2 * time.Hour)
			return w.add(title, map[string]any{
				"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
				"claimed_at": date(long), "claim_token": text("rich_text", string(claim.NewID(long))),
			})
		}
		ids := []string{stale("Mend the roof")}
		eventually(t, "it is swept", func() bool { return w.page(ids[0]).Select("status") == "OPEN" })

		ids = append(ids, stale("Paint the door"), stale("Sweep the yard"))
		way.Cut()
		began := time.Now()
		ids = append(ids, w.add("Clean the window", nil))
		eventually(t, "another one leads, and sweeps", func() bool {
			l := leader(t, others...)
			return l != "" && l != "first" && !slices.ContainsFunc(ids, func(id string) bool { return w.page(id).Select("status") != "OPEN" })
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		eventually(t, "all others know", func() bool {
			return !slices.ContainsFunc(others, func(n *node) bool {
				return slices.ContainsFunc(ids, func(id string) bool { return n.taskStatus(id) != "OPEN" })
			})
		})
		way.Mend()
		eventually(t, "the first knows, too", func() bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return first.taskStatus(id) != "OPEN" })
		})
		eventually(t, "the log is complete", func() bool { return len(w.mesh()) >= 3 })
		if got, want := w.mesh(), []string{"swept: Sandman", "swept: Sandman", "swept: Sandman"}; !slices.Equal(got, want) {
			t.Errorf("mesh log %q, want %q", got, want)
		}
		told := make(map[string]int)
		for _, n := range others {
			for _, line := range n.swept() {
				told[line]++
			}
		}
		for _, id := range ids[:3] {
			if told[id] > 1 {
				t.Errorf("task %s was swept by several", id)
			}
		}
	})
}

// swept returns the ids of the tasks that a node has swept, by its own record.
func (n *node) swept() (ids []string) {
	n.w.Helper()
	log, err := n.Log(n.w.Context(), api.LogFilter{Limit: 100})
	if err != nil {
		n.w.Error(err)
	}
	for _, e := range log.Entries {
		if e.Kind == claim.KindSwept {
			ids = append(ids, string(e.Task))
		}
	}
	return ids
}
