package daemon_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/journal"
)

// Members with other settings, or the same name, are told apart, in the status too.
func TestMembersWithOtherSettings(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		a := w.member("north", etcd.URL())
		b := w.daemon(func(c *config.Config) {
			c.Cluster.Etcd, c.Cluster.Name = []string{etcd.URL()}, "north"
			c.Notion.Rate, c.Notion.Burst, c.Claim.MaxPerAgent = 500, 500, 2
		})
		defer b.stop()
		want := []string{"claim.max_per_agent 2, and 0 here", "cluster.name north, as this one has"}
		eventually(t, "the other member is heard of", func() bool {
			c, err := a.Cluster(t.Context())
			for _, m := range c.Members {
				if !m.Self {
					return err == nil && strings.Join(m.Differs, "; ") == strings.Join(want, "; ") && m.Version == "test"
				}
			}
			return false
		})
		eventually(t, "the status of the one that came later tells of it", func() bool {
			return strings.Contains(strings.Join(b.status().Warnings, "\n"), "member north of the cluster has claim.max_per_agent 0, and 2 here: give all members")
		})
	})
}

// A daemon that leaves the cluster goes on with what it holds, and waits for its claims to
// settle again; nothing of etcd is needed any more.
func TestLeavingTheCluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		held, other := w.add("Mend the roof", nil), w.add("Paint the door", nil)
		inside := func(c *config.Config) {
			c.Cluster.Etcd, c.Cluster.Name = []string{etcd.URL()}, "north"
			c.Notion.Rate, c.Notion.Burst = 500, 500
		}
		o := w.options(inside)
		a := w.start(o)
		cl := a.mustClaim("Sandman", held)
		a.stop()
		etcd.Stop()
		o.Config.Cluster.Etcd, o.Config.Claim.WriteWindow, o.Config.Claim.Settle = nil, 500*time.Millisecond, 600*time.Millisecond
		a = w.start(o)
		defer a.stop()
		if a.status().Cluster != nil {
			t.Error("it is in a cluster")
		}
		if _, err := a.claim("Oracle", held); code(err) != denied(claim.CodeHeld) {
			t.Errorf("what is held: %v", err)
		}
		if _, err := a.Renew(t.Context(), string(cl.ID), api.RenewRequest{Agent: "Sandman"}, ""); err != nil {
			t.Error(err)
		}
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
		began := time.Now()
		next := a.mustClaim("Oracle", other)
		if took := time.Since(began); took < 600*time.Millisecond || next.Fence != 0 {
			t.Errorf("a claim took %v, and has fence %d", took, next.Fence)
		}
	})
}

// A daemon that is started again soon after etcd was adopted sends nothing yet: what it would
// send with may have been another one's a moment ago.
func TestStartedAgainAfterAdoption(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		o := w.memberOptions("north", etcd.URL())
		a := w.start(o)
		defer func() { a.stop() }()
		share := func() (n int) {
			eventually(t, "it is listed", func() bool {
				c, err := a.Cluster(t.Context())
				if err != nil || len(c.Members) != 1 {
					return false
				}
				n = c.Members[0].Share
				return true
			})
			return n
		}
		if share() == 0 {
			t.Error("it has no share")
		}
		etcd.Stop()
		etcd.Empty()
		etcd.Begin()
		w.adopt(a)
		a.stop()
		w.notion.ResetRequests()
		a = w.start(o)
		if n, sent := share(), w.requests(); n != 0 || len(sent) > 0 {
			t.Errorf("it may send %d a minute, and has sent %v", n, sent)
		}
	})
}

// A daemon that joins while others have the whole budget has to ask Notion for the board, and
// waits until it may.
func TestJoiningWaitsForAShare(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), journal.FileName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		other, err := arbiter.Open(t.Context(), arbiter.Cluster{
			Endpoints: []string{etcd.URL()}, Prefix: "/dibs", Workspace: w.tasks, Name: "south",
		}, j, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		run, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all arbiter.Change
		for n := range arbiter.Slots {
			all.Take = append(all.Take, n)
		}
		if done, err := other.Change(t.Context(), run, all); err != nil || !done {
			t.Fatal(done, err)
		}
		standing, err := other.Extend(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		given := time.AfterFunc(time.Second, func() {
			if done, err := other.Change(t.Context(), run, arbiter.Change{Give: map[int]arbiter.Slot{7: standing.Slots[7]}}); err != nil || !done {
				t.Error(done, err)
			}
		})
		defer given.Stop()
		a := w.member("north", etcd.URL())
		if _, err := a.claim("Sandman", w.add("Mend the roof", nil)); err != nil {
			t.Error(err)
		}
	})
}
