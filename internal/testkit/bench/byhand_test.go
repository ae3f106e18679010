package bench_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"
)

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
