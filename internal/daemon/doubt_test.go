package daemon_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/claim/doubt"
	"dibs/internal/journal"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// tables executes a statement for each table of the board's journal, whose name replaces %[1]s, in
// one transaction.
func (w *world) tables(s *pgtest.Server, before, each string) {
	w.Helper()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	space := "dibs_" + strings.ReplaceAll(w.notion.Databases().Tasks, "-", "")
	rows, err := db.Query("SELECT tablename FROM pg_tables WHERE schemaname = $1", space)
	if err != nil {
		w.Fatal(err)
	}
	var names, statements []string
	for rows.Next() {
		var name string
		mustDo(w, rows.Scan(&name))
		names = append(names, space+"."+name)
		statements = append(statements, fmt.Sprintf(each, name, space))
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		w.Fatalf("tables %q: %v", names, err)
	}
	if strings.Contains(before, "%") {
		before = fmt.Sprintf(before, strings.Join(names, ", "))
	}
	mustDo(w, s.Exec(before+";"+strings.Join(statements, ";")))
}

// backUp copies the journal's database; restore copies it back.
func (w *world) backUp(s *pgtest.Server) {
	w.Helper()
	w.tables(s, "CREATE SCHEMA copy", "CREATE TABLE copy.%[1]s AS TABLE %[2]s.%[1]s")
}

func (w *world) restore(s *pgtest.Server) {
	w.Helper()
	w.tables(s, "TRUNCATE %s", "INSERT INTO %[2]s.%[1]s SELECT * FROM copy.%[1]s")
}

// onSocket starts a daemon on a real socket, which identifies its callers.
func (w *world) onSocket(change func(*config.Config)) *node {
	w.Helper()
	o := w.options(change)
	dir, err := os.MkdirTemp("", "dibs") // a socket's path must be short
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		w.Fatal(err)
	}
	outside := &world{T: w.T, notion: w.notion, tasks: w.tasks, tap: func(net.Listener) net.Listener { return l }}
	n := outside.start(o)
	n.dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	n.Client = client.Over(path, n.dial)
	return n
}

// doubted fails the test unless nothing is granted because of a claim on the board.
func (n *node) doubted(cl api.Claim, open string) {
	n.w.Helper()
	for _, id := range []string{"", open, string(cl.Task.ID)} {
		_, err := n.claim("Oracle", id)
		p, _ := errors.AsType[*api.Problem](err)
		if p == nil || p.Code != api.Code(claim.CodeJournalUnavailable) || p.Status != 503 || p.RetryAfter != 0 || p.Code.Exit() != api.ExitNotion {
			n.w.Errorf("a claim of %q: %v, want journal_unavailable, for nobody to try again soon", id, err)
			continue
		}
		for _, part := range []string{string(cl.ID), string(cl.Task.ID), cl.Task.Title, cl.Agent, "dibs adopt"} {
			if !strings.Contains(p.Detail, part) || strings.Contains(p.Detail, "\n") {
				n.w.Errorf("it says %q, without %q", p.Detail, part)
			}
		}
	}
	if s := n.status(); !strings.Contains(strings.Join(s.Warnings, "\n"), string(cl.ID)) {
		n.w.Errorf("the status warns %q", s.Warnings)
	}
	if c, err := client.Do(n.w.Context(), n.Client, api.OpCluster, struct{}{}); err != nil || !strings.Contains(c.LastError, string(cl.ID)) {
		n.w.Errorf("the cluster: %+v, %v", c, err)
	}
	if got := n.get("/metrics"); !strings.Contains(got, "\ndibs_journal_doubted 1\n") {
		n.w.Error("the metrics do not tell of the doubt")
	}
}

// So does a file.
func TestFileRestored(t *testing.T) {
	t.Parallel()
	inRealWorld(t, func(w *world) {
		first, second := w.add("first", nil), w.add("second", nil)
		w.add("open", nil)
		dir := filepath.Join(w.TempDir(), "state")
		file, copied := filepath.Join(dir, journal.FileName), filepath.Join(w.TempDir(), "copy.db")
		start := func() *node { return w.onSocket(func(c *config.Config) { c.StateDir = dir }) }
		n := start()
		known := n.mustClaim("Trinity", first)
		mustDo(w, journal.Backup(w.Context(), file, copied))
		unknown := n.mustClaim("Sandman", second)
		n.stop()
		mustDo(w, errors.Join(os.Remove(file), os.Rename(copied, file)))
		n = start()
		if _, err := n.claim("Oracle", ""); code(err) != denied(claim.CodeJournalUnavailable) || !strings.Contains(err.Error(), string(unknown.ID)) {
			w.Errorf("Oracle: %v, want journal_unavailable, for %s", err, unknown.ID)
		}
		if _, err := n.renew(known); err != nil {
			w.Errorf("what is known goes on: %v", err)
		}
		if c := mustCall(n, api.OpAdoptCluster, api.BareInput{}); c.Adopted == nil || !*c.Adopted || len(c.Members) != 0 {
			w.Errorf("adopted: %+v", c)
		}
		n.mustClaim("Oracle", "")
		if _, err := n.claim("Oracle", second); code(err) != denied(claim.CodeHeld) {
			w.Errorf("what is not known: %v, want it held by a stranger", err)
		}
		n.stop()
	})
}

// A database that was restored to an older state grants nothing until it is adopted, even after a restart. What is held
// goes on.
func TestDatabaseRestored(t *testing.T) {
	t.Parallel()
	s := pgtest.Run(t)
	inRealWorld(t, func(w *world) {
		first, second, open := w.add("first", nil), w.add("second", nil), w.add("open", nil)
		start := func() *node {
			n := w.onSocket(sharing(s, "a"))
			n.leads()
			return n
		}
		n := start()
		known := n.mustClaim("Trinity", first)
		n.stop()
		w.backUp(s)
		n = start()
		newer := n.mustClaim("Sandman", second)
		n.stop()
		w.restore(s)

		n = start()
		n.sync()
		n.doubted(newer, open)
		_, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(known.ID), "", api.RenewRequest{Agent: "Trinity"}))
		mustDo(w, err)
		mustDo(w, n.complete(known))
		n.stop()
		n = start()
		n.doubted(newer, open)
		for _, first := range []bool{true, false} {
			if c, err := client.Do(w.Context(), n.Client, api.OpAdoptCluster, api.BareInput{}); err != nil || c.Adopted == nil || *c.Adopted != first || c.LastError != "" || c.Epoch == 0 {
				w.Fatalf("AdoptCluster = %+v, %v; for the first time %v", c, err, first)
			}
		}
		n.sync()
		if got := n.mustClaim("Oracle", ""); string(got.Task.ID) != open {
			w.Errorf("the next task is %q, want the open one", got.Task.Title)
		}
		if _, err := n.claim("Oracle", second); code(err) != denied(claim.CodeHeld) {
			w.Errorf("a task that another daemon has, as far as the page says: %v", err)
		}
		if got := n.get("/metrics"); !strings.Contains(got, "\ndibs_journal_doubted 0\n") {
			w.Error("the metrics tell of a doubt")
		}
		n.stop()
	})
}

// A claim that is missing from the journal and is found by a pre-flight before a sync is as good a
// sign: nothing is granted after it.
func TestDoubtAtPreflight(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		first, second := w.add("first", nil), w.add("second", nil)
		a, newer := w.daemon(sharing(s, "a")), w.daemon(nil)
		a.leads()
		one := newer.mustClaim("Sandman", w.add("before", nil))
		mustDo(w, newer.complete(one))
		a.stop()
		// The journal of newer passes for a later state of the database.
		mustDo(w, s.Exec(fmt.Sprintf("UPDATE dibs_%s.meta SET value = '%s 1999-12-31T00:00:00Z' WHERE key = 'origin'",
			strings.ReplaceAll(w.notion.Databases().Tasks, "-", ""), claim.ID(one.ID).Origin())))
		a = w.daemon(sharing(s, "a"))
		a.leads()
		time.Sleep(16 * time.Second) // after one sync and before the next
		cl := newer.mustClaim("Sandman", first)
		if _, err := a.claim("Oracle", first); code(err) != denied(claim.CodeHeld) && code(err) != denied(claim.CodeJournalUnavailable) {
			w.Errorf("the task that is held: %v", err)
		}
		a.doubted(cl, second)
	})
}

// A daemon with a journal of its own beside a leader, or beside an only claimer, is named, and stops nothing: from its
// first sight on claims settle, also after a restart, until none was seen for a day. That is no warning where claims
// settle anyway.
func TestStranger(t *testing.T) {
	s := pgtest.Run(t)
	alone := func(c *config.Config) { quiet(c); c.Claim.Exclusive, c.Claim.Settle = true, 0 }
	for name, o := range map[string]func(*config.Config){"a leader": sharing(s, "a"), "an only claimer": alone, "one of many": quiet} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				o := w.options(o)
				start := func() *node {
					a := w.start(o)
					if name == "a leader" {
						a.leads()
					}
					return a
				}
				a, stranger := start(), w.daemon(quiet)
				takes := func(agent string) time.Duration {
					began := time.Now()
					mustDo(w, a.complete(a.mustClaim(agent, w.add("a task of "+agent, nil))))
					return time.Since(began)
				}
				took := takes("Oracle")
				settles := took > config.Default().Claim.WriteWindow
				time.Sleep(time.Minute) // what is as old as the journal may be its own
				cl := stranger.mustClaim("Sandman", w.add("Fix the login", nil))
				_, err := client.Do(w.Context(), a.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
				mustDo(w, err)
				mustDo(w, stranger.complete(cl))
				stranger.stop()
				for _, again := range []bool{false, true} {
					if again {
						a.stop()
						a = start()
					}
					if took := takes("Hypnos"); took < config.Default().Claim.WriteWindow {
						w.Errorf("restarted %v: a claim takes %v beside a stranger", again, took)
					}
					st := a.status()
					if warned := len(st.Warnings) == 1 && strings.Contains(st.Warnings[0], "journal of its own"); warned == settles || settles && len(st.Warnings) > 0 {
						w.Errorf("restarted %v: warnings %q", again, st.Warnings)
					}
					if !strings.Contains(st.Policy.Stranger, `Sandman had "Fix the login"`) {
						w.Errorf("restarted %v: stranger %q", again, st.Policy.Stranger)
					}
				}
				if name == "a leader" {
					return // members poll their database all the time
				}
				time.Sleep(doubt.Beside + time.Hour)
				if later := takes("Phobetor"); later > took+time.Second || a.status().Policy.Stranger != "" {
					w.Errorf("a day later a claim takes %v, and %v alone; stranger %q", later, took, a.status().Policy.Stranger)
				}
			})
		})
	}
}

func TestNextGoesOnWhenAnotherDaemonWasFaster(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		time.Sleep(time.Minute)
		second := w.add("second", nil)
		a, b := w.daemon(quiet), w.daemon(quiet)
		a.mustClaim("Sandman", first)
		cl, err := b.claim("Oracle", "") // its mirror does not have Sandman's claim yet
		if err != nil || string(cl.Task.ID) != second {
			w.Errorf("claim = %v, err = %v, want %s", cl.Task.ID, err, second)
		}
	})
}

// Several daemons on one board hinder each other as little as possible: once they have noticed each other, their agents
// prefer different tasks, and read the board again rather than one task after the other. A daemon alone needs 7
// requests per task. Their start counts. How often they meet is a matter of chance, so the mean of some rounds counts:
// without reading the board again it is 9.3, as it is 8.6. The figures are logged:
//
//	go test -run=TestDaemonsShareABoard -v ./internal/daemon
func TestDaemonsShareABoard(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const daemons, agents, tasks, rounds, most = 4, 8, 40, 3, 8.95
	for _, tt := range []struct{ work, wait time.Duration }{ // for nine in ten claims
		{10 * time.Second, 5 * time.Second},
		{time.Second, 10 * time.Second}, // as much as the rate allows
	} {
		t.Run(fmt.Sprint("work=", tt.work), func(t *testing.T) {
			t.Parallel()
			sum := 0.0
			round := func(w *world) {
				for i := range tasks {
					w.add(fmt.Sprint("Task ", i), nil)
				}
				w.notion.ResetRequests()
				var nodes []*node
				for range daemons {
					nodes = append(nodes, w.daemon(func(c *config.Config) { // as dibs init writes it
						d := &c.Databases
						d.TasksSource, d.TaskLogSource, d.MeshLogSource = w.notion.DataSource(d.Tasks), w.notion.DataSource(d.TaskLog), w.notion.DataSource(d.MeshLog)
					}))
				}
				var all sync.WaitGroup
				var mu sync.Mutex
				granted, waits := make(map[task.ID]int), []time.Duration{}
				for i := range agents {
					n, agent := nodes[i%daemons], fmt.Sprint("agent-", i)
					all.Go(func() {
						for {
							began := time.Now()
							cl, err := n.claim(agent, "")
							if err != nil {
								if code(err) != denied(claim.CodeNothingReady) {
									w.Errorf("%s: %v", agent, err)
								}
								return
							}
							mu.Lock()
							granted[cl.Task.ID]++
							waits = append(waits, time.Since(began))
							mu.Unlock()
							time.Sleep(tt.work)
							if err := n.complete(cl); err != nil {
								w.Error(err)
							}
						}
					})
				}
				all.Wait()
				for _, n := range nodes { // the outboxes are delivered before the count
					for n.status().Outbox.Depth > 0 {
						time.Sleep(time.Second)
					}
				}
				requests := make(map[string]int)
				for _, r := range w.notion.Requests() {
					kind, _, _ := strings.Cut(kindOf(r), "/")
					requests[kind]++
				}
				slices.Sort(waits)
				each, p90 := float64(len(w.notion.Requests()))/tasks, waits[len(waits)*9/10]
				w.Logf("%.2f requests a task: %v; half of the claims took %v, nine in ten %v", each, requests, waits[len(waits)/2], p90)
				if len(granted) != tasks || len(waits) != tasks {
					w.Errorf("%d tasks were granted, %d times; want %d, once each", len(granted), len(waits), tasks)
				}
				if sum += each; p90 > tt.wait {
					w.Errorf("nine in ten claims within %v; want %v", p90, tt.wait)
				}
				if n := requests["GET databases"]; n > 0 {
					w.Errorf("Notion was looked for %d times although it was there", n)
				}
			}
			for range rounds {
				inWorld(t, 0, round)
			}
			if sum/rounds > most {
				t.Errorf("%.2f requests a task in %d rounds; want at most %.2f", sum/rounds, rounds, most)
			}
		})
	}
}
