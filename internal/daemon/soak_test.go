package daemon_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

const (
	// soakKeep is the retention time of everything in these tests.
	soakKeep = 10 * time.Minute
	// soakQuiet is the idle time before a measurement: by then everything is old enough to be
	// pruned, and the regular work has run. If Notion does not answer the sync at its beginning,
	// only the next full sync, half an hour later, sees what was deleted.
	soakQuiet = 2*soakKeep + 90*time.Minute
	// soakWAL is how large an idle daemon's WAL may be, in bytes.
	soakWAL = 1 << 20
)

// TestSoak lets agents and people work, with occasional faults, and measures after each round what
// is left once everything has been pruned: nothing.
func TestSoak(t *testing.T) {
	testkit.Long(t)
	warmUp, rounds, round := 15*time.Minute, 3, 15*time.Minute
	if testkit.InFull() {
		warmUp, rounds, round = 12*time.Hour, 12, 6*time.Hour
	}
	inWorld(t, 0, func(w *world) {
		s := newSoak(w)
		defer s.node.stop()
		s.warm()
		s.work(warmUp)
		s.query()
		first := s.measure()
		w.Logf("warm: %v", first)
		// Pools and tables grow occasionally, and so does SQLite's memory for the history; a leak
		// grows in nearly every round. If all have grown, three times as many decide.
		const most = 12 << 10
		var grown []int64
		calm, enough := 0, 1 // rounds in which the heap has hardly grown
		for before := first; len(grown) < rounds; {
			s.work(round)
			after := s.measure()
			grown = append(grown, after.heap-before.heap)
			w.Logf("round %d: %v", len(grown), after)
			first.wants(t, after)
			if after.heap-before.heap <= most {
				calm++
			} else if calm == 0 && enough == 1 && len(grown) == rounds {
				rounds, enough = 3*rounds, rounds
			}
			before = after
		}
		if calm < enough {
			t.Errorf("the heap grew by %v bytes, want at most %d in %d rounds at least", grown, most, enough)
		}
		if s.granted < 3*rounds || s.denied < 20*rounds {
			t.Errorf("%d claims granted and %d denied: they test nothing", s.granted, s.denied)
		}
	})
}

// A daemon that never runs for long still prunes.
func TestPruneAtTheStart(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(func(c *config.Config) { c.Journal.Keep, c.Events.Keep = 24*time.Hour, 24*time.Hour })
		n := w.start(o)
		mustDo(w, n.complete(n.mustClaim("Sandman", id)))
		time.Sleep(time.Minute)
		n.stop()
		for _, pause := range []time.Duration{23 * time.Hour, 2 * time.Hour} {
			time.Sleep(pause)
			n = w.start(o)
			time.Sleep(time.Minute)
			events, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{})
			if err != nil {
				w.Fatal(err)
			}
			if logged, want := len(events.Entries) > 0, pause == 23*time.Hour; logged != want {
				w.Errorf("after another %v, the log has %v", pause, events.Entries)
			}
			n.stop()
		}
	})
}

// soak is a daemon with active people and agents.
type soak struct {
	w         *world
	node      *node
	transport *http.Transport // for the daemon's requests to Notion

	mu              sync.Mutex
	random          *rand.Rand
	named           int // number of agents so far
	granted, denied int
}

func newSoak(w *world) *soak {
	seed := rand.Uint64()
	w.Logf("seed %d", seed)
	o := w.options(func(c *config.Config) {
		c.Notion.Rate, c.Notion.Burst = 10, 30
		c.Sync.Interval, c.Sync.KeepFinished = 2*time.Minute, soakKeep
		c.Schedule.FullSync = "@every 30m"
		c.Events.Keep, c.Journal.Keep = soakKeep, soakKeep
		c.Claim.MaxLifetime = time.Hour
	})
	o.Log = slog.New(slog.DiscardHandler) // the test would keep every line
	return &soak{w: w, node: w.start(o), transport: o.Transport.(*http.Transport), random: rand.New(rand.NewPCG(seed, 0))}
}

func (s *soak) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// pause sleeps for up to d, and reports whether there is time left.
func (s *soak) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(time.Duration(1+s.below(int(d/time.Second))) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// name returns a new agent's name.
func (s *soak) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named++
	return fmt.Sprint("agent-", s.named)
}

// work lets everybody work for that long.
func (s *soak) work(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.w.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { s.agent(ctx) })
	}
	for _, others := range []func(context.Context){s.crowd, s.people, s.readers, s.trouble} {
		wg.Go(func() { others(ctx) })
	}
	wg.Wait()
}

// warm allocates more than will be needed wherever allocations stay: in the tables of the emulator
// and the daemon, and for the agents with their own metrics.
func (s *soak) warm() {
	for range 120 {
		s.node.claim(s.name(), "")
	}
	mustDo(s.w, s.w.notion.Fill(s.w.notion.Databases().MeshLog, 2000, func(int) (time.Time, map[string]any) { return time.Now(), nil }))
	s.many(150)
	s.tidy(func(emulator.Page) bool { return true })
}

// query sends so many requests at once that the daemon opens all its connections to the journal.
func (s *soak) query() {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { client.Do(s.w.Context(), s.node.Client, api.OpLog, api.LogInput{Limit: 200}) })
	}
	wg.Wait()
}

// agent claims tasks one after the other, each under a new name, and finishes or abandons them.
func (s *soak) agent(ctx context.Context) {
	c := s.node.Client
	for s.pause(ctx, 2*time.Minute) {
		name := s.name()
		cl, err := client.Do(ctx, c, api.OpClaim, api.Keyed(name, api.ClaimRequest{Agent: name, WaitSeconds: float64(s.below(60)), TimeoutMinutes: 5}))
		if err != nil {
			continue
		}
		s.count(&s.granted)
		id := string(cl.ID)
		for range s.below(3) {
			s.pause(ctx, 2*time.Minute)
			client.Do(ctx, c, api.OpRenew, api.On(id, "", api.RenewRequest{}))
		}
		// It finishes even after the end; Notion may still fail.
		end := context.WithoutCancel(ctx)
		switch draw := s.below(7); draw {
		case 0, 1:
			client.Do(end, c, api.OpComplete, api.On(id, name+"-end", api.CompleteRequest{Summary: "done"}))
		case 2:
			client.Do(end, c, api.OpRelease, api.On(id, "", api.StopRequest{}))
		case 3:
			client.Do(end, c, api.OpBlock, api.On(id, "", api.BlockRequest{Reason: "no access"}))
		case 4, 5:
			client.Do(end, c, api.OpFail, api.On(id, "", api.FailRequest{Reopen: draw == 5}))
		} // or the claim is abandoned, and swept
	}
}

func (s *soak) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// crowd asks for unavailable tasks, and for all kinds of information.
func (s *soak) crowd(ctx context.Context) {
	for s.pause(ctx, 4*time.Minute) {
		claims, err := client.Do(ctx, s.node.Client, api.OpListClaims, api.AgentFilter{})
		if err != nil || len(claims.Claims) == 0 {
			continue
		}
		taken := claims.Claims[s.below(len(claims.Claims))]
		for i := range 12 {
			name, key := s.name(), ""
			if i < 5 {
				key = name
			}
			if _, err := client.Do(ctx, s.node.Client, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: name, Task: string(taken.Task.ID)})); code(err) == denied(claim.CodeHeld) {
				s.count(&s.denied)
			}
		}
		watching, stop := context.WithTimeout(ctx, time.Second)
		client.Do(watching, s.node.Client, api.OpGetClaim, api.GetClaimInput{ID: string(taken.ID), Wait: time.Minute.String()})
		stop()
		client.Do(ctx, s.node.Client, api.OpStatus, struct{}{})
		client.Do(ctx, s.node.Client, api.OpListTasks, api.ListTasksInput{Ready: true, Limit: 5})
		client.Do(ctx, s.node.Client, api.OpLog, api.LogInput{Limit: 5})
	}
}

// people add and edit tasks, take some for themselves, and delete finished ones.
func (s *soak) people(ctx context.Context) {
	for i := 0; s.pause(ctx, 5*time.Minute); i++ {
		var added []string
		for range 2 {
			added = append(added, s.w.add(fmt.Sprint("Task ", i), nil))
		}
		s.w.add("waits", map[string]any{"depends_on": relation(added...)})
		pages := s.w.notion.Pages(s.w.tasks)
		page := pages[s.below(len(pages))]
		switch s.below(5) {
		case 0:
			s.w.edit(page.ID, map[string]any{"Name": text("title", "edited")})
		case 1:
			s.w.edit(page.ID, map[string]any{"claimed_by": text("rich_text", "Maria"), "claim_token": text("rich_text", "")})
			s.node.claim(s.name(), page.ID)
		case 2:
			s.w.edit(page.ID, map[string]any{"status": option("status", "CANCELLED")})
		case 3:
			s.w.trash(page.ID)
		}
		if i%3 == 2 {
			s.many(25)
			s.tidy(func(p emulator.Page) bool {
				return p.Select("status") == "COMPLETED" || p.Select("status") == "BLOCKED"
			})
		}
	}
}

// many adds and removes unclaimable tasks, so that they pass through the mirror.
func (s *soak) many(n int) {
	mustDo(s.w, s.w.notion.Fill(s.w.tasks, n, func(int) (time.Time, map[string]any) {
		return time.Now(), map[string]any{"Name": text("title", "one of many"), "status": option("status", "BLOCKED")}
	}))
	s.sync()
}

// sync reads the whole board, if Notion answers.
func (s *soak) sync() {
	client.Do(s.w.Context(), s.node.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
}

// tidy deletes the unwanted tasks, and the rows of the logs.
func (s *soak) tidy(unwanted func(emulator.Page) bool) {
	dbs := s.w.notion.Databases()
	for _, db := range []string{dbs.Tasks, dbs.MeshLog, dbs.TaskLog} {
		for _, p := range s.w.notion.Pages(db) {
			if !p.Trashed && (db != dbs.Tasks || unwanted(p)) {
				s.w.trash(p.ID)
			}
		}
	}
	mustDo(s.w, s.w.notion.EmptyTrash())
	s.w.notion.ResetRequests()
}

// readers follow the events for a while, and leave.
func (s *soak) readers(ctx context.Context) {
	for s.pause(ctx, 2*time.Minute) {
		reading, leave := context.WithTimeout(ctx, time.Duration(1+s.below(60))*time.Second)
		s.node.Events(reading, api.EventsInput{After: api.EventsFuture}, true, func(api.Event) error { return nil })
		leave()
	}
}

// trouble causes Notion's occasional faults.
func (s *soak) trouble(ctx context.Context) {
	kinds := []emulator.FaultKind{
		emulator.SavedBut503, emulator.DropAnswer, emulator.DropRequest, emulator.LateWrite, emulator.Conflict409,
		emulator.Error500, emulator.HTML502, emulator.RateLimited429,
	}
	for s.pause(ctx, 4*time.Minute) {
		f := emulator.Fault{Kind: kinds[s.below(len(kinds))], Skip: s.below(5), Times: 1 + s.below(3), Late: 20 * time.Second, RetryAfter: 10 * time.Second}
		remove := s.w.notion.Inject(f)
		s.pause(ctx, time.Minute)
		remove()
	}
}

// standing is the resources of an idle daemon.
type standing struct {
	goroutines, files int
	heap              int64
	rows              map[string]int
	pages, free       int   // the journal's file
	wal               int64 // bytes of its WAL
}

func (s standing) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d bytes, rows %v, %d pages, %d of them free, WAL %d bytes", s.goroutines, s.files, s.heap, s.rows, s.pages, s.free, s.wal)
}

// wants checks that nothing has grown.
func (s standing) wants(t *testing.T, after standing) {
	t.Helper()
	if after.goroutines > s.goroutines+2 {
		t.Errorf("%d goroutines, %d before:\n%s", after.goroutines, s.goroutines, stacks())
	}
	// The pool may have opened other connections to the journal.
	if after.files > s.files+6 {
		t.Errorf("%d open files, %d before", after.files, s.files)
	}
	if after.heap > s.heap+1<<20 {
		t.Errorf("%d bytes in use, %d before", after.heap, s.heap)
	}
	if diff := cmp.Diff(s.rows, after.rows); diff != "" {
		t.Errorf("rows of the journal (-before +after):\n%s", diff)
	}
	if after.free > 0 || after.pages > s.pages+4 || after.wal > soakWAL {
		t.Errorf("the journal has %d pages, %d of them free, and a WAL of %d bytes; %d pages before", after.pages, after.free, after.wal, s.pages)
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// measure deletes everything, waits until nothing is owed or kept, and measures what is left.
func (s *soak) measure() standing {
	s.w.Helper()
	all := func(emulator.Page) bool { return true }
	s.tidy(all)
	s.sync()
	time.Sleep(soakQuiet)
	for range 2 { // a reader may keep the WAL until the journal is next pruned
		if wal := s.wal(); wal > soakWAL {
			s.w.Logf("the WAL has %d bytes", wal)
			time.Sleep(time.Hour)
		}
	}
	s.tidy(all) // the last log entries
	status := s.node.status()
	if status.Mirror.Tasks != 0 || status.ClaimsHeld != 0 || status.Outbox.Depth != 0 {
		s.w.Errorf("after a quiet time there are %d tasks, %d claims and %d entries to deliver", status.Mirror.Tasks, status.ClaimsHeld, status.Outbox.Depth)
	}
	s.w.notion.ResetRequests()
	// Longer than idle HTTP connections and the emulator's past last; and between the times of all
	// regular work.
	time.Sleep(10*time.Minute + 7*time.Second)
	s.w.notion.ResetRequests()
	s.transport.CloseIdleConnections() // their number depends on chance
	synctest.Wait()
	// runtime.NumGoroutine may count some that have just ended.
	running := strings.Count("\n"+stacks(), "\ngoroutine ")
	m := standing{goroutines: running, files: openFiles(s.w.T), heap: heap()}
	s.journal(&m)
	return m
}

// journal measures the journal.
func (s *soak) journal(m *standing) {
	s.w.Helper()
	path := filepath.Join(s.node.dir, journal.FileName)
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	mustDo(s.w, err)
	defer db.Close()
	read := func(query string, into any) {
		s.w.Helper()
		mustDo(s.w, db.QueryRow(query).Scan(into))
	}
	var tables string
	read("PRAGMA page_count", &m.pages)
	read("PRAGMA freelist_count", &m.free)
	read("SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'", &tables)
	m.rows = make(map[string]int)
	// What is left of an abandoned attempt is watched for a day, because its write may still land,
	// and its claim stays as long. After that both stay until the next pruning.
	recent := fmt.Sprintf("ended > %d", time.Now().Add(-soakKeep-time.Hour).UnixMilli())
	unseen := "ended = 0 AND json_extract(body, '$.state') = 'unseen'"
	watched := fmt.Sprintf("(%s OR id IN (SELECT id FROM marks WHERE %s OR %s))", recent, unseen, recent)
	for table := range strings.SplitSeq(tables, ",") {
		var n int
		query := "SELECT count(*) FROM " + table
		switch table {
		case "claims":
			query += " WHERE NOT " + watched
		case "marks":
			query += fmt.Sprintf(" WHERE NOT (%s OR %s)", unseen, recent)
		case "requests":
			query += " WHERE made IS NULL OR made NOT IN (SELECT id FROM claims WHERE " + watched + ")"
		}
		read(query, &n)
		m.rows[table] = n
	}
	m.wal = s.wal()
}

// wal returns the size of the journal's WAL in bytes.
func (s *soak) wal() int64 {
	info, err := os.Stat(filepath.Join(s.node.dir, journal.FileName) + "-wal")
	mustDo(s.w, err)
	return info.Size()
}

// openFiles returns how many files this process has open, if that is known.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
