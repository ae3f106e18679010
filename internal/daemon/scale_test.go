package daemon_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// TestScale measures how many agents boards carry, in virtual time, for docs/scale.md: agents claim
// the next task, work on it, complete it and go on, for an hour. Each board has its own connection,
// so its own rate limit, and its own daemon, the only claimer. In full these are 20 boards with 50
// agents each, of the rows behind the first four, and what is measured has to be what the page says.
// Else it is one board, for ten minutes, on which nobody may wait for longer than that.
func TestScale(t *testing.T) {
	testkit.SkipUnderRace(t)
	testkit.Long(t)
	rows := scaleRows(t)
	testkit.Require(t, len(rows) >= 3, "docs/scale.md has %d rows of measurements", len(rows))
	for i, want := range rows {
		boards, length := 1, 10*time.Minute
		switch {
		case testkit.InFull() && i == 0:
			boards, length = 20, time.Hour
		case testkit.InFull():
			boards, length = 4, time.Hour
		}
		t.Run(want.name, func(t *testing.T) {
			var all scale
			var mu sync.Mutex
			for board := range boards {
				t.Run(fmt.Sprint(board), func(t *testing.T) {
					t.Parallel()
					one := runBoard(t, uint64(board), 50, want.works, length)
					mu.Lock()
					defer mu.Unlock()
					all.tasks += one.tasks
					all.requests += one.requests
					all.claims = append(all.claims, one.claims...)
					all.waited += one.waited
				})
			}
			t.Cleanup(func() { // when all boards are done
				want.compare(t, all, boards, length)
			})
		})
	}
}

// scale is what was measured.
type scale struct {
	tasks, requests int
	claims          []time.Duration // from the question to the grant
	waited          time.Duration   // of all agents, for grants and for completions
}

// scaleRow is a row of the page: 20 boards with 50 agents each, for an hour.
type scaleRow struct {
	name            string
	works           time.Duration // the mean time of work
	tasks, requests float64
	p95             time.Duration
	waits           float64 // percent of its time that an agent waits
}

var scaleLine = regexp.MustCompile(`(?m)^\| (\d+) min \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) s \| ([\d.]+) % \|$`)

func scaleRows(t *testing.T) (rows []scaleRow) {
	for _, m := range scaleLine.FindAllStringSubmatch(string(testkit.Got(os.ReadFile("../../docs/scale.md"))(t)), -1) {
		n := func(i int) float64 {
			return testkit.Got(strconv.ParseFloat(strings.ReplaceAll(m[i], ",", ""), 64))(t)
		}
		rows = append(rows, scaleRow{
			m[1] + " min", time.Duration(n(1)) * time.Minute, n(2), n(3),
			time.Duration(n(4) * float64(time.Second)), n(5),
		})
	}
	return rows
}

func (r scaleRow) compare(t *testing.T, got scale, boards int, length time.Duration) {
	slices.Sort(got.claims)
	p95 := got.claims[len(got.claims)*95/100]
	share := float64(boards) / 20 * length.Hours()
	waits := 100 * got.waited.Hours() / (float64(boards*50) * length.Hours())
	t.Logf("| %s | %.0f | %.0f | %.1f s | %.1f %% |  %.2f requests a task, median %v", r.name, float64(got.tasks)/share, float64(got.requests)/share,
		p95.Seconds(), waits, float64(got.requests)/float64(got.tasks), got.claims[len(got.claims)/2])
	for what, v := range map[string]struct{ want, got, far float64 }{
		"tasks":               {r.tasks, float64(got.tasks) / share, 0.1 * r.tasks},
		"requests":            {r.requests, float64(got.requests) / share, 0.1 * r.requests},
		"p95 of a claim":      {r.p95.Seconds(), p95.Seconds(), 0.25*r.p95.Seconds() + 0.3},
		"percent of its time": {r.waits, waits, 0.15*r.waits + 0.2},
	} {
		short := boards == 1 && (v.got < v.want || what == "requests") // the permits for a burst count for more
		if math.Abs(v.got-v.want) > v.far && !short {
			t.Errorf("%s: %s: %.1f, and docs/scale.md says %.1f", r.name, what, v.got, v.want)
		}
	}
}

// runBoard lets agents work on one board for that long.
func runBoard(t *testing.T, seed uint64, agents int, works, length time.Duration) (out scale) {
	synctest.Test(t, func(t *testing.T) {
		notion := testkit.Got(emulator.New(emulator.Options{Limit: 180}))(t)
		defer notion.Close()
		dbs := testkit.Got(notion.Seed("empty"))(t)
		w := &world{T: t, notion: notion, tasks: dbs.Tasks}
		defer w.stop()
		testkit.Must(t, notion.AddTasks(2+int(float64(agents)*length.Minutes()/works.Minutes()*1.5)))
		notion.SetLatency(func(r *http.Request) (before, after time.Duration) {
			x := chance(seed, "latency", r.Host, r.Method, r.URL.Path, r.ContentLength)
			return time.Duration(x % uint64(200*time.Millisecond)), time.Duration(x >> 32 % uint64(200*time.Millisecond))
		})
		n := w.daemon(func(c *config.Config) { c.Claim.Exclusive, c.Claim.Settle = true, 0 })
		time.Sleep(2 * time.Minute) // the first sync, and permits for a burst
		notion.ResetRequests()
		end := time.Now().Add(length)
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range agents {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				time.Sleep(upTo(random, works)) // they do not come all at once
				for began := time.Now(); time.Until(end) > 0; began = time.Now() {
					cl, err := n.waitFor(fmt.Sprint("agent-", i), "", 10*time.Minute)
					granted := time.Now()
					if err != nil && code(err) != denied(claim.CodeNotionUnavailable) {
						w.Errorf("agent-%d: %v", i, err)
						return
					}
					if err == nil {
						time.Sleep(works/2 + upTo(random, works))
						finishing := time.Now()
						if mustDo(w, n.complete(cl)); time.Until(end) > 0 {
							mu.Lock()
							out.tasks++
							out.claims = append(out.claims, granted.Sub(began))
							out.waited += granted.Sub(began) + time.Since(finishing)
							mu.Unlock()
						}
					}
				}
			})
		}
		time.Sleep(length)
		requests := notion.Requests()
		all.Wait()
		out.requests = len(requests)
		w.neverLimited(requests)
		slices.Sort(out.claims)
	})
	return out
}
