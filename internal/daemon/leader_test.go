package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
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
	t.Parallel()
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		sweeping := func(c *config.Config) { c.Schedule.Sweep = "@every 1s" }
		first := w.reader("first", way.URL(), sweeping)
		eventually(t, "the first leads", func() bool { return leader(t, first) == "first" })
		others := []*node{w.reader("north", etcd.URL(), sweeping), w.reader("south", etcd.URL(), sweeping)}
		ids := []string{w.stale("Mend the roof")}
		eventually(t, "it is swept", func() bool { return w.page(ids[0]).Select("status") == "OPEN" })
		eventually(t, "by the leader", func() bool { return slices.Equal(first.swept(), ids) })

		ids = append(ids, w.stale("Paint the door"), w.stale("Sweep the yard"))
		way.Cut()
		began := time.Now()
		ids = append(ids, w.add("Clean the window", nil))
		eventually(t, "another one leads, and sweeps", func() bool {
			l := leader(t, others...)
			return l != "" && l != "first" && !slices.ContainsFunc(ids, func(id string) bool { return w.page(id).Select("status") != "OPEN" })
		})
		t.Logf("it took %v", time.Since(began)) // ten seconds at most where nothing else is going on, see package relay
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

// A member that does not read the board hears of what people do to its claims as soon as the
// one that does, and looks after them itself while nobody reads.
func TestClaimsOfWhoDoesNotRead(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		ids := []string{w.add("Mend the roof", nil), w.add("Paint the door", nil)}
		first := w.reader("first", etcd.URL(), nil)
		eventually(t, "the first leads", func() bool { return leader(t, first) == "first" })
		n := w.reader("second", etcd.URL(), nil)
		eventually(t, "both know who leads", func() bool { return leader(t, first, n) == "first" })
		var claims []api.Claim
		for _, id := range ids {
			claims = append(claims, n.mustClaim("Sandman", id))
		}
		w.edit(ids[0], map[string]any{"claimed_by": text("rich_text", "Tank")})
		eventually(t, "a claim is lost", func() bool {
			now, err := n.Lookup(t.Context(), string(claims[0].ID), "")
			return err == nil && now.State == claim.Ended
		})
		if now, err := n.Lookup(t.Context(), string(claims[1].ID), ""); err != nil || now.State != claim.Held {
			t.Errorf("the other claim: %+v, %v", now, err)
		}
	})
}

// Whoever sweeps by hand, at whatever member, sweeps nothing that another one sweeps.
func TestSweepAtAllMembers(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		const tasks = 5
		for i := range tasks {
			w.stale(fmt.Sprint("Task ", i))
		}
		nodes := []*node{w.member("north", etcd.URL()), w.member("south", etcd.URL()), w.member("west", etcd.URL())}
		var swept atomic.Int32
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				s, err := n.Sweep(t.Context(), "")
				if err != nil {
					t.Log(err)
				}
				swept.Add(int32(len(s.Swept)))
			})
		}
		all.Wait()
		if n := swept.Load(); n != tasks {
			t.Errorf("%d tasks were swept, want %d", n, tasks)
		}
		eventually(t, "the log is complete", func() bool { return len(w.mesh()) >= tasks })
		if got := w.mesh(); len(got) != tasks {
			t.Errorf("mesh log %q", got)
		}
	})
}

// stale puts a task on the board that Sandman has had for too long.
func (w *world) stale(title string) string {
	w.Helper()
	long := time.Now().Add(-2 * time.Hour)
	return w.add(title, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
		"claimed_at": date(long), "claim_token": text("rich_text", string(claim.NewID(long))),
	})
}

// severed is a way to Notion that can be cut.
type severed struct {
	http.RoundTripper
	cut atomic.Bool
}

func (s *severed) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.cut.Load() {
		return nil, errors.New("no way to Notion")
	}
	return s.RoundTripper.RoundTrip(r)
}

// A leader that does not reach Notion leaves the reading to a member that does, and knows from
// then on what that one reads.
func TestLeaderWithoutNotion(t *testing.T) {
	t.Parallel() // it waits for the most part, as does the other one
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		change := func(c *config.Config) {
			c.Cluster.Etcd, c.Sync.Interval, c.Notion.Rate, c.Notion.Burst = []string{etcd.URL()}, often, 500, 500
		}
		o := w.options(func(c *config.Config) { change(c); c.Cluster.Name = "first" })
		way := &severed{RoundTripper: o.Transport}
		o.Transport = way
		first := w.start(o)
		t.Cleanup(first.stop)
		eventually(t, "the first leads", func() bool { return leader(t, first) == "first" })
		second := w.reader("second", etcd.URL(), nil)
		eventually(t, "both are listed", func() bool { c, err := second.Cluster(t.Context()); return err == nil && len(c.Members) == 2 })
		way.cut.Store(true)
		eventually(t, "the second leads", func() bool { return leader(t, first, second) == "second" })
		id := w.add("Mend the roof", nil)
		eventually(t, "the first knows", func() bool { return first.taskStatus(id) == "OPEN" })
	})
}
