package broker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

const inAPI, inWeb = "origin:example.org/acme/api", "origin:example.org/acme/web"

func touching(patterns ...string) func(*task.Task) {
	return func(t *task.Task) { t.Touches = patterns }
}

// work asks for a task, the next ready one if id is empty, from a repository.
func (h *house) work(agent string, id task.ID, repository string) (api.Claim, error) {
	return h.ask(api.ClaimRequest{Agent: agent, Task: string(id), Repository: repository})
}

// why is the line of `ready --why` about a task.
func (h *house) why(agent, repository string, id task.ID) api.Task {
	h.Helper()
	list := must(h, h.ListTasks, &api.ListTasksInput{Ready: true, Why: true, Agent: agent, Repository: repository})
	i := slices.IndexFunc(list.Tasks, func(t api.Task) bool { return t.ID == id })
	if i < 0 {
		h.Fatalf("%s is not in the list", id)
	}
	return list.Tasks[i]
}

// A task that touches what another agent's task touches is passed over, and refused by name, until
// that one's claim ends, however it does.
func TestTouches(t *testing.T) {
	tasks := []task.Task{
		with(openTask(1, "Parser"), touching("/src/")), with(openTask(2, "Lexer"), touching("!src", "/src/lex.go")), with(openTask(3, "Docs"), touching("/docs/")),
	}
	lexer := tasks[1].ID
	for name, end := range map[string]func(h *house, c api.Claim){
		"completed": func(h *house, _ api.Claim) { h.mustFinish("Sandman", "", claim.EndCompleted, "done") },
		"released":  func(h *house, _ api.Claim) { h.mustFinish("Sandman", "", claim.EndReleased, "") },
		"lost":      func(h *house, c api.Claim) { h.take(c) },
		"stale":     func(*house, api.Claim) { time.Sleep(time.Hour) },
		"blocked after a restart": func(h *house, _ api.Claim) {
			h.restart()
			if _, err := h.work("Merlin", lexer, inAPI); h.code(err) != "reserved" {
				h.Errorf("after a restart: %v", err)
			}
			h.mustFinish("Sandman", "", claim.EndBlocked, "no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, tasks, func(h *house) {
				c, err := h.work("Sandman", tasks[0].ID, inAPI)
				if err != nil {
					h.Fatal(err)
				}
				_, err = h.work("Oracle", lexer, inAPI)
				if p := h.Problem(err); p == nil || p.Code != "reserved" || p.Holder != "Sandman" || p.Pattern != "/src/" || !p.ExpiresAt.After(time.Now()) || !strings.Contains(p.Detail, "“Parser”") {
					h.Errorf("refused with %+v (%v)", p, err)
				}
				if why := h.why("Oracle", inAPI, lexer); why.Ready || why.Code != "reserved" || why.Holder != "Sandman" || why.Pattern != "/src/" || len(why.Unread) != 1 {
					h.Errorf("why: %+v", why)
				}
				if !h.why("Oracle", inWeb, lexer).Ready || !h.why("Sandman", inAPI, lexer).Ready {
					h.Error("it is not ready in another repository, or for the agent itself")
				}
				list := must(h, h.ListTasks, &api.ListTasksInput{Ready: true, Agent: "Oracle", Repository: inAPI, Limit: 1})
				if list.Total != 1 || list.Tasks[0].Title != "Docs" {
					h.Errorf("ready: %+v", list)
				}
				next, err := h.work("Oracle", "", inAPI)
				if next.Task.Title != "Docs" {
					h.Fatalf("the next one is %q, %v", next.Task.Title, err)
				}
				_, err = h.work("Merlin", "", inAPI)
				if p := h.Problem(err); p == nil || p.Code != "nothing_ready" || p.Summary.Touched != 1 || !strings.Contains(p.Detail, "1 touches what others have") {
					h.Errorf("nothing: %+v", p)
				}
				if _, err := h.work("Merlin", lexer, "somewhere"); err == nil || !strings.Contains(err.Error(), "body.repository") {
					h.Errorf("from no repository: %v", err)
				}
				end(h, c)
				if _, err = h.work("Merlin", lexer, inAPI); err != nil {
					h.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// The page decides: what it names is compared, whatever the mirror shows, and of two who ask at once
// for tasks that overlap one gets his.
func TestTouchesOfThePage(t *testing.T) {
	tasks := []task.Task{with(openTask(1, "Parser"), touching("/src/")), openTask(2, "Lexer")}
	inHouse(t, nil, tasks, func(h *house) {
		h.old[tasks[1].ID] = tasks[1]
		h.board.Edit(tasks[1].ID, touching("/src/lex.go"))
		results := make(chan error)
		for agent, id := range map[string]task.ID{"Sandman": tasks[0].ID, "Oracle": tasks[1].ID} {
			go func() {
				_, err := h.work(agent, id, inAPI)
				results <- err
			}()
		}
		if first, second := <-results, <-results; (first == nil) == (second == nil) || h.code(errors.Join(first, second)) != "reserved" {
			h.Errorf("%v and %v", first, second)
		}
	})
}

// A large task is not passed over for ever: after ten minutes, others of its priority wait for it.
func TestTouchesInTurn(t *testing.T) {
	tasks := []task.Task{
		with(openTask(1, "Large"), touching("/src/")), with(openTask(2, "A"), touching("/src/a.go")), with(openTask(3, "B"), touching("/src/b.go")),
		with(openTask(4, "C"), touching("/src/c.go")), with(openTask(5, "Docs"), touching("/docs/")), with(openTask(6, "Urgent"), touching("/src/d.go")),
	}
	inHouse(t, nil, tasks, func(h *house) {
		next := func(agent, want string) {
			h.Helper()
			if c, err := h.work(agent, "", inAPI); c.Task.Title != want {
				h.Errorf("%s gets %q, %v; want %q", agent, c.Task.Title, err, want)
			}
		}
		if _, err := h.work("Sandman", tasks[1].ID, inAPI); err != nil {
			h.Fatal(err)
		}
		next("Oracle", "B")
		time.Sleep(11 * time.Minute)
		h.mustFinish("Oracle", "", claim.EndCompleted, "")
		if why := h.why("Oracle", inAPI, tasks[3].ID); why.Ready || why.Code != "reserved" || why.Pattern != "/src/" || !strings.Contains(why.Reason, "in favour of “Large”, which touches /src/, too, and has waited for 11m") {
			h.Errorf("why: %+v", why)
		}
		next("Oracle", "Docs")
		h.edit(tasks[5].ID, ranks(task.Critical))
		next("Merlin", "Urgent")
		for _, agent := range []string{"Sandman", "Merlin"} {
			h.mustFinish(agent, "", claim.EndCompleted, "")
		}
		next("Sandman", "Large")
		next("Merlin", "")
		h.mustFinish("Sandman", "", claim.EndCompleted, "")
		next("Merlin", "C")
	})
}

// A request that waits gets a task as soon as nobody else has what it touches.
func TestTouchesAreWaitedFor(t *testing.T) {
	tasks := []task.Task{with(openTask(1, "Parser"), touching("/src/")), with(openTask(2, "Lexer"), touching("/src/lex.go"))}
	inHouse(t, nil, tasks, func(h *house) {
		_, err := h.work("Sandman", tasks[0].ID, inAPI)
		h.must(err)
		asked := time.Now()
		go func() {
			time.Sleep(5*time.Minute + time.Second)
			h.mustFinish("Sandman", "", claim.EndCompleted, "")
		}()
		if _, err := h.ask(api.ClaimRequest{Agent: "Oracle", Repository: inAPI, WaitSeconds: 600, Filter: api.Filter{Text: "Lexer"}}); err != nil || time.Since(asked) > 5*time.Minute+12*time.Second {
			h.Errorf("%v, after %v", err, time.Since(asked))
		}
	})
}

// What somebody else touches is not available to a poll, and the agent is told once it is.
func TestTouchesOfAPoll(t *testing.T) {
	tasks := []task.Task{with(openTask(1, "Parser"), touching("/src/")), with(openTask(2, "Lexer"), touching("/src/lex.go"))}
	inHouse(t, nil, tasks, func(h *house) {
		poll := func(repository string, wait float64) (counts []int) {
			got, err := h.Poll(h.Context(), nobody, &api.PollInput{Name: "Oracle", Body: &api.PollRequest{Repository: repository, WaitSeconds: wait}})
			h.must(err)
			for _, one := range got.Triggers {
				counts = append(counts, one.Count)
				must(h, h.Ack, &api.AckInput{Name: "Oracle", Body: api.AckRequest{IDs: []string{one.ID}}})
			}
			return counts
		}
		if got := poll(inAPI, 0); !slices.Equal(got, []int{2}) {
			h.Errorf("first: %v", got)
		}
		_, err := h.work("Sandman", tasks[0].ID, inAPI)
		h.must(err)
		if got := poll(inAPI, 60); got != nil {
			h.Errorf("while Sandman has it: %v", got)
		}
		go func() {
			time.Sleep(time.Minute)
			h.mustFinish("Sandman", "", claim.EndCompleted, "")
			h.Published()
		}()
		if got := poll(inAPI, 600); !slices.Equal(got, []int{1}) {
			h.Errorf("after its end: %v", got)
		}
		if got := poll(inAPI, 0); got != nil {
			h.Errorf("told twice: %v", got)
		}
		_, err = h.Poll(h.Context(), nobody, &api.PollInput{Name: "Oracle", Body: &api.PollRequest{Repository: "somewhere"}})
		if err == nil || !strings.Contains(err.Error(), "body.repository") {
			h.Errorf("from no repository: %v", err)
		}
	})
}
