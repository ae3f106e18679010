package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
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
		if _, err := a.AdoptCluster(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		a.stop()
		w.notion.ResetRequests()
		a = w.start(o)
		if n, sent := share(), w.requests(); n != 0 || len(sent) > 0 {
			t.Errorf("it may send %d a minute, and has sent %v", n, sent)
		}
	})
}
