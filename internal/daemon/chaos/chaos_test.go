package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// beside lets a test run beside the others: each bends the clocks of its own processes only. With
// TEST_LONG=all each has the machine to itself.
func beside(t *testing.T) {
	if !testkit.InFull() {
		t.Parallel()
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(chaosDaemon) != "" {
		os.Exit(serveChaos())
	}
	os.Exit(testkit.RunInMemory(m))
}

var chaosSeed = flag.Uint64("seed", 0, "the seed of the chaos; 0 for one that nobody had before")

// chaosLease is the lease of claims, the shortest that there is.
const chaosLease = time.Minute

// season describes a run.
type season struct {
	name   string
	length time.Duration
	// calm is roughly the time between a daemon's misfortunes, brief its longest absence then. long
	// is how long it sometimes stands still, 0 for never.
	calm, brief, long time.Duration
	// The daemons' settings: request timeout, write window, settle and sync interval.
	timeout, window, settle, interval time.Duration
	peopleEvery                       time.Duration // longest time between their edits
	atWork                            time.Duration // longest time that an agent works on a task
	tasks                             int
	aftermath                         time.Duration // within it the outboxes are delivered
	// least is the number of grants in a meaningful run. Until it has them a run goes on, for up to
	// three times its length: on a busy machine everything takes longer.
	least int
	// shared is set if the daemons share a journal in PostgreSQL.
	shared bool
}

// TestChaos runs three daemons, each a process of its own, on one board. They are killed, stand
// still and have wrong clocks, Notion fails, and people edit the tasks. Two agents may never trust
// at the same time that they hold the same task, except where the documentation of package claim
// allows it. At the end the journals are sound, every log entry exists once, and nothing is left on
// the board.
//
// The protocol's times are as short as possible, so that much happens at once. Real processes run
// in real time, so a run cannot be repeated exactly, but its seed decides what happens to whom and
// when.
func TestChaos(t *testing.T) {
	testkit.Long(t)
	beside(t)
	busy := season{
		name: "busy", length: 35 * time.Second, calm: 2 * time.Second, brief: 2500 * time.Millisecond,
		timeout: 4 * time.Second, window: 700 * time.Millisecond, settle: 800 * time.Millisecond, interval: 3 * time.Second,
		peopleEvery: 2 * time.Second, atWork: 4 * time.Second, tasks: 14, aftermath: 30 * time.Minute, least: 20,
	}
	seasons := []season{busy}
	if testkit.InFull() {
		busy.length, busy.least = 4*time.Minute, 10
		slow := busy
		slow.least = 10
		slow.name, slow.length, slow.long = "standing still", 8*time.Minute, 70*time.Second
		slow.peopleEvery, slow.atWork = 20*time.Second, 3*time.Minute
		seasons = []season{busy, slow}
	}
	for _, s := range seasons {
		t.Run(s.name, func(t *testing.T) {
			seed := *chaosSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			newChaos(t, s, seed).run()
		})
	}
}

// chaos is one run.
type chaos struct {
	*testing.T
	season
	*history
	seed uint64
	// state is the file that passes the emulator's state on to the checks after the run. It is
	// written once, at the end: writing it after each change would take longer than all the rest.
	state    string
	notion   *emulator.Emulator
	binary   string // the daemons' program, instead of this test's
	tasks    string
	daemons  []*process
	requests []emulator.Request // known at the end
	over     time.Time          // when the troubles ended; zero before
	living   context.Context    // ends with the test, or when a daemon dies
	die      context.CancelCauseFunc

	counting sync.Mutex
	counts   map[string]int
}

func newChaos(t *testing.T, s season, seed uint64) *chaos {
	c := newBoard(t, s, seed, emulator.Options{})
	for i := range 3 {
		c.daemons = append(c.daemons, newProcess(c, i+1))
	}
	return c
}

// newBoard returns a run without daemons.
func newBoard(t *testing.T, s season, seed uint64, o emulator.Options) *chaos {
	t.Logf("-seed %d", seed)
	notion, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notion.Close() })
	dbs, err := notion.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{T: t, season: s, history: newHistory(), seed: seed, state: filepath.Join(t.TempDir(), "notion.json"), notion: notion, tasks: dbs.Tasks, counts: make(map[string]int)}
	for i := range s.tasks {
		if _, err := notion.CreatePage(dbs.Tasks, map[string]any{"Name": text("title", fmt.Sprint("Task ", i+1))}); err != nil {
			t.Fatal(err)
		}
	}
	c.live()
	var mu sync.Mutex
	slow := c.stream(1)
	notion.SetLatency(func(*http.Request) (before, after time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(slow.Int64N(int64(s.window / 4))), time.Duration(slow.Int64N(int64(s.window / 4)))
	})
	return c
}

// live starts c's context.
func (c *chaos) live() { c.living, c.die = context.WithCancelCause(c.T.Context()) }

// Context ends with the test, or when a daemon has died.
func (c *chaos) Context() context.Context { return c.living }

// alive fails the test now if a daemon has died.
func (c *chaos) alive() {
	c.Helper()
	if err := c.living.Err(); err != nil {
		c.Fatal(context.Cause(c.living))
	}
}

// stream returns the random numbers of one participant.
func (c *chaos) stream(number int) *rand.Rand { return rand.New(rand.NewPCG(c.seed, uint64(number))) }

// aTask returns a random task of the board.
func (c *chaos) aTask(random *rand.Rand) string {
	pages := c.notion.Pages(c.tasks)
	return pages[random.IntN(len(pages))].ID
}

// rush is how long everybody competes for the same task.
const rush = 500 * time.Millisecond

// wanted returns the task that everybody wants now: one that can be claimed, if there is any.
func (c *chaos) wanted() string {
	pages := c.notion.Pages(c.tasks)
	now := int(c.now() / rush)
	for i := range pages {
		p := pages[(now+i)%len(pages)]
		if p.Select("status") == "OPEN" && p.Text("claimed_by") == "" || p.Select("status") == "IN_PROGRESS" && p.Text("claimed_by") == "Ghost" {
			return p.ID
		}
	}
	return pages[now%len(pages)].ID
}

// count counts what happened.
func (c *chaos) count(what string) {
	c.counting.Lock()
	defer c.counting.Unlock()
	c.counts[what]++
}

// isOver reports whether the troubles have ended.
func (c *chaos) isOver() bool {
	c.counting.Lock()
	defer c.counting.Unlock()
	return !c.over.IsZero()
}

// ending reports whether the run is nearly over.
func (c *chaos) ending() bool { return c.isOver() && time.Since(c.over) > time.Minute }

// run runs everything, and then checks the results.
func (c *chaos) run() {
	var coming sync.WaitGroup
	for _, p := range c.daemons {
		coming.Go(func() { p.start() })
	}
	coming.Wait()
	c.alive()
	working, stopWork := context.WithCancel(c.Context())
	defer stopWork()
	troubled, calm := context.WithCancel(c.Context())
	defer calm()
	go func() {
		defer calm()
		for range 3 {
			if !sleep(troubled, c.length) || c.grants() >= c.least {
				return
			}
		}
	}()

	lots := &lots{chaos: c, random: c.stream(2)}
	lots.begin()
	var troubles, workers sync.WaitGroup
	var standing sync.Mutex
	for i, p := range c.daemons {
		m := &misfortune{chaos: c, random: c.stream(10 + i), daemon: p, standing: &standing}
		troubles.Go(func() { m.work(troubled) })
		for n := range 4 {
			a := newAgent(c, p, n)
			workers.Go(func() { a.work(working) })
		}
	}
	troubles.Go(func() { (&weather{c, c.stream(20)}).work(troubled) })
	workers.Go(func() { (&people{c, c.stream(30)}).work(troubled) })
	workers.Go(func() { (&people{c, c.stream(31)}).lead(troubled) })

	troubles.Wait()
	c.counting.Lock()
	c.over = time.Now()
	c.counting.Unlock()
	stopWork()
	workers.Wait()
	c.alive()
	c.requests = c.notion.Requests()
	c.afterwards()
	c.checkLogs()
	stories, excused := c.check()
	c.counts["doubles that package claim leaves possible"] = excused
	for task, story := range stories {
		c.Errorf("two agents had task %s at the same time:\n%s%s", task, story, c.requestsTo(task))
	}
	for _, what := range c.bad {
		c.Error(what)
	}
	var did []string
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		did = append(did, fmt.Sprint(c.counts[what], " ", what))
	}
	c.Logf("%s", strings.Join(did, ", "))
	if n := len(c.holds); n < c.least && testkit.InFull() {
		c.Errorf("%d claims were granted: they test nothing", n)
	}
}

// bindings returns the claims that agents got as answers.
func (h *history) bindings() map[claim.ID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	bound := make(map[claim.ID]bool)
	for _, id := range h.keys {
		bound[id] = true
	}
	return bound
}

// requestsTo returns the writes to a page and their answers.
func (c *chaos) requestsTo(id string) string {
	var out strings.Builder
	for _, r := range c.requests {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.Path, id) {
			fmt.Fprintf(&out, "%8.3fs  %d %s\n", r.Time.Sub(c.began).Seconds(), r.Status, r.Body)
		}
	}
	return out.String()
}

// attach logs the end of a file if the test failed.
func (c *chaos) attach(file, name string) {
	data, err := os.ReadFile(file)
	if err == nil && c.Failed() {
		c.Logf("%s:\n%s", name, data[max(0, len(data)-20_000):])
	}
}

// node is a daemon in this process, and a client of its socket.
type node struct {
	*client.Client
	stop func()
}

// nowhere is the network of a member without peers.
type nowhere struct{}

func (nowhere) Listen(context.Context, string) (net.Listener, error) {
	return server.NewPipe(), nil
}

func (nowhere) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.New("there is nobody else")
}

// again starts a daemon in this process, in virtual time, on p's state.
func (c *chaos) again(t *testing.T, notion *emulator.Emulator, p *process) *node {
	t.Helper()
	dbs := notion.Databases()
	cfg := config.Default()
	cfg.Notion.Token = config.Secret(notion.Token())
	cfg.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	cfg.StateDir = p.state
	if p.shares() {
		cfg.Journal.Postgres, cfg.Cluster.Name, cfg.Cluster.Listen = config.Secret(p.setting("DIBS_JOURNAL_POSTGRES")), "afterwards", "afterwards:1"
		cfg.Notion.Rate, cfg.Notion.Burst = 20, 40 // it does the work of four
	}
	cfg.Notion.Timeout, cfg.Sync.Interval = c.timeout, c.interval
	cfg.Claim.Timeout, cfg.Claim.WriteWindow, cfg.Claim.Settle = chaosLease, c.window, c.settle
	cfg.Claim.Breaker.Failures = 0
	pipe := server.NewPipe()
	var log io.Writer = io.Discard // the complaints are not to be looked for in it
	if testing.Verbose() {
		log = t.Output()
	}
	d, err := daemon.Start(t.Context(), daemon.Options{
		Config: cfg, Version: "test", Transport: notion.Client().Transport, Listener: pipe, Network: nowhere{},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return &node{Client: client.Over("pipe", pipe.Dial), stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

// lots injects faults into single requests during a run: each fault strikes a share of its
// requests.
type lots struct {
	*chaos
	mu     sync.Mutex
	random *rand.Rand
	first  map[string]*http.Request // the first to write a token
}

// begin activates the faults.
func (l *lots) begin() {
	l.first = make(map[string]*http.Request)
	for _, lot := range []struct {
		kind    emulator.FaultKind
		percent int
		late    time.Duration
		strikes func(*http.Request, []byte) bool
	}{
		// Only claim writes and log entries may land after their senders gave them up, see package
		// claim.
		{emulator.Delay, 5, l.window / 2, l.isClaim},
		{emulator.Delay, 5, l.window, l.isClaim},
		{emulator.Delay, 3, 2 * l.window, l.isClaim},
		{emulator.DelayAnswer, 2, l.window, l.isClaim},
		{emulator.DropAnswer, 2, 0, l.isClaim},
		{emulator.LateWrite, 3, l.window, l.isClaim},
		{emulator.LateWrite503, 3, 2 * l.window, l.isClaim},
		{emulator.LateWrite, 3, 4 * l.settle, l.isClaim},
		{emulator.LateWrite, 4, time.Second, isEntry},
		{emulator.LateWrite, 4, 8 * time.Second, isEntry},
		{emulator.DropAnswer, 4, 0, isEntry},
		{emulator.StaleQuery, 10, 3 * time.Second, isAny},
	} {
		if l.long > 0 && lot.kind != emulator.StaleQuery {
			// A daemon that stands still cannot repair a covered claim in time.
			continue
		}
		l.notion.Inject(emulator.Fault{Kind: lot.kind, Delay: lot.late, Late: lot.late, Match: func(r *http.Request, body []byte) bool {
			if !lot.strikes(r, body) || !l.roll(lot.percent) {
				return false
			}
			if id, ok := strings.CutPrefix(r.URL.Path, "/v1/pages/"); ok {
				l.heldUp(id)
			}
			l.count("lots: " + string(lot.kind))
			return true
		}})
	}
}

// roll returns true with that probability in percent.
func (l *lots) roll(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(100) < percent
}

var tokenWritten = regexp.MustCompile(`"content":"([0-9A-HJKMNP-TV-Z]{26})"`)

// isClaim matches the writes of new claims.
func (l *lots) isClaim(r *http.Request, body []byte) bool {
	if r.Method != http.MethodPatch || !strings.Contains(string(body), `"IN_PROGRESS"`) {
		return false
	}
	m := tokenWritten.FindSubmatch(body)
	if m == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first[string(m[1])] == nil {
		l.first[string(m[1])] = r
	}
	return l.first[string(m[1])] == r
}

// isEntry matches the writes of log entries.
func isEntry(r *http.Request, _ []byte) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/pages"
}

func isAny(*http.Request, []byte) bool { return true }

// Property values in the form of Notion's API.
func text(kind, content string) any {
	spans := []any{}
	if content != "" {
		spans = append(spans, map[string]any{"text": map[string]any{"content": content}})
	}
	return map[string]any{kind: spans}
}

func option(kind, name string) any { return map[string]any{kind: map[string]any{"name": name}} }

func date(t time.Time) any {
	return map[string]any{"date": map[string]any{"start": t.UTC().Format(time.RFC3339)}}
}
