package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

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
	if err != nil {
		return nil, err
	}
	var e struct{ Entity struct{ ID string } }
	if json.Unmarshal(body, &e) == nil {
		s.mu.Lock()
		s.posted[e.Entity.ID] = append(s.posted[e.Entity.ID], time.Now())
		s.mu.Unlock()
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	post := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) }, DisableKeepAlives: true,
	}
	return post.RoundTrip(r)
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

// edits is how many edits are measured; with -long more, for the figures.
func edits() int {
	if *long {
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
			cl, err := s.Claim(s.w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, "")
			granted <- time.Now()
			if err == nil {
				err = s.complete(cl)
			}
			if err != nil {
				s.w.Error(err)
			}
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
							_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: fmt.Sprint("agent-", i), WaitSeconds: min(600, time.Until(over).Seconds())}, "")
							if !strings.Contains(code(err), "nothing_ready") {
								w.Errorf("agent %d: %v", i, err)
							}
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
