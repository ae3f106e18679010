package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// TestTrial runs a cluster on one board, and a stranger with a journal of its own: four members, each a process of its own, and the
// PostgreSQL server of their journal. Members are killed, stand still, and are cut off from each
// other and from Notion, which enforces its rate limit. Two of them reach the database through a
// pooler, which cuts idle connections. A standby that lagged takes over from the database: what the
// journal admits may be lost then, and nothing else. Two agents may never trust at the same time
// that they hold the same task, each grant of a task has a greater fence than the earlier ones, and
// no page may show a grant covered by another. At the end the journal is sound, every log entry
// exists once, nothing is left on the board, and Notion has refused no request for its rate.
func TestTrial(t *testing.T) {
	testkit.Long(t)
	beside(t)
	o := shortTrial
	if testkit.InFull() {
		o.claims, o.agents, o.times.tasks, o.between, o.limit, o.failovers = 10_000, 64, 600, 120, 40_000, 4000
	}
	newTrial(t, o).passes()
}

// trialTimes are a trial's default times.
var trialTimes = season{
	name: "cluster", brief: 2 * time.Second, shared: true,
	timeout: 8 * time.Second, window: 5 * time.Second, settle: 6 * time.Second, interval: 2 * time.Second,
	atWork: time.Second, tasks: 100, aftermath: 15 * time.Minute,
}

// shortTrial is a trial of a minute.
var shortTrial = trialOptions{
	claims: 100, agents: 24, times: trialTimes, holding: 3, between: 8, limit: 15_000, beyond: 10 * time.Second,
}

// trialOptions configures a trial.
type trialOptions struct {
	times  season
	claims int // the least number of grants
	agents int
	limit  int // of requests to Notion in a minute
	// holding is the percentage of claims on which agents work for a while.
	holding int
	// between is the least number of grants between two troubles.
	between int64
	// failovers is the number of grants from one failover of the database to the next; 0 for one
	// failover, at the end: after each nothing is granted for a minute.
	failovers int64
	// beyond is how long a daemon stands still to lose the lead; 0 for never.
	beyond time.Duration
	// paused limits the troubles to pauses of the leader's machine.
	paused bool
	binary string // the daemons' program; empty for this test's
}

// members is how many daemons share the journal. The last daemon is a stranger.
const members = 4

// trial is one run.
type trial struct {
	*chaos
	trialOptions
	database *pgtest.Server
	at       *way         // to the database, wherever it is
	ways     []*way       // from each daemon to that
	gates    []*way       // from the others to each daemon
	ids      []string     // of the tasks
	made     atomic.Int64 // grants
	// kept is when the last transaction was made that the last failover kept, and promoted when that
	// was; see history for the lock.
	kept, promoted time.Duration
	// turning is held by a failover of the database, and by what one may not undo.
	turning sync.Mutex
	// doubles are the histories, of tasks and of pages, in which two agents held one task.
	doubles []string
}

func newTrial(t *testing.T, o trialOptions) *trial {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	tr := &trial{chaos: newBoard(t, o.times, seed, emulator.Options{Limit: o.limit}), trialOptions: o}
	tr.chaos.binary = o.binary
	tr.notion.SetLatency(nil)
	if o.paused {
		tr.slowClaims()
	}
	for _, p := range tr.notion.Pages(tr.chaos.tasks) {
		tr.ids = append(tr.ids, p.ID)
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
		tr.daemons = append(tr.daemons, newProcess(tr.chaos, i+1,
			"DIBS_JOURNAL_POSTGRES=postgres://postgres@"+way.address()+"/postgres?sslmode=disable",
			fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i+1), "DIBS_CLUSTER_LISTEN="+listen, "DIBS_CLUSTER_ADVERTISE="+gate.address(),
			fmt.Sprint("DIBS_NOTION_RATE=", o.limit/60), fmt.Sprint("DIBS_NOTION_BURST=", o.limit/60),
			"DIBS_SCHEDULE_FULL_SYNC=@every 1h"))
	}
	if !o.paused {
		tr.daemons = append(tr.daemons, newProcess(tr.chaos, members+1))
	}
	return tr
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
	for _, what := range slices.Concat(tr.doubles, tr.bad) {
		tr.Error(what)
	}
}

// run runs everything, and then checks the results. Violations are in tr.doubles and tr.bad.
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
		a := &trialAgent{newAgent(tr.chaos, tr.daemons[i%members], i/members), tr}
		if tr.paused {
			a.patience, a.renewing = time.Minute, 0
		}
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
	for reported := began; int(tr.made.Load()) < tr.claims && !tr.Failed() && (tr.paused || tr.complaints() == 0); {
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
	tr.counting.Lock()
	tr.over = time.Now()
	tr.counting.Unlock()
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
	if err := tr.database.Exec("UPDATE " + tr.space() + ".leader SET until = '-infinity'"); err != nil {
		tr.Fatal(err)
	}
	tr.afterwards()
	tr.inspect()
	tr.Logf("after %.0f s all was looked at, and %d requests were sent to Notion", time.Since(began).Seconds(), len(tr.requests))
}

// inspect checks the results.
func (tr *trial) inspect() {
	tr.checkLogs()
	stories, _ := tr.check()
	for task, story := range stories {
		tr.doubles = append(tr.doubles, fmt.Sprintf("the history of task %s is not that of a lock with fences:\n%s%s", task, story, tr.requestsTo(task)))
	}
	tr.checkPages()
	for _, hd := range tr.holds {
		if hd.fence <= 0 && hd.daemon <= members {
			tr.complain("claim %s has no fence", hd.id)
		}
	}
	for _, r := range tr.requests {
		if r.Status == http.StatusTooManyRequests {
			tr.complain("Notion refused a request at %v as one too many", r.Time.Sub(tr.began))
			break
		}
	}
	var did []string
	for _, what := range slices.Sorted(maps.Keys(tr.counts)) {
		did = append(did, fmt.Sprint(tr.counts[what], " ", what))
	}
	tr.Logf("%s", strings.Join(did, ", "))
	if n := len(tr.holds); n < tr.claims {
		tr.complain("%d claims were granted, want %d", n, tr.claims)
	}
}

// trialAgent is an agent that claims and finishes tasks as fast as it can.
type trialAgent struct {
	*chaosAgent
	trial *trial
}

// hot is how many tasks are wanted by many agents of all daemons at once.
const hot = 4

func (a *trialAgent) work(ctx context.Context) {
	for ctx.Err() == nil {
		body := api.ClaimRequest{Agent: a.name}
		contested := a.stranger() || a.chance(20)
		if contested {
			body.Task = a.trial.ids[a.random.IntN(min(hot, len(a.trial.ids)))]
		}
		cl, ok := a.ask(ctx, body)
		if !ok {
			sleep(ctx, a.upTo(time.Second)) // every failure takes time
			continue
		}
		if a.stranger() {
			a.count("grants of the stranger")
		} else {
			a.trial.made.Add(1)
		}
		switch {
		case contested || a.chance(a.trial.holding):
			a.workOn(ctx, cl)
		default:
			sleep(ctx, a.upTo(20*time.Millisecond))
		}
		if a.chance(10) {
			a.tell()
		}
		a.end(cl)
	}
}

// stranger reports whether the agent's daemon has a journal of its own.
func (a *trialAgent) stranger() bool { return !a.daemon.shares() }

// compete lets the stranger's agents compete with the others from half of the grants on. Before that,
// one of them has a task that nobody else may take, until the shared journal has that there is a
// stranger: from then on the others' claims are settled. The stranger takes its time between a read and
// its write.
func (tr *trial) compete(ctx context.Context) {
	for int(tr.made.Load()) < tr.claims/2 {
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
	p := tr.daemons[members]
	first := &trialAgent{newAgent(tr.chaos, p, 0), tr}
	id, err := tr.notion.CreatePage(tr.chaos.tasks, map[string]any{"Name": text("title", "Strange"), "claimed_by": text("rich_text", first.name)})
	if err != nil {
		tr.Error(err)
	}
	began := tr.now()
	for met := false; !met && ctx.Err() == nil; tr.turning.Unlock() {
		if tr.now()-began > comesUp {
			tr.complain("in %v nobody has seen that there is a stranger", comesUp)
		}
		tr.turning.Lock() // what is seen now is not lost
		cl, ok := first.ask(ctx, api.ClaimRequest{Agent: first.name, Task: id})
		for ok && !met && first.trusted(cl.ID) && sleep(ctx, 100*time.Millisecond) {
			_ = ask(tr.database, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.meta WHERE key = 'stranger')", tr.space()), &met) // it may be down
		}
	}
	tr.notion.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: tr.window / 5, Match: func(r *http.Request, _ []byte) bool {
		return r.Host == p.host && r.Method == http.MethodGet
	}})
	var all sync.WaitGroup
	all.Go(func() { first.work(ctx) })
	for n := range 3 {
		a := &trialAgent{newAgent(tr.chaos, p, n+1), tr}
		all.Go(func() { a.work(ctx) })
	}
	all.Wait()
}

// tell lets the agent send a message, whose text is its key, too.
func (a *trialAgent) tell() {
	key, call := a.key(), a.now()
	_, err := persist(a.chaosAgent, func(ctx context.Context) (api.Claim, error) {
		_, err := client.Do(ctx, a.client, api.OpSend, api.Keyed(key, api.MessageRequest{From: a.name, To: "Bob", Text: key}))
		return api.Claim{}, err
	}, nil)
	if err == nil {
		a.accepted(key, call)
		a.count("messages")
	} else {
		a.count("messages given up")
	}
}

// reopen lets a person reopen finished tasks until ctx ends.
func (tr *trial) reopen(ctx context.Context) {
	for sleep(ctx, time.Second) {
		for _, page := range tr.notion.Pages(tr.chaos.tasks) {
			if s := page.Select("status"); s == "OPEN" || s == "IN_PROGRESS" {
				continue
			}
			if err := tr.notion.EditPage(page.ID, opened); err != nil {
				tr.Error(err)
			}
		}
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
			if bound[before.claim] && bound[token.ID] && r.Time.Sub(before.at) < chaosLease {
				tr.doubles = append(tr.doubles, fmt.Sprintf("task %s was given to %s at %v, while it was that of %s:\n%s", id, token.ID, r.Time.Sub(tr.began), before.claim, tr.requestsTo(id)))
			}
		}
		pages[id] = shown{token.ID, r.Time}
	}
	if claims < tr.claims {
		tr.complain("%d claims were written to pages, want at least %d", claims, tr.claims)
	}
}
