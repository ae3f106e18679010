package daemon_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
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
		c, err := n.Cluster(n.w.Context())
		if err == nil && c.Leader == leader {
			if _, err = n.Status(n.w.Context()); err == nil {
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
		if c, err := n.Cluster(n.w.Context()); err == nil && c.Leader == c.Name && c.Name != "" {
			if _, err = n.Status(n.w.Context()); err == nil {
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
			c, err := n.Cluster(w.Context())
			if err != nil || c.Leader != "a" || c.Epoch != 1 || len(c.Members) != 2 || !c.Members[0].Leader || c.Members[1].Leader || c.Members[1].Address != "b:7331" {
				w.Errorf("the members: %+v, %v", c, err)
			}
		}
		first := a.mustClaim("Sandman", "")
		if _, err := a.Send(w.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}, ""); err != nil {
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
		held, err := a.Claims(w.Context(), "Oracle")
		if err != nil || len(held.Claims) != 1 || held.Claims[0].ID != second.ID {
			w.Errorf("what is held at the next leader: %v, %v", held, err)
		}
		got, err := a.Poll(w.Context(), "Oracle", api.PollRequest{}, "")
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
