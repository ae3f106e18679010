package chaos_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

// calmBoard runs a test with an etcd and a board of three tasks, which nothing befalls but what
// the test does.
func calmBoard(t *testing.T, test func(c *chaos, etcd *arbitertest.Etcd, ids []string)) {
	t.Helper()
	notion, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notion.Close() })
	dbs, err := notion.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 3 {
		page, err := notion.CreatePage(dbs.Tasks, map[string]any{"Name": text("title", fmt.Sprint("Task ", i))})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, page)
	}
	s := season{timeout: 10 * time.Second, window: 5 * time.Second, settle: 6 * time.Second, interval: 10 * time.Second}
	c := &chaos{T: t, season: s, notion: notion, tasks: dbs.Tasks}
	c.live()
	test(c, arbitertest.Start(t), ids)
}

// member starts a member of the cluster that is a process of its own.
func (c *chaos) member(number int, url string, clock time.Duration) *process {
	c.Helper()
	p := newProcess(c, number)
	p.env = append(p.env, "DIBS_CLUSTER_ETCD="+url, fmt.Sprint("DIBS_CLUSTER_NAME=m", number))
	p.wall = clock
	p.start()
	c.alive()
	return p
}

// A member that stands still for longer than its lease cannot touch what it lost.
func TestPausedMember(t *testing.T) {
	if !canBendClocks {
		t.Skip("clocks cannot be made wrong here")
	}
	calmBoard(t, func(c *chaos, etcd *arbitertest.Etcd, ids []string) {
		id := ids[0]
		a, b := c.member(1, etcd.URL(), 0), c.member(2, etcd.URL(), 0)
		agent, other := client.New(a.socket), client.New(b.socket)
		cl, err := agent.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman", Task: id}, "")
		if err != nil {
			t.Fatal(err)
		}
		a.cmd.Process.Signal(syscall.SIGSTOP)
		// An hour passes: for Notion, for the machine, and for the lease of the row in etcd.
		c.notion.Inject(emulator.Fault{Kind: emulator.WrongDate, Off: time.Hour})
		if _, err := etcd.Client("", "").Delete(t.Context(), "/dibs/"+canonical(c.tasks)+"/tasks/"+canonical(id)); err != nil {
			t.Fatal(err)
		}
		var next api.Claim
		eventually(t, "another member knows what time it is", func() bool {
			var err error
			next, err = other.Claim(t.Context(), api.ClaimRequest{Agent: "Oracle", Task: id}, "")
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
			if p, _ := errors.AsType[*api.Problem](said); p == nil || p.Code != api.CodeClaimLost {
				t.Errorf("%s: %v", what, said)
			}
		}
		if page, _ := c.notion.Page(id); page.Text("claimed_by") != "Oracle" || page.Select("status") != "IN_PROGRESS" || page.Text("claim_token") != string(next.ID) {
			t.Errorf("the page: %s, %s, %s", page.Text("claimed_by"), page.Select("status"), page.Text("claim_token"))
		}
		if _, err := other.Complete(t.Context(), string(next.ID), api.CompleteRequest{Agent: "Oracle", Summary: "done"}, ""); err != nil {
			t.Error(err)
		}
	})
}

// Members whose clocks are off by an hour, either way, have what they have for as long as others.
func TestClocksOfMembers(t *testing.T) {
	if !canBendClocks {
		t.Skip("clocks cannot be made wrong here")
	}
	calmBoard(t, func(c *chaos, etcd *arbitertest.Etcd, ids []string) {
		var agents []*client.Client
		clocks := []time.Duration{time.Hour, -time.Hour, 0}
		for i, off := range clocks {
			agents = append(agents, client.New(c.member(i+1, etcd.URL(), off).socket))
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

// canonical is an id as it is a key in etcd.
func canonical(id string) string {
	parsed, err := task.ParseID(id)
	if err != nil {
		panic(err)
	}
	return string(parsed)
}

// eventually waits for what has to come to pass.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timed out: ", what)
		}
	}
}
