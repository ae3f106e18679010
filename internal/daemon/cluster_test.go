package daemon_test

import (
	"cmp"
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

// led waits until a daemon names that leader, and passes on its answers; itself, if leader is empty.
func (n *node) led(leader string) {
	n.w.Helper()
	for range 300 {
		if c, err := call(n, api.OpCluster, struct{}{}); err == nil && c.Name != "" && c.Leader == cmp.Or(leader, c.Name) {
			if _, err = call(n, api.OpStatus, struct{}{}); err == nil {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.w.Fatalf("%s does not lead", cmp.Or(leader, "it"))
}

// leads waits until the daemon leads.
func (n *node) leads() {
	n.w.Helper()
	n.led("")
}

// space is the schema of a board in a shared journal.
func (w *world) space() string {
	return "dibs_" + strings.ReplaceAll(w.notion.Databases().Tasks, "-", "")
}

// depose ends the leader's term, as if the leader were frozen.
func depose(w *world, s *pgtest.Server) {
	w.Helper()
	mustDo(w, s.Exec("UPDATE "+w.space()+".leadership SET until = '-infinity'"))
}

// When the leader stops, or is wrongly taken for dead, another daemon continues with all claims and
// the outbox. Every member answers.
func TestAnotherDaemonGoesOn(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		w.add("Second", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		for _, n := range all {
			c := mustCall(n, api.OpCluster, struct{}{})
			if c.Leader != "a" || c.Epoch != 1 || len(c.Members) != 2 || !c.Members[0].Leader || c.Members[1].Leader || c.Members[1].Address != "b:7331" {
				w.Errorf("the members: %+v", c)
			}
		}
		first := a.mustClaim("Sandman", "")
		mustCall(a, api.OpSend, api.Keyed("", api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}))
		other := b.mustClaim("Oracle", "")

		depose(w, s)
		b.led("b")
		a.led("b")
		mustDo(w, a.complete(first)) // what was held at the former leader, finished there

		b.stop()
		a.led("a")
		held := mustCall(a, api.OpListClaims, api.AgentFilter{Agent: "Oracle"}).Claims
		if len(held) != 1 || held[0].ID != other.ID {
			w.Errorf("what is held at the next leader: %v", held)
		}
		if got := a.poll("Oracle", 0); len(got) == 0 {
			w.Error("the message is lost")
		}
		a.stop()
		same(w, "Agent Task Log, with the one that was finished", 1, len(w.work()))
	})
}

// A member whose log databases are not those of the others is refused when it starts, and may have
// them once nobody else is there.
func TestOtherDatabases(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		a := w.members(s, "a", nil)[0]
		swapped := w.options(func(c *config.Config) {
			sharing(s, "b")(c)
			c.Databases.TaskLog, c.Databases.MeshLog = c.Databases.MeshLog, c.Databases.TaskLog
		})
		_, err := daemon.Start(w.Context(), swapped)
		w.mentions(err, "databases.mesh_log", "at a")
		if _, ok := errors.AsType[*cluster.DatabasesError](err); !ok {
			t.Errorf("Start = %v, want that the databases differ from those of a", err)
		}
		a.stop()
		b, err := daemon.Start(w.Context(), swapped)
		mustDo(w, err)
		mustDo(w, b.Close())
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
		var changed config.Config
		all := w.members(s, "a b", func(name string, c *config.Config) {
			c.Agents = []config.Agent{{Name: "Sandman"}}
			if name == "b" {
				changed = *c
				changed.Agents = []config.Agent{{Name: "Merlin"}}
				c.Agents = []config.Agent{{Name: "Oracle"}, {Name: "Root", UIDs: []int{0}}}
			}
		})
		a, b := all[0], all[1]
		forbidden := func(at *node, agents ...string) {
			for _, agent := range agents {
				w.refused(agent, second(at.claim(agent, "")), string(api.CodeForbiddenAgent))
			}
		}
		a.mustClaim("Sandman", "")
		b.mustClaim("Oracle", "")
		forbidden(a, "Oracle")
		forbidden(b, "Sandman", "Root")
		// Changed names apply as soon as the leader has heard of them.
		mustDo(w, b.daemon.Reload(changed))
		time.Sleep(time.Minute)
		w.refused("Merlin", second(b.claim("Merlin", "")), denied(claim.CodeNothingReady))
		forbidden(b, "Oracle")
	})
}

// A waiting request continues when another member takes the lead, and is done once.
func TestAWaitOutlivesTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b c", nil)
		time.AfterFunc(time.Second, func() {
			all[0].stop()
			w.add("First", nil)
		})
		mustDo(w, second(all[2].waitFor("Sandman", "", 2*time.Minute)))
		same(w, "claims", 1, len(mustCall(all[1], api.OpListClaims, api.AgentFilter{}).Claims))
	})
}

// If the leader cannot be reached, a door says who leads, and why it cannot ask.
func TestNoWayToTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		b := w.members(s, "a b", nil)[1]
		w.wires.sever("a:7331", true)
		begun := time.Now()
		w.refused("a claim without a way", second(b.claim("Sandman", "")), denied(claim.CodeJournalUnavailable), "a leads since", "no way to a:7331")
		if took := time.Since(begun); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("it was tried for %v, want 10 s", took)
		}
		begun = time.Now()
		mustCall(b, api.OpCluster, struct{}{})
		w.refused("the status", second(call(b, api.OpStatus, struct{}{})), denied(claim.CodeJournalUnavailable), "no way to a:7331")
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("questions about the cluster took %v", took)
		}
		w.wires.sever("a:7331", false)
		b.status()
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
		mustDo(w, cmd.Start())
		mustCall(b, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", TimeoutMinutes: 2, Keeper: api.Keeper{PID: cmd.Process.Pid}}))
		held := func() int { return len(mustCall(a, api.OpListClaims, api.AgentFilter{Agent: "Sandman"}).Claims) }
		time.Sleep(8 * time.Minute)
		same(w, "held while its process lives", 1, held())
		// Silence does not mean that the process has ended.
		w.wires.sever("b:7331", true)
		mustDo(w, cmd.Process.Kill())
		_ = cmd.Wait()
		time.Sleep(time.Minute)
		same(w, "held though nobody could know", 1, held())
		w.wires.sever("b:7331", false)
		time.Sleep(5 * time.Second)
		same(w, "held though its process is gone", 0, held())
	})
}

// A member that takes the lead and then cannot read the journal stays a door, and tries again.
func TestJournalAwayWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		all := w.members(s, "a b", nil)
		db, err := sql.Open("pgx", s.URL())
		mustDo(w, err)
		defer db.Close()
		lock, err := db.Begin()
		mustDo(w, err)
		_, err = lock.Exec("LOCK TABLE " + w.space() + ".claims IN ACCESS EXCLUSIVE MODE")
		mustDo(w, err)
		all[0].stop()
		time.Sleep(5 * time.Second)
		mustDo(w, lock.Rollback())
		all[1].led("b")
		all[1].mustClaim("Sandman", id)
	})
}

// A member without permission for the journal ends: if it stood by, it would take the lead again
// and again, and nobody else could.
func TestJournalRefusedWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b", nil)
		for _, statement := range []string{
			// Simulates missing privileges: this server's user has them all.
			"CREATE FUNCTION " + w.space() + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '42501'; END $$",
			"CREATE TRIGGER refuse BEFORE UPDATE ON " + w.space() + ".owed FOR EACH STATEMENT EXECUTE FUNCTION " + w.space() + ".refuse()",
		} {
			mustDo(w, s.Exec(statement))
		}
		all[0].stop()
		w.mentions(all[1].failed(), "permission denied")
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
		w.until(2*time.Minute, "it noticed", func() bool { // until then, callers wait for the next leader
			return errors.As(second(b.claim("Oracle", open)), &refused) && strings.Contains(refused.Detail, "set back")
		})
		if refused.Code != api.Code(claim.CodeJournalUnavailable) || refused.RetryAfter == 0 || !strings.Contains(refused.Detail, "may be lost") {
			t.Fatalf("a claim after it: %+v; want that it is refused for a while", refused)
		}
		time.Sleep(70 * time.Second)
		for _, n := range all {
			if got := strings.Join(n.status().Warnings, "\n"); !strings.Contains(got, "set back") || !strings.Contains(got, "may be lost") {
				t.Errorf("the status warns %q", got)
			}
		}
		b.mustClaim("Oracle", open)
		w.refused("what was claimed in the time that is lost", second(b.claim("Oracle", lost)), denied(claim.CodeHeld))
		mustDo(w, b.complete(before))
		time.Sleep(3 * time.Minute) // what may have been sent before has arrived
		same(w, "a task asked for again under its key", made.ID, b.mustAdd(api.AddRequest{Title: "made"}, "once").ID)
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
			if cl, err := b.claim(agent, id); err == nil {
				granted++
				mustDo(w, b.complete(cl))
			} else {
				w.refused(fmt.Sprint("cut after ", after), err, denied(claim.CodeJournalUnavailable))
			}
			time.Sleep(2 * time.Second)
		}
		if granted == 0 {
			t.Error("nothing was granted")
		}
	})
}
