package daemon_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/pgtest"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// sharing has a daemon keep its journal where others do, too.
func sharing(s *pgtest.Server, name string) func(*config.Config) {
	return func(c *config.Config) {
		c.Journal.Postgres, c.Cluster.Name = config.Secret(s.URL()), name
	}
}

// standsBy waits until a daemon says that another one leads.
func (n *node) standsBy(leader string) {
	n.w.Helper()
	for range 200 {
		_, err := n.Status(n.w.Context())
		if err != nil && strings.Contains(err.Error(), leader+" leads") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.w.Fatalf("%s is not said to lead", leader)
}

// leads waits until a daemon leads.
func (n *node) leads() {
	n.w.Helper()
	var err error
	for range 300 {
		if _, err = n.Status(n.w.Context()); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.w.Fatalf("it does not lead: %v", err)
}

// depose has the term of whoever leads be over, as when the leader is frozen.
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

// One leads, and another goes on with all that was held and owed: when the first stops, and
// when it is taken for dead, and is not.
func TestAnotherDaemonGoesOn(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		w.add("Second", nil)
		a := w.daemon(sharing(s, "a"))
		a.leads()
		b := w.daemon(sharing(s, "b"))
		b.standsBy("a")
		for _, n := range []*node{a, b} {
			c, err := n.Cluster(w.Context())
			if err != nil || c.Leader != "a" || c.Epoch != 1 || len(c.Members) != 2 || !c.Members[0].Leader || c.Members[1].Leader {
				w.Errorf("the members: %+v, %v", c, err)
			}
		}
		first := a.mustClaim("Sandman", "")
		if _, err := a.Send(w.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}, ""); err != nil {
			w.Fatal(err)
		}
		if _, err := b.claim("Oracle", ""); err == nil {
			w.Error("who stands by granted a task")
		}

		depose(w, s)
		b.leads()
		a.standsBy("b")
		if err := b.complete(first); err != nil {
			w.Errorf("what was held at the former leader: %v", err)
		}
		second := b.mustClaim("Oracle", "")
		if second.Fence != 0 && second.Fence <= first.Fence {
			w.Errorf("fences %d and then %d", first.Fence, second.Fence)
		}

		b.stop()
		a.leads()
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
