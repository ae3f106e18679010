package bench_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit/pgtest"
)

// counts are the numbers of concurrent agents.
var counts = []int{1, 4, 16, 64}

// BenchmarkGrants lets agents claim tasks again and again, without completing them. A refusal is a
// request that got no task.
func BenchmarkGrants(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) { benchmarkClaims(b, n, false, *length, alone()...) })
	}
}

// BenchmarkLives lets agents claim and complete tasks again and again. The times include both.
func BenchmarkLives(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) { benchmarkClaims(b, n, true, *length, alone()...) })
	}
}

func benchmarkClaims(b *testing.B, workers int, complete bool, long time.Duration, settings ...string) {
	notion := startBoard(b)
	d := startDaemon(b, notion, settings...)
	agents := make([]*client.Client, workers)
	for i := range agents {
		agents[i] = d.agent()
	}
	benchmarkAgents(b, notion, []*daemon{d}, agents, complete, long)
}

// benchmarkAgents measures agents of daemons.
func benchmarkAgents(b *testing.B, notion *board, daemons []*daemon, agents []*client.Client, complete bool, long time.Duration) {
	cpu := func() (used time.Duration) {
		for _, d := range daemons {
			d.delivered(b)
			used += d.cpu()
		}
		return used
	}
	used := cpu()
	notion.requests(b)
	served := notion.cpu()

	grants := newGrants()
	notion.far(b)
	r := together(b, len(agents), long, func(i int) error {
		name := worker(i)
		c, err := client.Do(b.Context(), agents[i], api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: name}))
		if err != nil {
			return refusal(err)
		}
		grants.add(string(c.Task.ID))
		if complete {
			_, err = client.Do(b.Context(), agents[i], api.OpComplete, api.On(string(c.ID), "", api.CompleteRequest{Agent: name, Summary: "Done."}))
		}
		return err
	})
	notion.near(b)
	used, served = cpu()-used, notion.cpu()-served
	requests := notion.requests(b)

	n := len(r.took)
	r.report(b)
	figures.put(b, float64(n)/r.elapsed.Seconds(), "grants/s")
	figures.put(b, float64(r.refused), "refusals")
	figures.put(b, per(used, n)/float64(time.Millisecond), "cpu-ms/grant")
	figures.put(b, per(requests.all, n), "requests/grant")
	figures.put(b, per(requests.pages, n), "page-requests/grant")
	figures.put(b, per(served, requests.all)/float64(time.Millisecond), "notion-cpu-ms/request")
	if twice := grants.twice(); twice > 0 {
		b.Errorf("%d tasks were granted twice", twice)
	}
}

// worker returns the name of an agent.
func worker(i int) string { return fmt.Sprintf("worker-%02d", i) }

// refusal returns errRefused for a refusal of the daemon, else err.
func refusal(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == 409 {
		return errRefused
	}
	return err
}

// grants counts how often each task was granted.
type grants struct {
	mu sync.Mutex
	n  map[string]int
}

func newGrants() *grants { return &grants{n: make(map[string]int)} }

func (g *grants) add(task string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n[task]++
}

// twice returns how many grants were of tasks granted before.
func (g *grants) twice() int {
	twice := 0
	for _, n := range g.n {
		twice += n - 1
	}
	return twice
}

// byHandWorkers is how many workers claim at the same time.
const byHandWorkers = 16

// byHandLength is the time of measurement for protocols in which a claim waits for seconds.
var byHandLength = func() time.Duration { return 5 * *length }

// BenchmarkByHand lets sixteen workers without dibs claim the best open task again and again, each
// in one of the ways of `dibs simulate`. For comparison it runs the daemon, as the only claimer and
// with the default settle wait. A claim counts if its worker believes in it; if another worker
// believed in a claim of the same task before, it counts as a double grant instead.
func BenchmarkByHand(b *testing.B) {
	b.Run("dibs,exclusive", func(b *testing.B) { benchmarkClaims(b, byHandWorkers, false, *length, alone()...) })
	b.Run("dibs,settle=1.6s", func(b *testing.B) { benchmarkClaims(b, byHandWorkers, false, byHandLength()) })
	for _, way := range []struct {
		name  string
		long  time.Duration
		claim func(*hand, int) (task string, err error)
	}{
		{"read-back-at-once", *length, (*hand).readBack},
		{"name-as-token-after-3s", byHandLength(), (*hand).nameAsToken},
		{"lowest-comment-after-5s", byHandLength(), (*hand).lowestComment},
	} {
		b.Run(way.name, func(b *testing.B) {
			h := &hand{board: startBoard(b)}
			served, grants := h.cpu(), newGrants()
			h.far(b)
			r := together(b, byHandWorkers, way.long, func(i int) error {
				task, err := way.claim(h, i)
				if err == nil {
					grants.add(task)
				}
				return err
			})
			served = h.cpu() - served
			requests, twice := h.requests(b), grants.twice()
			n := len(r.took) - twice
			r.report(b)
			figures.put(b, float64(n)/r.elapsed.Seconds(), "grants/s")
			figures.put(b, float64(r.refused), "refusals")
			figures.put(b, float64(twice), "double-grants")
			figures.put(b, 100*per(twice, n), "double-grants-%")
			figures.put(b, per(requests.all, n), "requests/grant")
			figures.put(b, per(requests.pages, n), "page-requests/grant")
			figures.put(b, per(served, requests.all)/float64(time.Millisecond), "notion-cpu-ms/request")
		})
	}
}

// hand claims without a daemon.
type hand struct{ *board }

// row is the part of a page that claimers read.
type row struct {
	ID         string `json:"id"`
	Properties struct {
		Status struct {
			Status struct{ Name string } `json:"status"`
		} `json:"status"`
		ClaimedBy text `json:"claimed_by"`
		Token     text `json:"claim_token"`
	} `json:"properties"`
}

type text struct {
	Spans []struct {
		Plain string `json:"plain_text"`
	} `json:"rich_text"`
}

func (t text) String() string {
	s := ""
	for _, span := range t.Spans {
		s += span.Plain
	}
	return s
}

type object = map[string]any

func rich(s string) []object { return []object{{"text": object{"content": s}}} }

// best returns the open task of the highest priority, with its page. It returns errRefused if
// somebody has the task by then.
func (h *hand) best() (row, error) {
	var found struct{ Results []row }
	err := h.ask(http.MethodPost, "/v1/databases/"+h.Databases.Tasks+"/query", object{
		"filter": object{"and": []object{
			{"property": "status", "status": object{"equals": "OPEN"}},
			{"property": "claimed_by", "rich_text": object{"is_empty": true}},
		}},
		"sorts":     []object{{"property": "priority", "direction": "ascending"}},
		"page_size": 1,
	}, &found)
	if err != nil {
		return row{}, err
	}
	if len(found.Results) == 0 {
		return row{}, fmt.Errorf("no task is left: set -tasks higher or -for lower")
	}
	task, err := h.read(found.Results[0].ID)
	if err == nil && (task.Properties.Status.Status.Name != "OPEN" || task.Properties.ClaimedBy.String() != "") {
		err = errRefused
	}
	return task, err
}

func (h *hand) read(id string) (task row, err error) {
	return task, h.ask(http.MethodGet, "/v1/pages/"+id, nil, &task)
}

func (h *hand) write(id, agent, token string) error {
	return h.ask(http.MethodPatch, "/v1/pages/"+id, object{"properties": object{
		"status":      object{"status": object{"name": "IN_PROGRESS"}},
		"claimed_by":  object{"rich_text": rich(agent)},
		"claimed_at":  object{"date": object{"start": time.Now().UTC().Format(time.RFC3339)}},
		"claim_token": object{"rich_text": rich(token)},
	}}, nil)
}

// believed returns the task's id if the read page confirms the claim.
func believed(task row, err error, holds func(row) bool) (string, error) {
	if err == nil && !holds(task) {
		err = errRefused
	}
	return task.ID, err
}

// readBack writes a unique token and reads it back at once.
func (h *hand) readBack(i int) (string, error) {
	task, err := h.best()
	if err != nil {
		return "", err
	}
	if err := h.write(task.ID, worker(i), worker(i)); err != nil {
		return "", err
	}
	task, err = h.read(task.ID)
	return believed(task, err, func(r row) bool { return r.Properties.Token.String() == worker(i) })
}

// nameAsToken uses the agent's name as the token. Two sessions share each name.
func (h *hand) nameAsToken(i int) (string, error) {
	agent := worker(i / 2)
	task, err := h.best()
	if err != nil {
		return "", err
	}
	if err := h.write(task.ID, agent, ""); err != nil {
		return "", err
	}
	time.Sleep(3 * time.Second)
	task, err = h.read(task.ID)
	return believed(task, err, func(r row) bool { return r.Properties.ClaimedBy.String() == agent })
}

// lowestComment comments, and wins if its comment has the lowest id 5 seconds later.
func (h *hand) lowestComment(i int) (string, error) {
	task, err := h.best()
	if err != nil {
		return "", err
	}
	var mine struct{ ID string }
	err = h.ask(http.MethodPost, "/v1/comments", object{"parent": object{"page_id": task.ID}, "rich_text": rich(worker(i))}, &mine)
	if err != nil {
		return "", err
	}
	time.Sleep(5 * time.Second)
	var all struct{ Results []struct{ ID string } }
	if err := h.ask(http.MethodGet, "/v1/comments?block_id="+url.QueryEscape(task.ID), nil, &all); err != nil {
		return "", err
	}
	for _, c := range all.Results {
		if c.ID < mine.ID {
			return "", errRefused
		}
	}
	return task.ID, h.write(task.ID, worker(i), worker(i))
}

// members are the cluster sizes for grants, idlers those for idle clusters.
var (
	members = []int{1, 2, 4}
	idlers  = []int{1, 4, 16}
)

// BenchmarkCluster lets agents of several daemons with one journal, in a PostgreSQL server on this
// machine, claim tasks again and again, without completing them. BenchmarkGrants does the same with
// one daemon and its own file.
func BenchmarkCluster(b *testing.B) {
	measure := func(daemons, agents int) {
		b.Run(fmt.Sprintf("daemons=%d/workers=%d", daemons, agents), func(b *testing.B) {
			notion := startBoard(b)
			all := startCluster(b, notion, daemons)
			clients := make([]*client.Client, agents)
			for i := range clients {
				clients[i] = all[i%daemons].agent()
			}
			benchmarkAgents(b, notion, all, clients, false, *length)
		})
	}
	measure(1, 1)
	for _, n := range members {
		measure(n, 64)
	}
}

// BenchmarkIdle measures the daemons of a cluster that is idle for a minute.
func BenchmarkIdle(b *testing.B) {
	for _, n := range idlers {
		b.Run(fmt.Sprintf("daemons=%d", n), func(b *testing.B) {
			notion := startBoard(b)
			startCluster(b, notion, n)
			notion.requests(b)
			b.ResetTimer()
			time.Sleep(time.Minute)
			figures.put(b, float64(notion.requests(b).all), "requests/min")
		})
	}
}

// startCluster starts a PostgreSQL server and n daemons with their journal there.
func startCluster(b *testing.B, notion *board, n int) (daemons []*daemon) {
	b.Helper()
	server := pgtest.Run(b, "fsync=on", "full_page_writes=on")
	for i := range n {
		daemons = append(daemons, startDaemon(b, notion, "DIBS_JOURNAL_POSTGRES="+server.URL(), fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i)))
	}
	time.Sleep(20 * time.Second) // after the start
	return daemons
}
