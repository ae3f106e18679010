package daemon_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/cluster"
	"dibs/internal/daemon"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// sharing configures a daemon with a shared journal.
func sharing(s *pgtest.Server, name string) func(*config.Config) {
	return func(c *config.Config) {
		c.Journal.Postgres, c.Cluster.Name, c.Cluster.Listen = config.Secret(s.URL()), name, name+":7331"
	}
}

// led waits until a daemon names that leader, and passes on its answers.
func (n *node) led(leader string) {
	n.w.Helper()
	for range 300 {
		c, err := client.Do(n.w.Context(), n.Client, api.OpCluster, struct{}{})
		if err == nil && c.Leader == leader {
			if _, err = client.Do(n.w.Context(), n.Client, api.OpStatus, struct{}{}); err == nil {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.w.Fatalf("%s does not lead", leader)
}

// leads waits until the daemon leads.
func (n *node) leads() {
	n.w.Helper()
	for range 300 {
		if c, err := client.Do(n.w.Context(), n.Client, api.OpCluster, struct{}{}); err == nil && c.Leader == c.Name && c.Name != "" {
			if _, err = client.Do(n.w.Context(), n.Client, api.OpStatus, struct{}{}); err == nil {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.w.Fatal("it does not lead")
}

// depose ends the leader's term, as if the leader were frozen.
func depose(w *world, s *pgtest.Server) {
	w.Helper()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE dibs_" + strings.ReplaceAll(w.notion.Databases().Tasks, "-", "") + ".leader SET until = '-infinity'"); err != nil {
		w.Fatal(err)
	}
}

// When the leader stops, or is wrongly taken for dead, another daemon continues with all claims and
// the outbox. Every member answers.
func TestAnotherDaemonGoesOn(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		w.add("Second", nil)
		a := w.daemon(sharing(s, "a"))
		a.led("a")
		b := w.daemon(sharing(s, "b"))
		b.led("a")
		for _, n := range []*node{a, b} {
			c, err := client.Do(w.Context(), n.Client, api.OpCluster, struct{}{})
			if err != nil || c.Leader != "a" || c.Epoch != 1 || len(c.Members) != 2 || !c.Members[0].Leader || c.Members[1].Leader || c.Members[1].Address != "b:7331" {
				w.Errorf("the members: %+v, %v", c, err)
			}
		}
		first := a.mustClaim("Sandman", "")
		if _, err := client.Do(w.Context(), a.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"})); err != nil {
			w.Fatal(err)
		}
		second := b.mustClaim("Oracle", "")

		depose(w, s)
		b.led("b")
		a.led("b")
		if err := a.complete(first); err != nil {
			w.Errorf("what was held at the former leader, finished there: %v", err)
		}

		b.stop()
		a.led("a")
		held, err := client.Do(w.Context(), a.Client, api.OpListClaims, api.AgentFilter{Agent: "Oracle"})
		if err != nil || len(held.Claims) != 1 || held.Claims[0].ID != second.ID {
			w.Errorf("what is held at the next leader: %v, %v", held, err)
		}
		got, err := client.Do(w.Context(), a.Client, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{}})
		if err != nil || len(got.Triggers) == 0 {
			w.Errorf("the message: %v, %v", got, err)
		}
		a.stop()
		if got := w.work(); len(got) != 1 {
			w.Errorf("Agent Task Log: %q, want the one that was finished", got)
		}
	})
}

// A member whose log databases are not those of the others is refused when it starts, and may have
// them once nobody else is there.
func TestOtherDatabases(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		a := w.daemon(sharing(s, "a"))
		a.led("a")
		swapped := w.options(func(c *config.Config) {
			sharing(s, "b")(c)
			c.Databases.TaskLog, c.Databases.MeshLog = c.Databases.MeshLog, c.Databases.TaskLog
		})
		_, err := daemon.Start(w.Context(), swapped)
		if _, ok := errors.AsType[*cluster.DatabasesError](err); !ok || !strings.Contains(err.Error(), "databases.mesh_log") || !strings.Contains(err.Error(), "at a") {
			t.Errorf("Start = %v, want that the databases differ from those of a", err)
		}
		a.stop()
		b, err := daemon.Start(w.Context(), swapped)
		if err != nil {
			t.Fatalf("alone: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

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
			cl, err = client.Do(w.Context(), c.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 120}))
			got <- err
		}()
		time.Sleep(time.Second)
		a.stop()
		w.add("First", nil)
		if err := <-got; err != nil || cl.Agent != "Sandman" {
			t.Errorf("the wait: %v, %v", cl, err)
		}
		held, err := client.Do(w.Context(), b.Client, api.OpListClaims, api.AgentFilter{})
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
		if _, err := client.Do(w.Context(), b.Client, api.OpCluster, struct{}{}); err != nil {
			t.Errorf("who the members are: %v", err)
		}
		if _, err := client.Do(w.Context(), b.Client, api.OpStatus, struct{}{}); code(err) != denied(claim.CodeJournalUnavailable) || !strings.Contains(err.Error(), "no way to a:7331") {
			t.Errorf("the status without a way: %v", err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("questions about the cluster took %v", took)
		}
		w.wires.sever("a:7331", false)
		if _, err := client.Do(w.Context(), b.Client, api.OpStatus, struct{}{}); err != nil {
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
		cl, err := client.Do(w.Context(), b.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", TimeoutMinutes: 2, Keeper: api.Keeper{PID: cmd.Process.Pid}}))
		if err != nil {
			t.Fatal(err)
		}
		held := func() bool {
			w.Helper()
			all, err := client.Do(w.Context(), a.Client, api.OpListClaims, api.AgentFilter{Agent: "Sandman"})
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

// A member that takes the lead and then cannot read the journal stays a door, and tries again.
func TestJournalAwayWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		db, err := sql.Open("pgx", s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		lock, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock.Exec("LOCK TABLE dibs_" + strings.ReplaceAll(w.tasks, "-", "") + ".claims IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		a.stop()
		time.Sleep(5 * time.Second)
		if err := lock.Rollback(); err != nil {
			t.Fatal(err)
		}
		b.led("b")
		b.mustClaim("Sandman", id)
		b.stop()
	})
}

// A member without permission for the journal ends: if it stood by, it would take the lead again
// and again, and nobody else could.
func TestJournalRefusedWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		space := "dibs_" + strings.ReplaceAll(w.tasks, "-", "")
		for _, statement := range []string{
			// Simulates missing privileges: this server's user has them all.
			"CREATE FUNCTION " + space + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '42501'; END $$",
			"CREATE TRIGGER refuse BEFORE UPDATE ON " + space + ".owed FOR EACH STATEMENT EXECUTE FUNCTION " + space + ".refuse()",
		} {
			if err := s.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		a.stop()
		if err := b.failed(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("the member: %v; want that it ends with what is wrong with the journal", err)
		}
	})
}

// A standby that lagged takes over while the members run: they say what may be lost, grant nothing
// until lost writes have arrived and the board was read, and go on. What was claimed in the time that
// is lost is a stranger's; a task made under a key stays one page.
func TestStandbyThatLagged(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		kept, lost, open := w.add("kept", nil), w.add("lost", nil), w.add("open", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		before := a.mustClaim("Trinity", kept)
		w.backUp(s)
		a.mustClaim("Sandman", lost)
		made := b.mustAdd(api.AddRequest{Title: "made"}, "once")
		time.Sleep(5 * time.Second) // both have seen the last transaction
		w.restore(s)

		var refused *api.Problem
		for range 100 { // until it is noticed, callers wait for the next leader
			_, err := b.claim("Oracle", open)
			if errors.As(err, &refused) && strings.Contains(refused.Detail, "set back") {
				break
			}
			time.Sleep(time.Second)
		}
		if refused == nil || refused.Code != api.Code(claim.CodeJournalUnavailable) || refused.RetryAfter == 0 || !strings.Contains(refused.Detail, "may be lost") {
			t.Fatalf("a claim after it: %+v; want that it is refused for a while", refused)
		}
		time.Sleep(70 * time.Second)
		for _, n := range all {
			if got := strings.Join(n.status().Warnings, "\n"); !strings.Contains(got, "set back") || !strings.Contains(got, "may be lost") {
				t.Errorf("the status warns %q", got)
			}
		}
		b.mustClaim("Oracle", open)
		if _, err := b.claim("Oracle", lost); code(err) != denied(claim.CodeHeld) {
			t.Errorf("what was claimed in the time that is lost: %v, want that it is held", err)
		}
		if err := b.complete(before); err != nil {
			t.Errorf("the end of what was claimed before: %v", err)
		}
		time.Sleep(3 * time.Minute) // what may have been sent before has arrived
		if again := b.mustAdd(api.AddRequest{Title: "made"}, "once"); again.ID != made.ID {
			t.Errorf("a task asked for again under its key is made as %s, want %s", again.ID, made.ID)
		}
		for _, n := range all {
			n.stop()
		}
	})
}

// Whenever the way from a door to the leader is cut under a claim, its caller gets the answer under
// its key, or is told to ask again. The claim is lost to nobody.
func TestCutUnderAClaim(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		b := w.members(s, "a b", nil)[1]
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 100 * time.Millisecond, 100 * time.Millisecond
		})
		granted := 0
		for after := 50 * time.Millisecond; after <= time.Second; after += 50 * time.Millisecond {
			id, agent := w.add(fmt.Sprint("cut after ", after), nil), fmt.Sprint("agent-", after.Milliseconds())
			time.AfterFunc(after, func() { w.wires.sever("a:7331", false) })
			cl, err := b.claim(agent, id)
			switch {
			case err == nil:
				granted++
				if err := b.complete(cl); err != nil {
					t.Errorf("cut after %v, what was granted: %v", after, err)
				}
			case code(err) != denied(claim.CodeJournalUnavailable):
				t.Errorf("cut after %v: %v", after, err)
			}
			time.Sleep(2 * time.Second)
		}
		if granted == 0 {
			t.Error("nothing was granted")
		}
		for _, n := range w.nodes {
			n.stop()
		}
	})
}

// TestRepeatedAfterCut stops a daemon during a settle wait that is longer than its drain time. The
// next daemon does not refuse the same request because of the remains of the first attempt, and
// grants it once that is withdrawn.
func TestRepeatedAfterCut(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Cut off", nil)
		o := w.options(func(c *config.Config) {
			c.Claim.WriteWindow, c.Claim.Settle = 40*time.Second, time.Minute
		})
		ask := func(n *node) (api.Claim, error) {
			return client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("the same", api.ClaimRequest{Agent: "Sandman", Task: id}))
		}
		first := w.start(o)
		cut := make(chan error, 1)
		go func() {
			_, err := ask(first)
			cut <- err
		}()
		time.Sleep(5 * time.Second)
		if p := w.page(id); p.Text("claimed_by") != "Sandman" {
			t.Errorf("the page shows %q: the claim was not written before the stop", p.Text("claimed_by"))
		}
		first.stop()
		if err := <-cut; code(err) != string(api.CodeStopping) {
			t.Errorf("the claim that could not be verified before the stop was answered: %v", err)
		}

		second := w.start(o)
		if _, err := ask(second); code(err) != denied(claim.CodeNotionUnavailable) {
			t.Errorf("the same request, with the first attempt not withdrawn: %v", err)
		}
		time.Sleep(15 * time.Minute)
		if cl, err := ask(second); err != nil || cl.Agent != "Sandman" {
			t.Errorf("the same request, with the first attempt withdrawn: %+v, %v", cl, err)
		}
	})
}
