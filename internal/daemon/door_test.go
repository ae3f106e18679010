package daemon_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit/pgtest"
)

// members starts a daemon for each name; the first leads.
func (w *world) members(s *pgtest.Server, names string, change func(name string, c *config.Config)) []*node {
	w.Helper()
	var all []*node
	for _, name := range strings.Fields(names) {
		n := w.daemon(func(c *config.Config) {
			sharing(s, name)(c)
			if change != nil {
				change(name, c)
			}
		})
		all = append(all, n)
		n.led(strings.Fields(names)[0])
	}
	return all
}

// A caller may use the names that its own machine's configuration lists.
func TestNamesCountAtTheDoor(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		w.add("Second", nil)
		var second config.Config
		all := w.members(s, "a b", func(name string, c *config.Config) {
			if name == "b" {
				second = *c
				second.Agents = []config.Agent{{Name: "Merlin"}}
				c.Agents = []config.Agent{{Name: "Oracle"}, {Name: "Root", UIDs: []int{0}}}
			} else {
				c.Agents = []config.Agent{{Name: "Sandman"}}
			}
		})
		a, b := all[0], all[1]
		for _, tt := range []struct {
			at    *node
			agent string
			want  string
		}{
			{a, "Sandman", "<nil>"}, {a, "Oracle", string(api.CodeForbiddenAgent)},
			{b, "Oracle", "<nil>"}, {b, "Sandman", string(api.CodeForbiddenAgent)}, {b, "Root", string(api.CodeForbiddenAgent)},
		} {
			if _, err := tt.at.claim(tt.agent, ""); code(err) != tt.want {
				t.Errorf("%s: %v, want %s", tt.agent, err, tt.want)
			}
		}
		// Changed names apply as soon as the leader has heard of them.
		mustDo(w, b.daemon.Reload(second))
		time.Sleep(time.Minute)
		for agent, want := range map[string]string{"Merlin": denied(claim.CodeNothingReady), "Oracle": string(api.CodeForbiddenAgent)} {
			if _, err := b.claim(agent, ""); code(err) != want {
				t.Errorf("%s, once the configuration has changed: %v, want %s", agent, err, want)
			}
		}
		b.stop()
		a.stop()
	})
}

// A waiting request continues when another member takes the lead, and is done once.
func TestAWaitOutlivesTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b c", nil)
		a, b, c := all[0], all[1], all[2]
		got := make(chan error, 1)
		var cl api.Claim
		go func() {
			var err error
			cl, err = c.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 120}, "")
			got <- err
		}()
		time.Sleep(time.Second)
		a.stop()
		w.add("First", nil)
		if err := <-got; err != nil || cl.Agent != "Sandman" {
			t.Errorf("the wait: %v, %v", cl, err)
		}
		held, err := b.Claims(w.Context(), "")
		if err != nil || len(held.Claims) != 1 {
			t.Errorf("claims: %v, %v", held, err)
		}
		b.stop()
		c.stop()
	})
}

// If the leader cannot be reached, a door says who leads, and why it cannot ask.
func TestNoWayToTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		w.wires.sever("a:7331", true)
		begun := time.Now()
		_, err := b.claim("Sandman", "")
		if code(err) != denied(claim.CodeJournalUnavailable) || !strings.Contains(err.Error(), "a leads since") || !strings.Contains(err.Error(), "no way to a:7331") {
			t.Errorf("a claim without a way: %v", err)
		}
		if took := time.Since(begun); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("it was tried for %v, want 10 s", took)
		}
		begun = time.Now()
		if _, err := b.Cluster(w.Context()); err != nil {
			t.Errorf("who the members are: %v", err)
		}
		if _, err := b.Status(w.Context()); code(err) != denied(claim.CodeJournalUnavailable) || !strings.Contains(err.Error(), "no way to a:7331") {
			t.Errorf("the status without a way: %v", err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("questions about the cluster took %v", took)
		}
		w.wires.sever("a:7331", false)
		if _, err := b.Status(w.Context()); err != nil {
			t.Errorf("with the way back: %v", err)
		}
		b.stop()
		a.stop()
	})
}

// A process that keeps a claim is watched on its own machine.
func TestAProcessAtTheDoor(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cl, err := b.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", TimeoutMinutes: 2, Keeper: api.Keeper{PID: cmd.Process.Pid}}, "")
		if err != nil {
			t.Fatal(err)
		}
		held := func() bool {
			w.Helper()
			all, err := a.Claims(w.Context(), "Sandman")
			if err != nil {
				t.Fatal(err)
			}
			return len(all.Claims) == 1
		}
		time.Sleep(8 * time.Minute)
		if !held() {
			t.Error("it is not held while its process lives")
		}
		// Silence does not mean that the process has ended.
		w.wires.sever("b:7331", true)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		time.Sleep(time.Minute)
		if !held() {
			t.Error("it was given back though nobody could know")
		}
		w.wires.sever("b:7331", false)
		time.Sleep(5 * time.Second)
		if held() {
			t.Errorf("claim %s is held still, and its process is gone", cl.ID)
		}
		b.stop()
		a.stop()
	})
}
