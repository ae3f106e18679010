package daemon_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit"
)

// reserve reserves patterns in the root folder, for an hour unless body says otherwise.
func (n *node) reserve(agent string, body api.ReserveRequest, patterns ...string) (api.Reservation, error) {
	n.w.Helper()
	body.Agent = agent
	return n.Reserve(n.w.Context(), "/nowhere", patterns, body, "")
}

// A reservation costs one row in the mesh log, and nothing else does: not refusals, questions,
// renewals and its end.
func TestWhatReservationsCost(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		w.notion.ResetRequests()
		var made api.Reservation
		for range 10 {
			var err error
			made, err = n.reserve("Sandman", api.ReserveRequest{}, "./src/", "name:db")
			mustDo(w, err)
			if _, err := n.reserve("Oracle", api.ReserveRequest{}, "./src/a.go"); code(err) != denied(claim.CodeReserved) {
				w.Errorf("err = %v, want reserved", err)
			}
			if _, err := n.MayTouch(w.Context(), "Oracle", "/nowhere", "src/a.go"); code(err) != denied(claim.CodeReserved) {
				w.Errorf("may Oracle touch it: %v", err)
			}
		}
		_, err := n.Unreserve(w.Context(), made.ID, "Sandman")
		mustDo(w, err)
		time.Sleep(2 * time.Minute)
		rows := w.notion.Pages(w.notion.Databases().MeshLog)
		if got := w.requests(); !slices.Equal(got, []string{"POST pages"}) || rows[0].Text("Name") != "Sandman reserved ./src/, name:db in /nowhere" {
			w.Errorf("that cost %q, for %+v", got, rows)
		}
	})
}

// Eight agents do forty tasks in six files. No two have a file at a time, and the tasks that touch all
// files are not left for the end, although small ones are always there.
func TestTouches(t *testing.T) {
	t.Parallel()
	testkit.TakesSeconds(t)
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Files": typed("rich_text")}))
		touches := make(map[string][]int)
		for i := range 40 {
			title, files := fmt.Sprint("Task ", i), []int{i % 6, (i + 1 + i/6%2) % 6}
			patterns := fmt.Sprintf("/src/%d.go\nsrc/%d.go", files[0], files[1])
			if i%10 == 7 {
				files, patterns = []int{0, 1, 2, 3, 4, 5}, "src/"
			}
			touches[title] = files
			w.add(title, map[string]any{"Files": text("rich_text", patterns)})
			time.Sleep(time.Minute) // so that their order is known
		}
		n := w.daemon(func(c *config.Config) { quiet(c); c.Tasks.Properties.Touches = "Files" })
		var (
			mu     sync.Mutex
			has    [6]string
			order  []int // how many files the tasks touch, as they were begun
			agents sync.WaitGroup
		)
		work := func(agent string) {
			for {
				cl, err := call(n, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Repository: "origin:example.org/acme/api", WaitSeconds: 900}))
				if err != nil {
					if code(err) != denied(claim.CodeNothingReady) {
						w.Errorf("%s: %v", agent, err)
					}
					return
				}
				mu.Lock()
				files := touches[cl.Task.Title]
				order = append(order, len(files))
				for _, f := range files {
					if has[f] != "" {
						w.Errorf("%s and %s have file %d", agent, has[f], f)
					}
					has[f] = agent
				}
				took := time.Duration(2+len(order)*7%5) * time.Minute
				mu.Unlock()
				time.Sleep(took)
				mu.Lock()
				for _, f := range files {
					has[f] = ""
				}
				mu.Unlock()
				if err := n.complete(cl); err != nil {
					w.Errorf("%s: %v", agent, err)
				}
			}
		}
		for i := range 8 {
			agents.Go(func() { work(fmt.Sprint("agent-", i)) })
		}
		agents.Wait()
		if first := slices.Index(order, 6); len(order) != 40 || first < 0 || first > 20 {
			w.Errorf("%d tasks were done, by files %v", len(order), order)
		}
	})
}
