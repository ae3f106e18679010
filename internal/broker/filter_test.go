package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// sprint puts a task into one.
func sprint(n float64) func(*task.Task) {
	return func(t *task.Task) { t.Fields = task.Fields{"Sprint": n} }
}

func sprints(h *house) { h.config.Fields = []string{"Sprint"} }

// next claims the next task of that filter.
func (h *house) next(agent string, f api.Filter) (title string, err error) {
	cl, err := h.ask(api.ClaimRequest{Agent: agent, Filter: f})
	return cl.Task.Title, err
}

// The next task is the most urgent one that matches the filter, by its page too.
func TestNextByFilter(t *testing.T) {
	moved := with(with(openTask(2, "Moved"), ranks(task.High)), sprint(42))
	tasks := []task.Task{with(openTask(1, "Urgent"), ranks(task.Critical)), moved, with(openTask(3, "Login form"), sprint(42))}
	inHouse(t, sprints, tasks, func(h *house) {
		h.board.Edit(moved.ID, sprint(43))
		h.old[moved.ID] = moved // before the next sync
		in42 := api.Filter{Where: []string{"Sprint=42"}}
		if got, err := h.next("Sandman", in42); got != "Login form" || err != nil || h.board.Page(moved.ID).ClaimedBy != "" {
			h.Errorf("%s, %v, and the one that was moved is %+v", got, err, h.board.Page(moved.ID))
		}
		delete(h.old, moved.ID)
		h.Changed(moved.ID)
		_, err := h.next("Sandman", in42)
		if p := h.Problem(err); p == nil || p.Code != "nothing_ready" || p.Summary == nil || p.Summary.Held != 1 || p.Summary.Filtered != 2 || p.Summary.NextLeaseEndsAt.IsZero() ||
			p.Detail != "no task that matches is ready: 1 is held; 2 others are ready; try again later, or wait for one" {
			h.Errorf("%+v", err)
		}
		for _, tt := range []struct {
			f           api.Filter
			title, code string
		}{
			{api.Filter{Text: "urg"}, "Urgent", "<nil>"}, {api.Filter{Priority: "low"}, "", "nothing_ready"}, {api.Filter{Priority: "high"}, "Moved", "<nil>"},
			{api.Filter{Priority: "urgent"}, "", "invalid_request"}, {api.Filter{Where: []string{"Sprnt=1"}}, "", "invalid_request"}, {api.Filter{Where: []string{"Sprint"}}, "", "invalid_request"},
		} {
			if got, err := h.next("Oracle", tt.f); got != tt.title || h.code(err) != tt.code {
				h.Errorf("%+v: %q, %v", tt.f, got, err)
			}
		}
		for _, r := range []api.ClaimRequest{{Filter: api.Filter{Text: "x"}}, {Except: []string{string(moved.ID)}}} {
			r.Agent, r.Task = "Sandman", string(moved.ID)
			if _, err := h.ask(r); err == nil || !strings.Contains(err.Error(), "not with one that is named") {
				h.Errorf("a named task, and %+v: %v", r, err)
			}
		}
		h.SetFields(nil)
		if _, err := h.next("Sandman", in42); h.code(err) != "invalid_request" || !strings.Contains(err.Error(), `there is no field "Sprint": want one of title, key,`) {
			h.Errorf("a field that is no longer configured: %v", err)
		}
	})
}

// Two who wait for different tasks each get theirs at once, also one that was ready and is renamed;
// other tasks cost nothing.
func TestWaitByFilter(t *testing.T) {
	first := with(openTask(1, "First"), sprint(1))
	inHouse(t, sprints, []task.Task{first, with(with(openTask(2, "Second"), sprint(2)), after(first.ID)), openTask(3, "Not yet")}, func(h *house) {
		held := h.mustClaim("Anna", first.ID)
		got := make(chan string, 2)
		for agent, f := range map[string]api.Filter{"Sandman": {Where: []string{"Sprint=2"}}, "Oracle": {Text: "third"}} {
			go func() {
				cl, err := h.ask(api.ClaimRequest{Agent: agent, Filter: f, WaitSeconds: 600})
				got <- fmt.Sprint(agent, " ", cl.Task.Title, " ", h.code(err))
			}()
		}
		time.Sleep(time.Second)
		if r, w := h.costs(func() { h.edit(openTask(3, "").ID, sprint(4)); synctest.Wait() }); r+w != 0 || len(got) > 0 {
			h.Errorf("a task that neither waits for took %d requests", r+w)
		}
		for _, tt := range []struct {
			do   func()
			want string
		}{
			{func() { _, _ = h.finish("", string(held.ID), claim.EndCompleted, "") }, "Sandman Second <nil>"},
			{func() { h.edit(openTask(3, "").ID, func(t *task.Task) { t.Title = "The third" }) }, "Oracle The third <nil>"},
		} {
			began := time.Now()
			tt.do()
			if one := <-got; one != tt.want || time.Since(began) > 10*time.Second {
				h.Errorf("%s after %v, want %s at once", one, time.Since(began), tt.want)
			}
		}
	})
}

// Whoever asks why tasks are not ready is told of each, and who gets none, how many there are of each kind.
func TestReadyWhy(t *testing.T) {
	held := with(openTask(1, "Held"), sprint(42))
	tasks := []task.Task{
		held, with(openTask(2, "After"), after(held.ID)), with(openTask(3, "Blocked"), is(task.Blocked)), with(openTask(4, "Hers"), assigned("Anna")),
		with(openTask(5, "Over"), is(task.Completed)), with(openTask(6, "Odd"), is(task.InProgress)), with(openTask(7, "Free"), sprint(42)), openTask(8, "Other"),
	}
	inHouse(t, func(h *house) { sprints(h); h.policy.MaxPerAgent = 1 }, tasks, func(h *house) {
		cl := h.mustClaim("Sandman", held.ID)
		why := func(agent string, f api.Filter) map[string]string {
			h.Helper()
			list := must(h, h.ListTasks, new(api.TaskFilter{Ready: true, Why: true, Agent: agent, Filter: f}.Input()))
			out := make(map[string]string)
			for _, t := range list.Tasks {
				out[t.Title] = t.Code + ": " + t.Reason
				if t.Ready != (t.Code == "") || t.Title == "Held" && (t.Agent != "Sandman" || !t.ExpiresAt.Equal(cl.ExpiresAt.Time)) {
					h.Errorf("%s: ready is %v, and the code %q; held by %s until %v", t.Title, t.Ready, t.Code, t.Agent, t.ExpiresAt)
				}
			}
			return out
		}
		want := map[string]string{
			"Free": ": ", "Other": ": ", "Held": "held: Sandman has it", "After": "blocked_by_dependency: it waits for “Held” (IN_PROGRESS, Sandman)",
			"Blocked": "not_open: it is BLOCKED", "Hers": "reserved: it is assigned to Anna, and only an agent of that name may claim it",
			"Odd": "not_open: it is IN_PROGRESS without a holder; set it to OPEN to hand it out",
		}
		if diff := cmp.Diff(want, why("", api.Filter{})); diff != "" {
			h.Errorf("-want +got\n%s", diff)
		}
		want["Other"] = "filtered: it is not what was asked for: its Sprint is empty"
		if diff := cmp.Diff(want, why("", api.Filter{Where: []string{"Sprint=42"}})); diff != "" {
			h.Errorf("filtered: -want +got\n%s", diff)
		}
		got := why("Sandman", api.Filter{})
		if limit := "limit_reached: Sandman holds as many tasks as it may (max_per_agent, 1)"; got["Free"] != limit || got["Other"] != limit || got["Held"] != want["Held"] {
			h.Errorf("at the limit: %v", got)
		}
		_, err := h.next("Oracle", api.Filter{Priority: "low"})
		if diff := cmp.Diff(&api.Summary{Filtered: 2}, h.Problem(err).Summary); diff != "" {
			h.Errorf("-want +got\n%s", diff)
		}
		for _, agent := range []string{"Oracle", "Anna", "Bob"} {
			h.mustClaim(agent, "")
		}
		for i, one := range []func(*task.Task){is(task.Review), is(task.Failed), func(t *task.Task) { t.ClaimedBy, t.DependsOn = "Carol", []task.ID{held.ID} }, func(t *task.Task) { t.ClaimedBy, t.DependsOn = "Dora", []task.ID{held.ID} }} {
			made := with(openTask(10+i, "More"), one)
			h.board.Add(made)
			h.Changed(made.ID)
		}
		for range 2 { // the second is answered from memory
			_, err = h.claim("Carol", "")
			p := h.Problem(err)
			if diff := cmp.Diff(&api.Summary{Held: 4, Blocked: 1, Dependencies: 2, Assigned: 1, Review: 1, Failed: 1, Other: 1, NextLeaseEndsAt: cl.ExpiresAt}, p.Summary); diff != "" {
				h.Errorf("-want +got\n%s", diff)
			}
			if p.Detail != "no task is ready: 4 are held, 1 is blocked, 2 wait for others, 1 is assigned to somebody else, 1 is to be reviewed, 1 has failed, 1 cannot be claimed as it is; try again later, or wait for one" {
				h.Error(p.Detail)
			}
		}
	})
}

// Requests take the board's words and dibs's, in any case, and answers have dibs's beside the board's.
func TestWords(t *testing.T) {
	named := func(name string, p task.Priority) func(*task.Task) {
		return func(t *task.Task) { t.PriorityName, t.Priority = name, p }
	}
	roof := with(openTask(1, "Roof"), named("Hoch", task.High))
	tasks := []task.Task{roof, with(with(openTask(2, "Fence"), named("low", task.Medium)), after(roof.ID)), with(openTask(3, "Attic"), named("Später", task.None))}
	german := func(h *house) {
		h.config.Words = new(task.Words)
		h.policy.Words = h.config.Words
		h.config.Words.Set(task.Vocabulary{
			Statuses: map[task.Status]string{
				task.Open: "Offen", task.InProgress: "In Arbeit", task.Blocked: "Blockiert", task.Completed: "Erledigt", task.Cancelled: "Gestrichen",
			},
			Priorities: map[task.Priority][]string{task.High: {"notfall", "hoch"}, task.Medium: {"low"}}, Options: []string{"Später", "low", "Hoch", "Notfall"},
		})
	}
	inHouse(t, german, tasks, func(h *house) {
		for _, tt := range []struct{ priority, status, where, want string }{
			{"hoch", "", "", "Roof"}, {"HIGH", "", "", "Roof"}, {"Notfall", "", "", ""}, {"Low", "", "", "Fence"}, {"low", "", "", ""}, // dibs's own spelling is dibs's word
			{"none", "", "", "Attic"}, {"später", "", "", "Attic"}, {"critical", "", "", ""}, {"", "", "priority=hoch", "Roof"}, {"high", "", "status=offen", "Roof"},
			{"", "OPEN", "", "Roof Attic Fence"}, {"High", "oFFen", "", "Roof"}, {"", "in arbeit", "", ""}, {"", "review", "", ""},
		} {
			in := &api.ListTasksInput{Priority: tt.priority, Status: tt.status}
			if tt.where != "" {
				in.Where = []string{tt.where}
			}
			var titles []string
			for _, one := range must(h, h.ListTasks, in).Tasks {
				titles = append(titles, one.Title)
			}
			if got := strings.Join(titles, " "); got != tt.want {
				h.Errorf("%+v selects %q", tt, got)
			}
		}
		for want, in := range map[string]*api.ListTasksInput{
			`status: "Offn" is not a status: want one of Offen, In Arbeit, Blockiert, Erledigt, Gestrichen`: {Status: "Offn"},
			`priority: "Wichtig" is not a priority: want one of Später, low, Hoch, Notfall, none`:           {Priority: "Wichtig"},
		} {
			if _, err := h.ListTasks(h.Context(), nobody, in); h.code(err) != "invalid_request" || err.Error() != want {
				h.Errorf("%v, want %s", err, want)
			}
		}
		cl, err := h.ask(api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Priority: "HOCH"}})
		if err != nil || cl.Task.Title != "Roof" || cl.Task.StatusWord() != "In Arbeit" || cl.Task.Priority != "high" || cl.Task.PriorityName != "Hoch" {
			h.Errorf("claimed %+v, %v", cl.Task, err)
		}
		if waits := must(h, h.GetTask, &api.GetTaskInput{ID: string(tasks[1].ID)}); waits.Reason != "it waits for “Roof” (In Arbeit, Sandman)" {
			h.Errorf("waits: %q", waits.Reason)
		}
		h.mustFinish("Sandman", "", claim.EndCompleted, "")
		if _, err := h.claim("Oracle", roof.ID); err == nil || !strings.Contains(err.Error(), "it is Erledigt") {
			h.Errorf("a finished task: %v", err)
		}
		if done := must(h, h.Reopen, &api.ReopenInput{ID: string(roof.ID), Body: &api.ReopenRequest{Was: "erledigt"}}); done.Was != task.Completed || done.WasName != "Erledigt" {
			h.Errorf("reopened %+v", done)
		}
	})
}
