package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

// memberProcess starts a member of the cluster that is a process of its own.
func (w *world) memberProcess(number int, url string, clock time.Duration) *process {
	w.Helper()
	c := &chaos{T: w.T, notion: w.notion, season: season{timeout: 10 * time.Second, window: 5 * time.Second, settle: 6 * time.Second, interval: 10 * time.Second}}
	p := newProcess(c, number)
	p.env = append(p.env, "DIBS_CLUSTER_ETCD="+url, fmt.Sprint("DIBS_CLUSTER_NAME=m", number))
	p.wall = clock
	p.start(w)
	if w.Failed() {
		w.FailNow()
	}
	return p
}

// A member that stands still for longer than its lease cannot touch what it lost.
func TestPausedMember(t *testing.T) {
	if !canBendClocks {
		t.Skip("clocks cannot be made wrong here")
	}
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		a, b := w.memberProcess(1, etcd.URL(), 0), w.member("south", etcd.URL())
		agent := client.New(a.socket)
		cl, err := agent.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman", Task: id}, "")
		if err != nil {
			t.Fatal(err)
		}
		a.cmd.Process.Signal(syscall.SIGSTOP)
		// An hour passes: for Notion, for the machine, and for the lease of the row in etcd.
		w.notion.Inject(emulator.Fault{Kind: emulator.WrongDate, Off: time.Hour})
		if _, err := etcd.Client("", "").Delete(t.Context(), "/dibs/"+canonical(w.tasks)+"/tasks/"+canonical(id)); err != nil {
			t.Fatal(err)
		}
		var next api.Claim
		eventually(t, "another member knows what time it is", func() bool {
			var err error
			next, err = b.claim("Oracle", id)
			return err == nil
		})
		if next.Fence <= cl.Fence {
			t.Errorf("fence %d after %d", next.Fence, cl.Fence)
		}
		if err := a.jump(time.Hour, time.Hour); err != nil {
			t.Fatal(err)
		}
		a.cmd.Process.Signal(syscall.SIGCONT)
		for what, do := range map[string]func() error{
			"renew": func() error {
				_, err := agent.Renew(t.Context(), string(cl.ID), api.RenewRequest{Agent: "Sandman"}, "")
				return err
			},
			"complete": func() error {
				_, err := agent.Complete(t.Context(), string(cl.ID), api.CompleteRequest{Agent: "Sandman", Summary: "done"}, "")
				return err
			},
		} {
			var said error
			eventually(t, what+" is refused", func() bool { said = do(); return said != nil })
			if code(said) != string(api.CodeClaimLost) {
				t.Errorf("%s: %v", what, said)
			}
		}
		if page := w.page(id); page.Text("claimed_by") != "Oracle" || page.Select("status") != "IN_PROGRESS" || page.Text("claim_token") != string(next.ID) {
			t.Errorf("the page: %s, %s, %s", page.Text("claimed_by"), page.Select("status"), page.Text("claim_token"))
		}
		if err := b.complete(next); err != nil {
			t.Error(err)
		}
	})
}

// Members whose clocks are off by an hour, either way, have what they have for as long as others.
func TestClocksOfMembers(t *testing.T) {
	if !canBendClocks {
		t.Skip("clocks cannot be made wrong here")
	}
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		var agents []*client.Client
		var ids []string
		clocks := []time.Duration{time.Hour, -time.Hour, 0}
		for i, off := range clocks {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
			agents = append(agents, client.New(w.memberProcess(i+1, etcd.URL(), off).socket))
		}
		var claims []api.Claim
		for i, agent := range agents {
			cl, err := agent.Claim(t.Context(), api.ClaimRequest{Agent: fmt.Sprint("agent-", i), Task: ids[i]}, "")
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(cl.ExpiresAt.Time) - clocks[i]; left < chaosLease-5*time.Second || left > chaosLease+5*time.Second {
				t.Errorf("member %d: its claim is good for %v", i, left)
			}
			claims = append(claims, cl)
		}
		for i, agent := range agents {
			for k, id := range ids {
				_, err := agent.Claim(t.Context(), api.ClaimRequest{Agent: "Rival", Task: id}, "")
				var p *api.Problem
				if !errors.As(err, &p) || p.Code != api.Code(claim.CodeHeld) || p.Holder != claims[k].Agent {
					t.Errorf("member %d was not refused the task of %d: %v", i, k, err)
				}
			}
		}
		for i, agent := range agents {
			if _, err := agent.Renew(t.Context(), string(claims[i].ID), api.RenewRequest{Agent: claims[i].Agent}, ""); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
			if _, err := agent.Complete(t.Context(), string(claims[i].ID), api.CompleteRequest{Agent: claims[i].Agent, Summary: "done"}, ""); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		}
	})
}

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

// canonical is an id as it is a key in etcd.
func canonical(id string) string {
	parsed, err := task.ParseID(id)
	if err != nil {
		panic(err)
	}
	return string(parsed)
}
