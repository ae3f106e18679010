package daemon_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
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
	"dibs/internal/notion/emulator"
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
		for _, part := range []string{string(cl.ID), string(cl.Task.ID), cl.Task.Title, cl.Agent, "dibs cluster adopt"} {
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

// A database that was restored to an older state, or emptied, grants nothing until it is adopted,
// even after a restart.
func TestDatabaseRestored(t *testing.T) {
	for _, how := range []string{"restored", "emptied"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Run(t)
			inRealWorld(t, func(w *world) { w.databaseRestored(s, how == "emptied") })
		})
	}
}

func (w *world) databaseRestored(s *pgtest.Server, emptied bool) {
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
	if emptied {
		mustDo(w, s.Exec("DROP SCHEMA dibs_"+strings.ReplaceAll(w.notion.Databases().Tasks, "-", "")+" CASCADE"))
		newer = known // the first to be seen
	} else {
		w.restore(s)
	}

	n = start()
	if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
		w.Fatal(err)
	}
	if emptied {
		if got := n.status().Warnings; !strings.Contains(strings.Join(got, "\n"), string(newer.ID)) {
			newer = api.Claim{} // the other one was seen first
		}
	}
	if newer.ID != "" {
		n.doubted(newer, open)
	} else if _, err := n.claim("Oracle", ""); code(err) != string(claim.CodeJournalUnavailable) {
		w.Errorf("beside a board with claims, an empty database: %v", err)
	}
	if !emptied {
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(known.ID), "", api.RenewRequest{Agent: "Trinity"})); err != nil {
			w.Errorf("a renewal of what is held: %v", err)
		}
		if err := n.complete(known); err != nil {
			w.Errorf("the end of what is held: %v", err)
		}
	}
	n.stop()

	n = start()
	if newer.ID != "" {
		n.doubted(newer, open)
	}
	c, err := client.Do(w.Context(), n.Client, api.OpAdoptCluster, api.BareInput{})
	if err != nil || c.Adopted == nil || !*c.Adopted || c.LastError != "" || c.Epoch == 0 {
		w.Fatalf("AdoptCluster = %+v, %v", c, err)
	}
	if c, err := client.Do(w.Context(), n.Client, api.OpAdoptCluster, api.BareInput{}); err != nil || c.Adopted == nil || *c.Adopted {
		w.Errorf("once more: %+v, %v", c, err)
	}
	if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil {
		w.Fatal(err)
	}
	got := n.mustClaim("Oracle", "")
	if string(got.Task.ID) != open {
		w.Errorf("the next task is %q, want the open one", got.Task.Title)
	}
	if _, err := n.claim("Oracle", second); code(err) != denied(claim.CodeHeld) {
		w.Errorf("a task that another daemon has, as far as the page says: %v", err)
	}
	if got := n.get("/metrics"); !strings.Contains(got, "\ndibs_journal_doubted 0\n") {
		w.Error("the metrics tell of a doubt")
	}
	n.stop()
}

// Only the daemon's user and root may adopt a database; callers unknown to the kernel may not.
func TestWhoMayAdopt(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		n := w.daemon(sharing(s, "a"))
		n.leads()
		_, err := client.Do(w.Context(), n.Client, api.OpAdoptCluster, api.BareInput{})
		if p, _ := errors.AsType[*api.Problem](err); p == nil || p.Status != 403 || !strings.Contains(p.Detail, "root") {
			w.Errorf("AdoptCluster = %v, want it to be refused", err)
		}
	})
}

// Copies by people and the daemon's own late writes are no sign of a restored database.
func TestNoDoubt(t *testing.T) {
	testkit.SkipUnderRace(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		const lease = 6 * time.Minute // short, because members poll their database all the time
		shared := func(name string) *node {
			return w.daemon(func(c *config.Config) {
				sharing(s, name)(c)
				c.Claim.Timeout = lease
			})
		}
		held, late := w.add("held", nil), w.add("late", nil)
		a := shared("a")
		a.leads()
		cl := a.mustClaim("Sandman", held)
		copied := w.page(held)
		w.add("a copy", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
			"claimed_at": date(time.Now()), "claim_token": text("rich_text", copied.Text("claim_token")),
		})
		w.add("pasted", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Oracle"),
			"claimed_at": date(time.Now()), "claim_token": text("rich_text", string(claim.ID(cl.ID).Origin().NewID(time.Now()))),
		})
		page := func(id string) func(*http.Request, []byte) bool {
			return func(r *http.Request, _ []byte) bool { return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, id) }
		}
		w.notion.Inject(emulator.Fault{Kind: emulator.LateWrite, Late: 20 * time.Second, Times: 1, Match: page(late)})
		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Times: 2, Match: page(late)}) // strikes the following attempts
		if _, err := a.claim("Oracle", late); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Fatalf("Oracle: %v, want notion_unavailable", err)
		}
		b := shared("b")
		b.led("a")
		sync := func(n *node) {
			w.Helper()
			if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil {
				w.Fatal(err)
			}
			if got := n.status().Warnings; len(got) > 0 {
				w.Errorf("warnings %q", got)
			}
		}
		for range 4 {
			time.Sleep(6 * time.Second)
			sync(a)
		}
		// Renewed repeatedly, and then at another leader; the last renewal is not answered.
		for range 3 {
			time.Sleep(lease / 2)
			if _, err := client.Do(w.Context(), a.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: "Sandman"})); err != nil {
				w.Fatal(err)
			}
			sync(a)
		}
		time.Sleep(lease/2 - time.Minute)
		if _, err := client.Do(w.Context(), a.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: "Sandman"})); err != nil {
			w.Fatal(err)
		}
		w.notion.Inject(emulator.Fault{Kind: emulator.DropAnswer, Times: 1, Match: func(r *http.Request, _ []byte) bool {
			return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, held)
		}})
		time.Sleep(90 * time.Second)
		depose(w, s)
		b.leads()
		sync(b)
		b.mustClaim("Oracle", "")
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

// A daemon with a journal of its own beside a leader, or beside an only claimer, is named, and stops
// nothing: from its first sight on claims settle, also after a restart, until none was seen for a day.
func TestStranger(t *testing.T) {
	s := pgtest.Run(t)
	for name, o := range map[string]func(*config.Config){
		"a leader":        sharing(s, "a"),
		"an only claimer": func(c *config.Config) { quiet(c); c.Claim.Exclusive, c.Claim.Settle = true, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				o := w.options(o)
				a := w.start(o)
				if name == "a leader" {
					a.leads()
				}
				stranger := w.daemon(quiet)
				takes := func(agent string) time.Duration {
					began := time.Now()
					if err := a.complete(a.mustClaim(agent, w.add("a task of "+agent, nil))); err != nil {
						w.Error(err)
					}
					return time.Since(began)
				}
				alone := takes("Oracle")
				cl := stranger.mustClaim("Sandman", w.add("Fix the login", nil))
				_, err := client.Do(w.Context(), a.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
				mustDo(w, err)
				mustDo(w, stranger.complete(cl))
				stranger.stop()
				for _, again := range []bool{false, true} {
					if again {
						a.stop()
						if a = w.start(o); name == "a leader" {
							a.leads()
						}
					}
					if took := takes("Hypnos"); took < config.Default().Claim.WriteWindow {
						w.Errorf("restarted %v: a claim takes %v beside a stranger, and %v alone", again, took, alone)
					}
					if st := a.status(); len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "journal of its own") || !strings.Contains(st.Policy.Stranger, "Sandman") {
						w.Errorf("restarted %v: warnings %q, stranger %q", again, st.Warnings, st.Policy.Stranger)
					}
				}
				if name == "a leader" {
					return // members poll their database all the time
				}
				time.Sleep(doubt.Beside)
				if took := takes("Phobetor"); took > config.Default().Claim.WriteWindow {
					w.Errorf("a day later a claim takes %v, and %v alone", took, alone)
				}
			})
		})
	}
}

// TestTwoDaemonsSeeEachOthersClaims runs two daemons on one board: each treats the other's claims
// like a person's edits.
func TestTwoDaemonsSeeEachOthersClaims(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		waits := w.add("waits", map[string]any{"depends_on": relation(id)})
		a, b := w.daemon(nil), w.daemon(nil)
		time.Sleep(time.Minute)
		both := func(want ...string) {
			w.Helper()
			time.Sleep(interval)
			a.wantEvents(0, want...)
			b.wantEvents(0, want...)
		}
		cl := a.mustClaim("Sandman", id)
		both(`claimed Sandman "work"`)
		if _, err := b.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		mustDo(w, a.complete(cl))
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`)
		cl = b.mustClaim("Oracle", waits)
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`, `claimed Oracle "waits"`)
		if _, err := client.Do(w.Context(), b.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{})); err != nil {
			w.Fatal(err)
		}
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`, `claimed Oracle "waits"`, `released Oracle "waits"`, `ready "waits"`)
	})
}

// TestOneOfTwoDaemonsTakesAStaleClaim overrides, at one daemon, a claim made at the other.
func TestOneOfTwoDaemonsTakesAStaleClaim(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		slow := func(c *config.Config) { c.Schedule.Sweep = "@every 100h" }
		a, b := w.daemon(slow), w.daemon(slow)
		cl := a.mustClaim("Sandman", id)
		time.Sleep(33 * time.Minute)
		afterA, afterB := a.last(), b.last()
		b.mustClaim("Oracle", id)
		b.wantEvents(afterB, `overridden Sandman Oracle "work"`)
		got, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: afterA, Wait: time.Hour.String()})
		if err != nil || got.Event == nil || got.Event.Kind != api.ClaimLost || got.Event.Holder != "Oracle" {
			w.Errorf("event = %+v, err = %v; want claim_lost to Oracle", got.Event, err)
		}
		time.Sleep(interval)
		a.wantEvents(afterA, `claim_lost Sandman Oracle "work"`, `reassigned Sandman Oracle "work"`)
	})
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

// TestTwoDaemonsNeverBothGrant races agents of two daemons for the same tasks,
// with random latencies that stay below the write window.
func TestTwoDaemonsNeverBothGrant(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	tasks := 60
	if testing.Short() {
		tasks = 15
	}
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range tasks {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
		}
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex
		up := func(most time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(most)))
		}
		fast := func(c *config.Config) { c.Notion.Rate, c.Notion.Burst = 100, 100 }
		a, b := w.daemon(fast), w.daemon(fast)
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return up(370 * time.Millisecond), up(370 * time.Millisecond)
		})
		for _, id := range ids {
			var wg sync.WaitGroup
			results := make([]error, 2)
			delay := up(2 * time.Second)
			wg.Go(func() { _, results[0] = a.claim("Sandman", id) })
			wg.Go(func() {
				time.Sleep(delay)
				_, results[1] = b.claim("Oracle", id)
			})
			wg.Wait()
			granted := 0
			for _, err := range results {
				switch code(err) {
				case "<nil>":
					granted++
				case denied(claim.CodeHeld), denied(claim.CodeLostRace):
				default:
					w.Errorf("unexpected answer: %v", err)
				}
			}
			if granted != 1 {
				w.Errorf("task %s was granted %d times, want once", id, granted)
			}
		}
	})
}

// Several daemons on one board hinder each other as little as possible: once they have noticed each
// other, their agents prefer different tasks, and read the board again rather than one task after
// the other. A daemon alone needs 7 requests per task. Their start counts. The figures are logged:
//
//	go test -run=TestDaemonsShareABoard -v ./internal/daemon
func TestDaemonsShareABoard(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const daemons, agents, tasks, most = 4, 8, 40, 9.0
	for _, tt := range []struct{ work, wait time.Duration }{ // for nine in ten claims
		{10 * time.Second, 5 * time.Second},
		{time.Second, 10 * time.Second}, // as much as the rate allows
	} {
		t.Run(fmt.Sprint("work=", tt.work), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				for i := range tasks {
					w.add(fmt.Sprint("Task ", i), nil)
				}
				d := drainTogether(w, daemons, agents, tt.work)
				total, kinds := 0, ""
				for _, kind := range slices.Sorted(maps.Keys(d.requests)) {
					total += d.requests[kind]
					kinds += fmt.Sprintf(", %s %.2f", kind, float64(d.requests[kind])/tasks)
				}
				slices.Sort(d.waits)
				each, p90 := float64(total)/tasks, d.waits[len(d.waits)*9/10]
				w.Logf("%.2f requests a task%s; %v; half of the claims took %v, nine in ten %v", each, kinds, d.denied, d.waits[len(d.waits)/2], p90)
				for id, times := range d.granted {
					if times != 1 {
						w.Errorf("task %s was granted %d times", id, times)
					}
				}
				if len(d.granted) != tasks {
					w.Errorf("%d tasks were granted, want %d", len(d.granted), tasks)
				}
				if each > most || p90 > tt.wait {
					w.Errorf("%.1f requests a task, nine in ten claims within %v; want at most %.1f and %v", each, p90, most, tt.wait)
				}
				if n := d.requests["GET databases"]; n > 0 {
					w.Errorf("Notion was looked for %d times although it was there", n)
				}
			})
		})
	}
}

// drained is the cost of draining a board.
type drained struct {
	requests map[string]int // to Notion, by kind
	denied   map[claim.Code]int
	granted  map[task.ID]int
	waits    []time.Duration // for each claim
}

// drainTogether starts daemons that do not know each other, and agents who claim one task after the
// other, at the daemons in turn, and work on each for that long, until none is left.
func drainTogether(w *world, daemons, agents int, work time.Duration) drained {
	d := drained{requests: make(map[string]int), denied: make(map[claim.Code]int), granted: make(map[task.ID]int)}
	var nodes []*node
	w.notion.ResetRequests()
	for range daemons {
		nodes = append(nodes, w.daemon(func(c *config.Config) { // as dibs init writes it
			d := &c.Databases
			d.TasksSource, d.TaskLogSource, d.MeshLogSource = w.notion.DataSource(d.Tasks), w.notion.DataSource(d.TaskLog), w.notion.DataSource(d.MeshLog)
		}))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range agents {
		n := nodes[i%daemons]
		all.Go(func() {
			for {
				began := time.Now()
				cl, err := n.claim(fmt.Sprint("agent-", i), "")
				if code(err) == denied(claim.CodeNothingReady) {
					return
				}
				if err != nil {
					w.Errorf("agent-%d: %v", i, err)
					return
				}
				mu.Lock()
				d.granted[cl.Task.ID]++
				d.waits = append(d.waits, time.Since(began))
				mu.Unlock()
				time.Sleep(work)
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
	for _, r := range w.notion.Requests() {
		kind, _, _ := strings.Cut(kindOf(r), "/")
		d.requests[kind]++
	}
	for _, n := range nodes {
		events, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Limit: 1000})
		if err != nil {
			w.Error(err)
		}
		for _, e := range events.Entries {
			if e.Kind == claim.KindDenied {
				d.denied[e.Code] += max(e.Count, 1)
			}
		}
		n.stop()
	}
	return d
}

// Daemons with journals of their own name each other by their claims, for a day. That is no warning
// where each waits for the settle time anyway.
func TestDaemonsWithJournalsOfTheirOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		a, b := w.daemon(quiet), w.daemon(quiet)
		time.Sleep(time.Minute) // what is as old as the journal may be its own
		cl := a.mustClaim("Sandman", w.add("Mend the roof", nil))
		time.Sleep(20 * time.Minute)
		b.sync()
		s := b.status()
		if !strings.HasPrefix(s.Policy.Stranger, `a daemon with a journal of its own claims on this board: Sandman had "Mend the roof"`) || len(s.Warnings) > 0 {
			w.Errorf("stranger %q, warnings %q", s.Policy.Stranger, s.Warnings)
		}
		if s := a.status(); s.Policy.Stranger != "" {
			w.Errorf("its own claims are a stranger's: %s", s.Policy.Stranger)
		}
		mustDo(w, a.complete(cl))
		time.Sleep(doubt.Beside + time.Hour)
		if s := b.status(); s.Policy.Stranger != "" {
			w.Errorf("a day later: %s", s.Policy.Stranger)
		}
	})
}
