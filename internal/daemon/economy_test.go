package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// quiet turns off scheduled work, so that one operation's requests can be counted.
func quiet(c *config.Config) { c.Sync.Interval, c.Sync.Waiting = time.Hour, time.Hour }

func TestWhatAnOperationCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Write the docs", nil)
		n := w.daemon(quiet)
		cost := func(what string, do func(), want ...string) {
			w.Helper()
			same(w, what, want, w.cost(do)) // log entries follow by themselves
		}
		var cl api.Claim
		cost("claim", func() { cl = n.mustClaim("Sandman", id) }, "GET page", "PATCH page", "GET page", "POST pages")
		cost("a refusal for a task held here", func() { w.refused("a claim", second(n.claim("Oracle", id)), denied(claim.CodeHeld)) })
		cost("questions", func() {
			for _, f := range []api.TaskFilter{{}, {Ready: true}, {Status: "OPEN"}} {
				mustCall(n, api.OpListTasks, f.Input())
			}
			n.task(id)
			n.status()
		})
		cost("renewal in the first half of the lease", func() { mustDo(w, second(n.renew(cl))) })
		cost("complete, and the refusal summed up", func() { mustDo(w, n.complete(cl)) }, "GET page", "PATCH page", "POST pages", "POST pages")
		same(w, "mesh log", []string{"contested: Sandman", "granted: Sandman"}, w.mesh())
		same(w, "task log", []string{"completed: Sandman"}, w.work())
	})
}

// An idle interval is one request, on a board of more rows than an answer has, too.
func TestIdleCostsOneRequestAnInterval(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		held, edited := w.add("held", nil), w.add("edited", nil)
		for i := range 150 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		n.mustClaim("Sandman", held)
		time.Sleep(5 * time.Minute)         // beyond the overlap of incremental syncs
		w.edit(edited, name("edited anew")) // for minutes after this every query returns it
		time.Sleep(16 * time.Second)
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		same(w, "ten minutes", slices.Repeat([]string{"POST query"}, int(10*time.Minute/config.Default().Sync.Interval)), w.requests())
	})
}

func TestTwentyAgentsDrainAHundredTasks(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	const agents, tasks, most = 20, 100, 7.2
	inWorld(t, 180, func(w *world) {
		for i := range tasks {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := make(map[task.ID]int)
		for i := range agents {
			wg.Go(func() {
				for {
					cl, err := n.claim(fmt.Sprint("agent-", i), "")
					if code(err) == denied(claim.CodeNothingReady) {
						return
					}
					if err != nil {
						w.Errorf("agent-%d: %v", i, err)
						return
					}
					mu.Lock()
					granted[cl.Task.ID]++
					mu.Unlock()
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					mustDo(w, n.complete(cl))
				}
			})
		}
		wg.Wait()
		w.until(time.Hour, "the outbox to be delivered", func() bool { return n.status().Outbox.Depth == 0 }) // before the count
		requests := w.notion.Requests()
		n.stop()

		for id, times := range granted {
			if times != 1 {
				w.Errorf("task %s was granted %d times", id, times)
			}
		}
		same(w, "tasks granted, in the task log, in the mesh log", []int{tasks, tasks, tasks}, []int{len(granted), len(w.work()), len(w.mesh())})
		w.neverLimited(requests)
		got := float64(len(requests)) / tasks
		w.Logf("%.2f requests per finished task", got)
		if got > most {
			w.Errorf("%.2f requests per finished task, want at most %.1f", got, most)
		}
	})
}

// A restarted daemon reads the pages of all claims that it holds. Permits for writes that turn out
// unnecessary go to the next ones.
func TestRestartLooksAtHeldClaims(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const held = 40
	inWorld(t, 180, func(w *world) {
		for i := range held {
			w.add(fmt.Sprint("task ", i), nil)
		}
		o := w.options(quiet)
		n := w.start(o)
		var wg sync.WaitGroup
		for i := range held {
			wg.Go(func() { n.mustClaim(fmt.Sprint("agent-", i), "") })
		}
		wg.Wait()
		time.Sleep(5 * time.Minute) // for the log entries, and permits for a burst
		n.stop()
		w.notion.ResetRequests()

		began := time.Now()
		w.start(o)
		time.Sleep(time.Minute)
		looked, took := 0, time.Duration(0)
		for _, r := range w.notion.Requests() {
			if kindOf(r) == "GET page" {
				looked, took = looked+1, r.Time.Sub(began)
			}
		}
		w.Logf("looked at %d held claims in %v", looked, took)
		if looked != held || took > 14*time.Second {
			w.Errorf("looked at %d pages in %v, want %d within 14 s", looked, took, held)
		}
	})
}

// oneWay is how long a request takes to Notion, and its answer back: 300 ms together.
const oneWay = 150 * time.Millisecond

// delays are times from an edit, sorted.
type delays []time.Duration

func (d delays) at(share float64) time.Duration { return d[int(share*float64(len(d)-1))] }

func (d delays) String() string {
	slices.Sort(d)
	return fmt.Sprintf("p50 %4.1f s, p95 %4.1f s", d.at(0.5).Seconds(), d.at(0.95).Seconds())
}

// TestSecondsFromAnEdit measures how long a person's edit takes to a reader of events, and a new
// task to the grant of a waiting request, with and without webhooks, which come as late as Notion
// sends them. docs/webhooks.md has the figures.
func TestSecondsFromAnEdit(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for _, tt := range []struct {
		what             string
		settle, webhooks bool
		grants           time.Duration // the most at p95, beyond what Notion takes to send an event
	}{
		{"without webhooks", true, false, 6 * time.Second},
		{"without webhooks, the only claimer", false, false, 4 * time.Second},
		{"with webhooks", true, true, 3 * time.Second},
		{"with webhooks, the only claimer", false, true, 2 * time.Second},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 180, func(w *world) {
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return oneWay, oneWay })
				o := w.options(func(c *config.Config) {
					if !tt.settle {
						c.Claim.Exclusive, c.Claim.Settle = true, 0
					}
				})
				s := &stopwatch{hook: w.hookedWith(o), random: rand.New(rand.NewPCG(1, 1)), posted: make(map[string][]time.Time)}
				most := 4 * time.Second
				if tt.webhooks {
					most = 2 * time.Second
					mustDo(w, w.notion.Subscribe(emulator.Webhook{URL: "http://hooks.example/notion", Client: &http.Client{Transport: s}}))
				}
				for _, m := range []struct {
					what    string
					measure func() []took
					most    time.Duration
				}{{"a reader of events", s.toEvents, most}, {"a grant", s.toGrants, tt.grants}} {
					all, beyond := s.read(m.measure())
					w.Logf("%s, to %s: %v; beyond Notion's event %v", tt.what, m.what, all, beyond)
					if got := beyond.at(0.95); got > m.most {
						w.Errorf("it takes %v to %s, want at most %v", got, m.what, m.most)
					}
				}
			})
		})
	}
}

// stopwatch measures the time from edits.
type stopwatch struct {
	*hook
	random *rand.Rand

	mu     sync.Mutex
	posted map[string][]time.Time // when the events of a page came
}

// took is an edit of a page, and when it was known.
type took struct {
	page         string
	began, known time.Time
}

// RoundTrip posts an event to the daemon.
func (s *stopwatch) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	mustDo(s.w, err)
	var e struct{ Entity struct{ ID string } }
	if json.Unmarshal(body, &e) == nil {
		s.mu.Lock()
		s.posted[e.Entity.ID] = append(s.posted[e.Entity.ID], time.Now())
		s.mu.Unlock()
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return over(s.dial).Transport.RoundTrip(r)
}

// read returns how long edits took, and how much of that was after Notion's event of them, if there
// was one.
func (s *stopwatch) read(edits []took) (all, beyond delays) {
	time.Sleep(2 * time.Minute) // until the last events have come
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range edits {
		all = append(all, e.known.Sub(e.began))
		since := e.began
		if i := slices.IndexFunc(s.posted[e.page], func(at time.Time) bool { return at.After(e.began) }); i >= 0 {
			since = s.posted[e.page][i]
		}
		beyond = append(beyond, max(0, e.known.Sub(since)))
	}
	return all, beyond
}

// edits is how many edits are measured; with TEST_LONG=all more, for the figures.
func edits() int {
	if testkit.InFull() {
		return 40
	}
	return 12
}

// sometime waits for a while that has nothing to do with syncs.
func (s *stopwatch) sometime() {
	time.Sleep(20*time.Second + time.Duration(s.random.Int64N(int64(20*time.Second))))
}

func (s *stopwatch) toEvents() (all []took) {
	id := s.w.add("Edited", map[string]any{"status": option("status", "BLOCKED")})
	time.Sleep(time.Minute)
	events, stop := s.follow()
	defer stop()
	for i := range edits() {
		s.sometime()
		for len(events) > 0 { // a task that opens is told of twice
			<-events
		}
		began := time.Now()
		s.w.edit(id, map[string]any{"status": option("status", []string{"OPEN", "BLOCKED"}[i%2])})
		<-events
		all = append(all, took{id, began, time.Now()})
	}
	s.w.edit(id, map[string]any{"status": option("status", "CANCELLED")})
	return all
}

func (s *stopwatch) toGrants() (all []took) {
	for i := range edits() {
		granted := make(chan time.Time, 1)
		go func() {
			cl, err := s.waitFor("Sandman", "", 10*time.Minute)
			granted <- time.Now()
			if err == nil {
				err = s.complete(cl)
			}
			mustDo(s.w, err)
			granted <- time.Now()
		}()
		s.sometime()
		began := time.Now()
		id := s.w.add(fmt.Sprint("Task ", i), nil)
		all = append(all, took{id, began, <-granted})
		<-granted
	}
	return all
}

// TestRequestsAnHour counts what it costs to wait.
func TestRequestsAnHour(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for _, tt := range []struct{ waiting, most int }{{0, 240}, {1, 1200}, {20, 1200}} {
		t.Run(fmt.Sprint(tt.waiting), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 180, func(w *world) {
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return oneWay, oneWay })
				w.add("Blocked", map[string]any{"status": option("status", "BLOCKED")})
				n := w.daemon(nil)
				time.Sleep(time.Hour + time.Minute) // until the mirror has slowed down
				w.notion.ResetRequests()
				over := time.Now().Add(time.Hour)
				var agents sync.WaitGroup
				for i := range tt.waiting {
					agents.Go(func() {
						for time.Now().Before(over) {
							_, err := n.waitFor(fmt.Sprint("agent-", i), "", min(10*time.Minute, time.Until(over)))
							w.refused("next", err, "nothing_ready")
						}
					})
				}
				agents.Wait()
				time.Sleep(time.Until(over))
				got := len(w.notion.Requests())
				w.Logf("%4d requests an hour with %d waiting", got, tt.waiting)
				if got > tt.most {
					w.Errorf("%d requests, want at most %d", got, tt.most)
				}
			})
		})
	}
}

// samples returns dibs' own metrics, by name and labels.
func (n *node) samples() map[string]string {
	n.w.Helper()
	got := make(map[string]string)
	for line := range strings.Lines(n.get("/metrics")) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && strings.HasPrefix(line, "dibs_") {
			got[line[:i]] = line[i+1:]
		}
	}
	return got
}

// What the daemon counts arrives at its metrics; what each says is tested in internal/daemon/metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		w.add("second", nil)
		w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"), "claimed_at": date(time.Now().Add(-2 * time.Hour)),
		})
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Minute })
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 300 * time.Millisecond, 300 * time.Millisecond
		})
		cl := n.mustClaim("Sandman", first) // its write is answered 1.2 s after its read was sent
		w.refused("a second claim", second(n.claim("Oracle", first)), denied(claim.CodeHeld))
		n.mustClaim("Oracle", "")
		time.Sleep(16 * time.Minute)
		mustDo(w, second(n.renew(cl)))
		time.Sleep(time.Second) // until the outbox is delivered
		mustDo(w, n.complete(cl))
		time.Sleep(10 * time.Second)
		up := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Kind: emulator.Error503})
		n.mustClaim("Sandman", "")
		time.Sleep(150 * time.Second)
		up()

		got := n.samples()
		for name, want := range map[string]string{
			`dibs_claims_total{outcome="granted",reason=""}`:                "3",
			`dibs_claims_total{outcome="denied",reason="held"}`:             "1",
			`dibs_agent_claims_held{agent="Oracle"}`:                        "1",
			`dibs_claim_write_window_ratio_bucket{le="0.7"}`:                "0",
			`dibs_claim_write_window_ratio_bucket{le="0.9"}`:                "3",
			`dibs_claim_attempt_seconds_bucket{outcome="granted",le="3"}`:   "0",
			`dibs_claim_attempt_seconds_bucket{outcome="granted",le="4"}`:   "3",
			`dibs_claim_events_total{kind="granted"}`:                       "3",
			`dibs_claim_events_total{kind="swept"}`:                         "1",
			`dibs_claim_events_total{kind="completed"}`:                     "1",
			`dibs_outbox_entries{log="mesh"}`:                               "1",
			`dibs_notion_permits_max`:                                       "10",
			`dibs_mirror_tasks`:                                             "3",
			`dibs_mirror_ready_tasks`:                                       "0",
			`dibs_api_requests_total{route="POST /v1/claims",status="201"}`: "3",
			`dibs_api_requests_total{route="POST /v1/claims",status="409"}`: "1",
			`dibs_build_info{version="test"}`:                               "1",
			`dibs_claim_write_window_seconds`:                               "1.5",
		} {
			same(w, name, want, got[name])
		}
		for _, name := range []string{
			`dibs_notion_requests_total{endpoint="pages.create",status="503"}`, `dibs_notion_requests_total{endpoint="pages.update",status="200"}`,
			`dibs_outbox_oldest_seconds{log="mesh"}`, `dibs_sync_lag_seconds`, `dibs_notion_permits`,
			`dibs_agent_wait_seconds_total{agent="Sandman"}`, `dibs_claim_events_total{kind="renewed"}`,
		} {
			if got[name] == "" || got[name] == "0" {
				w.Errorf("%s is %q, want some", name, got[name])
			}
		}
	})
}
