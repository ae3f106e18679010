package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
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
// task to the grant of a waiting request, with and without webhooks. What Notion takes to send an
// event is left out: it is posted at the moment of the edit. docs/webhooks.md has the figures.
func TestSecondsFromAnEdit(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for _, tt := range []struct {
		what             string
		settle, webhooks bool
		events, grants   time.Duration // the most at p95
	}{
		{"without webhooks", true, false, 4 * time.Second, 6 * time.Second},
		{"without webhooks, the only claimer", false, false, 4 * time.Second, 4 * time.Second},
		{"with webhooks", true, true, time.Second, 3 * time.Second},
		{"with webhooks, the only claimer", false, true, time.Second, 2 * time.Second},
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
				h := w.hookedWith(o)
				if tt.webhooks {
					h.shake("secret_one")
				}
				events := w.toEvents(h, tt.webhooks)
				grants := w.toGrants(h, tt.webhooks)
				w.Logf("to a reader of events: %v", events)
				w.Logf("to a grant:            %v", grants)
				if got := events.at(0.95); got > tt.events {
					w.Errorf("an edit takes %v to a reader of events, want at most %v", got, tt.events)
				}
				if got := grants.at(0.95); got > tt.grants {
					w.Errorf("a new task takes %v to a grant, want at most %v", got, tt.grants)
				}
			})
		})
	}
}

const edits = 40

// sometime waits for a while that has nothing to do with syncs.
func sometime(random *rand.Rand) {
	time.Sleep(20*time.Second + time.Duration(random.Int64N(int64(20*time.Second))))
}

func (w *world) toEvents(h *hook, webhooks bool) (all delays) {
	w.Helper()
	id := w.add("Edited", map[string]any{"status": option("status", "BLOCKED")})
	time.Sleep(time.Minute)
	events, stop := h.follow()
	defer stop()
	random := rand.New(rand.NewPCG(1, 1))
	for i := range edits {
		sometime(random)
		for len(events) > 0 { // a task that opens is told of twice
			<-events
		}
		began := time.Now()
		w.edit(id, map[string]any{"status": option("status", []string{"OPEN", "BLOCKED"}[i%2])})
		if webhooks {
			h.tell(happening{kind: "page.properties_updated", page: id})
		}
		<-events
		all = append(all, time.Since(began))
	}
	w.edit(id, map[string]any{"status": option("status", "CANCELLED")})
	time.Sleep(time.Minute)
	return all
}

func (w *world) toGrants(h *hook, webhooks bool) (all delays) {
	w.Helper()
	random := rand.New(rand.NewPCG(2, 2))
	for i := range edits {
		granted := make(chan time.Time, 1)
		go func() {
			cl, err := h.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, "")
			granted <- time.Now()
			if err == nil {
				err = h.complete(cl)
			}
			if err != nil {
				w.Error(err)
			}
			granted <- time.Now()
		}()
		sometime(random)
		began := time.Now()
		id := w.add(fmt.Sprint("Task ", i), nil)
		if webhooks {
			h.tell(happening{kind: "page.created", page: id})
		}
		all = append(all, (<-granted).Sub(began))
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
				time.Sleep(2 * time.Hour)
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
