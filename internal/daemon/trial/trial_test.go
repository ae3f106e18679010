package trial_test

import (
	"context"
	"encoding/json"
	"flag"
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
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
	"dibs/internal/testkit/referee"
)

var trialSeed = flag.Uint64("seed", 0, "the seed of the trial; 0 for one that nobody had before")

func TestMain(m *testing.M) {
	if os.Getenv(daemonClocks) != "" {
		os.Exit(serveDaemon())
	}
	os.Exit(testkit.RunInMemory(m))
}

// claimLease is the lease of claims, the shortest that there is.
const claimLease = time.Minute

// TestTrial runs a cluster on one board, and a stranger with a journal of its own: four members, each a
// process of its own, and the PostgreSQL server of their journal. Daemons are killed, stand still, have
// clocks that jump, and are cut off from each other and from Notion, which enforces its rate limit. Two of
// the members reach the database through a pooler, which cuts idle connections. A standby that lagged takes
// over from the database: what the journal admits may be lost then, and nothing else. Two agents may never
// trust at the same time that they hold the same task, each grant of a task has a greater fence than the
// earlier ones, and no page may show a grant covered by another. At the end the journals are sound, every
// log entry exists once, nothing is left on the board, and Notion has refused no request for its rate.
//
// Real processes run in real time, so a trial cannot be repeated exactly, but its seed decides what happens
// to whom and when.
func TestTrial(t *testing.T) {
	testkit.Long(t)
	o := shortTrial
	if testkit.InFull() {
		o.claims, o.agents, o.tasks, o.between, o.limit, o.failovers = 10_000, 64, 600, 120, 40_000, 4000
		o.outlasts = claimLease
	} else {
		t.Parallel() // it bends the clocks of its own processes only
	}
	newTrial(t, o).passes()
}

// shortTrial is a trial of a minute.
var shortTrial = trialOptions{
	claims: 100, agents: 24, tasks: 100, holding: 3, between: 8, limit: 15_000, beyond: 10 * time.Second, brief: 2 * time.Second,
	atWork: time.Second, timeout: 8 * time.Second, window: 5 * time.Second, settle: 6 * time.Second, interval: 2 * time.Second,
}

// trialOptions configures a trial.
type trialOptions struct {
	claims        int // the least number of grants
	agents, tasks int
	limit         int // of requests to Notion in a minute
	// holding is the percentage of claims on which agents work for a while, for up to atWork.
	holding int
	atWork  time.Duration
	// between is the least number of grants between two troubles, brief the longest trouble but those
	// that have to be longer.
	between int64
	brief   time.Duration
	// failovers is the number of grants from one failover of the database to the next; 0 for one
	// failover, at the end: after each nothing is granted for a minute.
	failovers int64
	// beyond is how long a daemon stands still to lose the lead, and outlasts how long to outlast
	// its claims' leases; 0 for never.
	beyond, outlasts time.Duration
	// paused limits the troubles to pauses of the leader's machine.
	paused bool
	binary string // the daemons' program; empty for this test's
	// The daemons' settings: request timeout, write window, settle and sync interval.
	timeout, window, settle, interval time.Duration
}

// aftermath is the time within which the outboxes are delivered.
const aftermath = 15 * time.Minute

// members is how many daemons share the journal. The last daemon is a stranger.
const members = 4

// trial is one run.
type trial struct {
	*testing.T
	trialOptions
	*referee.Book
	began time.Time
	seed  uint64
	// state is the file that passes the emulator's state on to the checks after the run. It is
	// written once, at the end: writing it after each change would take longer than all the rest.
	state    string
	notion   *emulator.Emulator
	board    string // the id of the tasks database
	daemons  []*process
	database *pgtest.Server
	at       *way               // to the database, wherever it is
	ways     []*way             // from each daemon to that
	gates    []*way             // from the others to each daemon
	ids      []string           // of the tasks
	made     atomic.Int64       // grants
	requests []emulator.Request // known at the end
	living   context.Context    // ends with the test, or when a daemon dies
	die      context.CancelCauseFunc
	// turning is held by a failover of the database, and by what one may not undo.
	turning sync.Mutex
	// doubles are the histories, of tasks and of pages, in which two agents held one task.
	doubles []string

	mu     sync.Mutex
	counts map[string]int
	keys   map[string]claim.ID // with which requests were answered
	over   time.Time           // when the troubles ended; zero before
	// kept is when the last transaction was made that the last failover kept, and promoted when that
	// was. spans are the losses that the journal has admitted.
	kept, promoted time.Time
	spans          []referee.Span
}

// newBoard returns a trial without daemons.
func newBoard(t *testing.T, o trialOptions) *trial {
	seed := *trialSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	notion, err := emulator.New(emulator.Options{Limit: o.limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notion.Close() })
	dbs, err := notion.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{
		T: t, trialOptions: o, Book: referee.NewBook(), began: time.Now(), seed: seed, notion: notion, board: dbs.Tasks,
		state: filepath.Join(t.TempDir(), "notion.json"), counts: make(map[string]int), keys: make(map[string]claim.ID),
	}
	for i := range o.tasks {
		id, err := notion.CreatePage(dbs.Tasks, map[string]any{"Name": text("title", fmt.Sprint("Task ", i+1))})
		if err != nil {
			t.Fatal(err)
		}
		tr.ids = append(tr.ids, id)
	}
	tr.living, tr.die = context.WithCancelCause(t.Context())
	return tr
}

func newTrial(t *testing.T, o trialOptions) *trial {
	tr := newBoard(t, o)
	if o.paused {
		tr.slowClaims()
	}
	tr.database = pgtest.Run(t, careless...)
	tr.at = newWay(t, tr.database.Address())
	pooler := pgtest.Pooler(t, tr.database, tr.at.address(), "transaction",
		"client_idle_timeout = 1", "server_idle_timeout = 1", "server_login_retry = 1", "default_pool_size = 20")
	for i := range members {
		listen, to := newAddress(t), tr.at.address()
		if i >= direct && !o.paused {
			to = pooler
		}
		way, gate := newWay(t, to), newWay(t, listen)
		tr.ways, tr.gates = append(tr.ways, way), append(tr.gates, gate)
		tr.daemons = append(tr.daemons, newProcess(tr, i+1,
			"DIBS_JOURNAL_POSTGRES=postgres://postgres@"+way.address()+"/postgres?sslmode=disable",
			fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i+1), "DIBS_CLUSTER_LISTEN="+listen, "DIBS_CLUSTER_ADVERTISE="+gate.address(),
			fmt.Sprint("DIBS_NOTION_RATE=", o.limit/60), fmt.Sprint("DIBS_NOTION_BURST=", o.limit/60),
			"DIBS_SCHEDULE_FULL_SYNC=@every 1h"))
	}
	if !o.paused {
		tr.daemons = append(tr.daemons, newProcess(tr, members+1))
	}
	return tr
}

// Context ends with the test, or when a daemon has died.
func (tr *trial) Context() context.Context { return tr.living }

// alive fails the test now if a daemon has died.
func (tr *trial) alive() {
	tr.Helper()
	if err := tr.living.Err(); err != nil {
		tr.Fatal(context.Cause(tr.living))
	}
}

// must fails the test now if there is an error.
func (tr *trial) must(err error) {
	tr.Helper()
	if err != nil {
		tr.Fatal(err)
	}
}

// stream returns the random numbers of one participant.
func (tr *trial) stream(number int) *rand.Rand { return rand.New(rand.NewPCG(tr.seed, uint64(number))) }

// count counts what happened.
func (tr *trial) count(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.counts[what]++
}

// isOver reports whether the troubles ended that long ago.
func (tr *trial) isOver(ago time.Duration) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return !tr.over.IsZero() && time.Since(tr.over) > ago
}

// bound notes that the request under a key was answered with a claim.
func (tr *trial) bound(key string, id claim.ID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if other, ok := tr.keys[key]; ok && other != id {
		tr.Complain("the key %s was given two claims, %s and %s", key, other, id)
	}
	tr.keys[key] = id
}

// bindings returns the claims that agents got as answers.
func (tr *trial) bindings() map[claim.ID]bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	bound := make(map[claim.ID]bool)
	for _, id := range tr.keys {
		bound[id] = true
	}
	return bound
}

// requestsTo returns the writes to a page and their answers.
func (tr *trial) requestsTo(id string) string {
	var out strings.Builder
	for _, r := range tr.requests {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.Path, id) {
			fmt.Fprintf(&out, "%s  %d %s\n", r.Time.UTC().Format("15:04:05.000"), r.Status, r.Body)
		}
	}
	return out.String()
}

// attach logs the end of a file if the test failed.
func (tr *trial) attach(file, name string) {
	data, err := os.ReadFile(file)
	if err == nil && tr.Failed() {
		tr.Logf("%s:\n%s", name, data[max(0, len(data)-20_000):])
	}
}

// newAddress returns a free address outside of the range that systems assign to connections:
// otherwise a connection might take it while the daemon is down.
func newAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(22_000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// passes runs the trial, and fails the test if it found anything.
func (tr *trial) passes() {
	tr.Helper()
	tr.run()
	for _, what := range slices.Concat(tr.doubles, tr.Wrong()) {
		tr.Error(what)
	}
}

// run runs everything, and then checks the results. Violations are in tr.doubles and the book.
func (tr *trial) run() {
	for _, some := range [][]*process{tr.daemons[direct:], tr.daemons[:direct]} { // the first leads
		var coming sync.WaitGroup
		for _, p := range some {
			coming.Go(func() { p.start() })
		}
		coming.Wait()
		tr.alive()
	}
	tr.idle()
	began := time.Now()
	working, stopWork := context.WithCancel(tr.Context())
	defer stopWork()
	var troubles, workers sync.WaitGroup
	for i := range tr.agents {
		a := newAgent(tr, tr.daemons[i%members], i/members)
		workers.Go(func() { a.work(working) })
	}
	workers.Go(func() { tr.reopen(working) })
	if tr.paused {
		troubles.Go(func() { tr.pauses(working) })
	} else {
		workers.Go(func() { tr.compete(working) })
		troubles.Go(func() { tr.leaderTroubles(working) })
		troubles.Go(func() { tr.daemonTroubles(working) })
		troubles.Go(func() { tr.databaseTroubles(working) })
	}
	for reported := began; int(tr.made.Load()) < tr.claims && !tr.Failed() && (tr.paused || len(tr.Wrong()) == 0); {
		if !sleep(tr.Context(), 50*time.Millisecond) || time.Since(began) > 55*time.Minute { // before go test's own limit, which shows nothing
			break
		}
		if time.Since(reported) > time.Minute {
			reported = time.Now()
			tr.Logf("after %.0f s there were %d grants", time.Since(began).Seconds(), tr.made.Load())
		}
	}
	took := time.Since(began)
	tr.Logf("%d grants, %.0f a second", tr.made.Load(), float64(tr.made.Load())/took.Seconds())
	if int(tr.made.Load()) < tr.claims { // what was found will do
		stopWork()
	}
	troubles.Wait()
	tr.alive()
	if !tr.paused && working.Err() == nil {
		tr.failOver(tr.Context())
	}
	tr.mu.Lock()
	tr.over = time.Now()
	tr.mu.Unlock()
	stopWork()
	workers.Wait()
	tr.alive()
	tr.Logf("after %.0f s all have stopped", time.Since(began).Seconds())
	for _, p := range tr.daemons {
		p.kill()
	}
	tr.requests = tr.notion.Requests()
	tr.interval = 5 * time.Second
	for _, w := range tr.ways {
		w.sever(false)
	}
	tr.admits()
	// The next one leads at once: a bubble does not wait for the database's clock.
	tr.must(tr.database.Exec("UPDATE " + tr.space() + ".leadership SET until = '-infinity'"))
	tr.afterwards()
	tr.inspect()
	tr.Logf("after %.0f s all was looked at, and %d requests were sent to Notion", time.Since(began).Seconds(), len(tr.requests))
}

// inspect checks the results.
func (tr *trial) inspect() {
	tr.checkRecord()
	stories, _ := tr.Doubles()
	for task, story := range stories {
		tr.doubles = append(tr.doubles, fmt.Sprintf("the history of task %s is not that of a lock with fences:\n%s%s", task, story, tr.requestsTo(task)))
	}
	tr.checkPages()
	holds := tr.Holds()
	for _, h := range holds {
		if h.Fence <= 0 && h.Daemon <= members {
			tr.Complain("claim %s has no fence", h.ID)
		}
	}
	for _, r := range tr.requests {
		if r.Status == http.StatusTooManyRequests {
			tr.Complain("Notion refused a request at %v as one too many", r.Time)
			break
		}
	}
	var did []string
	for _, what := range slices.Sorted(maps.Keys(tr.counts)) {
		did = append(did, fmt.Sprint(tr.counts[what], " ", what))
	}
	tr.Logf("%s", strings.Join(did, ", "))
	if n := len(holds); n < tr.claims {
		tr.Complain("%d claims were granted, want %d", n, tr.claims)
	}
}

// pageWrite has the properties that a request writes to a page, by id.
type pageWrite struct {
	Properties map[string]struct {
		Text *[]struct {
			Text struct{ Content string } `json:"text"`
		} `json:"rich_text"`
	} `json:"properties"`
}

// token returns the written claim token, and whether the request writes any part of a claim.
func (w pageWrite) token() (token claim.Token, any bool) {
	for _, p := range w.Properties {
		if p.Text == nil {
			continue
		}
		any = true
		for _, span := range *p.Text {
			if t := claim.ParseToken(span.Text.Content); t.ID != "" {
				token = t
			}
		}
	}
	return token, any
}

// checkPages checks, from the writes to Notion, that no page showed a granted claim over another
// one whose lease had not ended.
func (tr *trial) checkPages() {
	type shown struct {
		claim claim.ID
		at    time.Time // the last write
	}
	bound, pages, claims := tr.bindings(), make(map[string]shown), 0
	for _, r := range tr.requests { // in the order of arrival; no page has two relevant ones at a time
		id, ok := strings.CutPrefix(r.Path, "/v1/pages/")
		cut := r.Status == 0 // before its answer; it may have taken effect
		if !ok || r.Method != http.MethodPatch || r.Status != http.StatusOK && !cut {
			continue
		}
		var w pageWrite
		if err := json.Unmarshal(r.Body, &w); err != nil {
			tr.Error(err)
		}
		token, any := w.token()
		if !any || cut && token.ID != "" && !bound[token.ID] {
			continue
		}
		before := pages[id]
		switch {
		case token.ID == "" || token.Void || token.Done: // it ends, or is withdrawn
			delete(pages, id)
			continue
		case token.ID != before.claim:
			claims++
			if bound[before.claim] && bound[token.ID] && r.Time.Sub(before.at) < claimLease {
				tr.doubles = append(tr.doubles, fmt.Sprintf("task %s was given to %s at %v, while it was that of %s:\n%s", id, token.ID, r.Time, before.claim, tr.requestsTo(id)))
			}
		}
		pages[id] = shown{token.ID, r.Time}
	}
	if claims < tr.claims {
		tr.Complain("%d claims were written to pages, want at least %d", claims, tr.claims)
	}
}
