package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// with is a task that is like another one, but for what change makes of it.
func with(t task.Task, change func(*task.Task)) task.Task {
	change(&t)
	return t
}

// after has a task depend on others.
func after(ids ...task.ID) func(*task.Task) { return func(t *task.Task) { t.DependsOn = ids } }

func is(s task.Status) func(*task.Task) { return func(t *task.Task) { t.Status = s } }

func ranks(p task.Priority) func(*task.Task) { return func(t *task.Task) { t.Priority = p } }

func assigned(name string) func(*task.Task) { return func(t *task.Task) { t.ClaimedBy = name } }

// The next task is none of those that the request says will not do.
func TestNextExcept(t *testing.T) {
	tasks := []task.Task{with(openTask(1, "First"), ranks(task.Critical)), openTask(2, "Second")}
	inHouse(t, nil, tasks, func(h *house) {
		for _, tt := range []struct {
			except      []string
			title, code string
		}{{[]string{string(tasks[0].ID)}, "Second", "<nil>"}, {[]string{string(tasks[0].ID)}, "", "nothing_ready"}, {nil, "First", "<nil>"}} {
			cl, err := h.ask(api.ClaimRequest{Agent: "Sandman", Except: tt.except})
			if cl.Task.Title != tt.title || h.code(err) != tt.code {
				h.Errorf("except %v: %q, %v; want %q, %s", tt.except, cl.Task.Title, err, tt.title, tt.code)
			}
		}
	})
}

// A key stands for a task, in whatever case.
func TestTaskByKey(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		for _, key := range []string{"TASK-2", "task-2"} {
			if id, err := h.TaskByKey(h.Context(), key); err != nil || id != pair()[1].ID {
				h.Errorf("%s: %s, %v", key, id, err)
			}
		}
		if _, err := h.TaskByKey(h.Context(), "TASK-9"); h.code(err) != "not_found" {
			h.Errorf("a key of no task: %v", err)
		}
	})
}

// The list of tasks has first what matters, and says why the rest is not ready.
func TestTasksThatMatter(t *testing.T) {
	gone := with(openTask(5, "Gone"), is(task.Blocked))
	design := openTask(3, "Design")
	tasks := []task.Task{
		with(openTask(1, "Over"), is(task.Completed)), with(with(openTask(2, "Stuck"), is(task.Blocked)), ranks(task.Critical)), design,
		with(with(openTask(4, "Late"), after(design.ID, gone.ID)), ranks(task.High)), gone, with(openTask(6, "Free"), ranks(task.Low)),
	}
	inHouse(t, nil, tasks, func(h *house) {
		h.mustClaim("alice", design.ID)
		list := must(h, h.ListTasks, &api.ListTasksInput{})
		var titles []string
		for _, one := range list.Tasks {
			titles = append(titles, one.Title)
			if one.Ready == (one.Code != "" || one.Reason != "") {
				h.Errorf("%s: ready is %v, and it says %s: %s", one.Title, one.Ready, one.Code, one.Reason)
			}
			if one.Title == "Late" && (one.Code != "blocked_by_dependency" || one.Reason != "it waits for “Design” (IN_PROGRESS, alice) and “Gone” (BLOCKED)" ||
				len(one.WaitingFor) != 2 || one.WaitingFor[0].Agent != "alice") {
				h.Errorf("%s: %q, %+v", one.Code, one.Reason, one.WaitingFor)
			}
		}
		if got := strings.Join(titles, " "); got != "Design Free Late Stuck Over Gone" && got != "Design Free Late Stuck Gone Over" {
			h.Errorf("order: %s", got)
		}
		if list = must(h, h.ListTasks, &api.ListTasksInput{Limit: 2}); len(list.Tasks) != 2 || list.Tasks[1].Title != "Free" || list.Total != 6 {
			h.Errorf("two of them: %+v", list)
		}
		_, err := h.claim("Oracle", tasks[3].ID)
		if h.code(err) != "blocked_by_dependency" || !strings.Contains(err.Error(), "“Design” (IN_PROGRESS, alice)") {
			h.Error(err)
		}
	})
}

// The lease is the page's, whatever an agent asks for: it only says how long its claim is kept.
func TestTimeoutLeavesThePageAlone(t *testing.T) {
	const own = 45 * time.Minute
	for _, asked := range []time.Duration{5 * time.Hour, 10 * time.Minute} {
		one := with(openTask(1, "long work"), func(t *task.Task) { t.Timeout = own })
		inHouse(t, nil, []task.Task{one}, func(h *house) {
			cl, err := h.ask(api.ClaimRequest{Agent: "Sandman", Task: string(one.ID), TimeoutMinutes: int(asked.Minutes())})
			if err != nil {
				h.Fatal(err)
			}
			if lasts, kept := cl.ExpiresAt.Sub(cl.ClaimedAt.Time), cl.KeptUntil.Sub(cl.ClaimedAt.Time); lasts != min(own, asked) || kept != asked {
				h.Errorf("it lasts %v, and is kept for %v; want %v, %v", lasts, kept, min(own, asked), asked)
			}
			if got := h.board.Page(one.ID).Timeout; got != own {
				h.Errorf("the page has a lease of %v, want its own", got)
			}
		})
	}
}

// What cannot become true is not waited for.
func TestNotWaitedFor(t *testing.T) {
	tasks := []task.Task{with(openTask(1, "done"), is(task.Completed)), openTask(2, "endless")}
	inHouse(t, nil, tasks, func(h *house) {
		start := time.Now()
		for want, r := range map[string]api.ClaimRequest{
			string(claim.CodeNotOpen):      {Agent: "Oracle", Task: string(tasks[0].ID), WaitSeconds: 600},
			string(api.CodeInvalidRequest): {Agent: "Oracle", Task: string(tasks[1].ID), WaitSeconds: 600, TimeoutMinutes: 24*60 + 1},
		} {
			if _, err := h.ask(r); h.code(err) != want || time.Since(start) > time.Minute {
				h.Errorf("err = %v after %v, want %s at once", err, time.Since(start), want)
			}
		}
	})
}

// Who waits for a task that is held gets it at once when it is released, or is denied it when
// the time is over.
func TestWaitForTask(t *testing.T) {
	tasks := pair()[:1]
	inHouse(t, nil, tasks, func(h *house) {
		h.mustClaim("Sandman", tasks[0].ID)
		for _, wanted := range []task.ID{tasks[0].ID, ""} {
			start := time.Now()
			_, err := h.ask(api.ClaimRequest{Agent: "Oracle", Task: string(wanted), WaitSeconds: 20})
			if err == nil || time.Since(start) != 20*time.Second {
				h.Errorf("waited %v, err = %v, want a denial after 20s", time.Since(start), err)
			}
		}
		sent := len(h.store.Calls())
		done := make(chan error, 1)
		go func() {
			_, err := h.ask(api.ClaimRequest{Agent: "Oracle", Task: string(tasks[0].ID), WaitSeconds: 600})
			done <- err
		}()
		time.Sleep(time.Minute)
		start := time.Now()
		if now := len(h.store.Calls()); now != sent {
			h.Errorf("waiting took %d requests", now-sent)
		}
		h.mustFinish("Sandman", "", claim.EndReleased, "")
		if err := <-done; err != nil || time.Since(start) > 5*time.Second {
			h.Errorf("err = %v after %v, want the claim at once", err, time.Since(start))
		}
	})
}

// Who waits for a task goes on when one is assigned to it.
func TestWaitingForAnAssignment(t *testing.T) {
	one := with(openTask(1, "task"), assigned("Maria"))
	inHouse(t, nil, []task.Task{one}, func(h *house) {
		got := make(chan string, 3)
		for _, ask := range []api.ClaimRequest{{Agent: "Sandman"}, {Agent: "Oracle"}, {Agent: "Oracle", Task: string(one.ID)}} {
			ask.WaitSeconds = 600
			go func() {
				if cl, err := h.ask(ask); err == nil {
					got <- cl.Agent
				}
			}()
		}
		time.Sleep(time.Minute + time.Second) // not when they look again by themselves
		if len(got) > 0 {
			h.Fatalf("%s got what was assigned to Maria", <-got)
		}
		begun := time.Now()
		h.edit(one.ID, assigned("Oracle"))
		if who := <-got; who != "Oracle" || time.Since(begun) > 5*time.Second {
			h.Errorf("%s got it after %v, want Oracle at once", who, time.Since(begun))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(got) > 0 {
			h.Errorf("%s got it, too", <-got)
		}
	})
}

// Of each agent it is told what it has, what it has done and when it was last seen, at no cost.
func TestWhoWorksHere(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		h.mustClaim("Sandman", pair()[0].ID)
		second := h.mustClaim("Oracle", pair()[1].ID)
		time.Sleep(20 * time.Minute)
		h.mustFinish("Sandman", "", claim.EndCompleted, "done")
		done := time.Now()
		time.Sleep(time.Minute)
		if err := h.renew("Oracle", string(second.ID)); err != nil {
			h.Fatal(err)
		}
		renewed, sent := time.Now(), len(h.store.Calls())
		if err := h.send(api.MessageRequest{To: "Oracle", Text: "hello"}); err != nil {
			h.Fatal(err)
		}
		list, err := h.ListAgents(h.Context(), nobody, &api.ListAgentsInput{Days: 7})
		if err != nil || len(list.Agents) != 2 {
			h.Fatalf("%+v, %v; want two agents", list, err)
		}
		oracle, sandman := list.Agents[0], list.Agents[1]
		if oracle.Agent != "Oracle" || len(oracle.Claims) != 1 || oracle.Claims[0].ID != second.ID || oracle.DoneToday != 0 || oracle.MedianSeconds != nil || oracle.Inbox != 1 ||
			oracle.LastSeen.Sub(renewed).Abs() > 10*time.Second {
			h.Errorf("Oracle, who renewed at %v: %+v", renewed, oracle)
		}
		if sandman.Agent != "Sandman" || len(sandman.Claims) != 0 || sandman.DoneToday != 1 || sandman.MedianSeconds == nil ||
			(time.Duration(*sandman.MedianSeconds*float64(time.Second))-20*time.Minute).Abs() > time.Minute || sandman.Inbox != 0 || sandman.LastSeen.Sub(done).Abs() > 10*time.Second {
			h.Errorf("Sandman, who was done at %v: %+v", done, sandman)
		}
		if now := len(h.store.Calls()); now != sent {
			h.Errorf("%d requests to Notion, to list agents", now-sent)
		}
		// A day later nothing was done today, and nobody was seen within it.
		time.Sleep(24*time.Hour + time.Minute)
		if list, err = h.ListAgents(h.Context(), nobody, &api.ListAgentsInput{Days: 7}); err != nil || len(list.Agents) != 2 || list.Agents[1].DoneToday != 0 || list.Agents[1].MedianSeconds == nil {
			h.Errorf("a day later: %+v, %v", list, err)
		}
		if list, err = h.ListAgents(h.Context(), nobody, &api.ListAgentsInput{Days: 1}); err != nil || len(list.Agents) != 0 {
			h.Errorf("seen within a day: %+v, %v", list, err)
		}
	})
}

// What was taken and not acknowledged comes back, and a poll under the same key gets the
// same, also after a restart.
func TestVisibility(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		send := func(text string) {
			h.Helper()
			if err := h.send(api.MessageRequest{To: "Oracle", Text: text}); err != nil {
				h.Fatal(err)
			}
		}
		poll := func(key string, wait time.Duration) []api.Trigger {
			h.Helper()
			got, err := h.poll(h.Context(), "Oracle", key, wait.Seconds())
			if err != nil {
				h.Fatal(err)
			}
			return got
		}
		send("hello")
		first := poll("k", 0)
		h.restart()
		if diff := cmp.Diff(first, poll("k", 0)); diff != "" || len(first) != 1 {
			h.Errorf("the same poll gets something else (-want +got):\n%s", diff)
		}
		if got := poll("", 0); len(got) != 0 {
			h.Errorf("handed out twice: %+v", got)
		}
		began := time.Now()
		again := poll("", time.Hour)
		if took := time.Since(began); len(again) != 1 || again[0].ID != first[0].ID || took < 25*time.Minute || took > 31*time.Minute {
			h.Errorf("after %v: %+v", took, again)
		}
		for range 2 {
			acked, err := h.AckAny(h.Context(), nobody, &api.KeyedInput[api.AckRequest]{Body: api.AckRequest{IDs: []string{first[0].ID, "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}}})
			want := api.Acked{Acknowledged: []string{first[0].ID}, Unknown: []string{"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"}}
			if diff := cmp.Diff(want, acked); err != nil || diff != "" {
				h.Errorf("%v, acked (-want +got):\n%s", err, diff)
			}
		}
		// A poll that is repeated later gets nothing that was acknowledged, or that another one
		// has by now.
		if got := poll("k", 0); len(got) != 0 {
			h.Errorf("repeated after the acknowledgement: %+v", got)
		}
		send("twice")
		if got := poll("l", 0); len(got) != 1 {
			h.Errorf("%d triggers", len(got))
		}
		time.Sleep(30 * time.Minute)
		if got := poll("", 0); len(got) != 1 || got[0].Text != "twice" || got[0].From != "user 1000" {
			h.Errorf("after half an hour: %+v", got)
		}
		if got := poll("l", 0); len(got) != 0 {
			h.Errorf("repeated when another poll had them: %+v", got)
		}
		// Who goes away while it waits takes nothing along.
		waiting, leave := context.WithTimeout(h.Context(), time.Minute)
		defer leave()
		if _, err := h.poll(waiting, "Oracle", "", 3600); err == nil {
			h.Error("a poll that nobody waits for was answered")
		}
		send("again")
		if got := poll("", 0); len(got) != 1 || got[0].Text != "again" {
			h.Errorf("after another went away: %+v", got)
		}
	})
}

// A claim says what became of the earlier ones on its task, whenever it is asked for, and of no
// later one.
func TestEarlierAttempts(t *testing.T) {
	inHouse(t, nil, []task.Task{openTask(1, "First")}, func(h *house) {
		var ids []claim.ID
		for _, agent := range []string{"Sandman", "Oracle", "Trinity"} {
			cl := h.mustClaim(agent, openTask(1, "").ID)
			ids = append(ids, cl.ID)
			if agent == "Trinity" {
				break
			}
			failed := api.On(string(cl.ID), "", api.FailRequest{Reopen: true, Reason: "by " + agent})
			if _, err := h.Fail(h.Context(), nobody, &failed); err != nil {
				h.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		texts := func(c api.Claim) (all []string) {
			h.AddAttempts(h.Context(), &c)
			for _, a := range c.Task.Attempts {
				all = append(all, a.Text)
			}
			return all
		}
		for i, want := range [][]string{nil, {"by Sandman"}, {"by Oracle", "by Sandman"}} {
			cl, err := h.Lookup(h.Context(), string(ids[i]), "")
			if got := texts(cl); err != nil || !slices.Equal(got, want) {
				t.Errorf("claim %d had the earlier attempts %q, %v; want %q", i+1, got, err, want)
			}
		}
	})
}

// What a task waits for is on record as the agent was told it.
func TestTheRecordHasTheCause(t *testing.T) {
	second := openTask(2, "Second")
	second.DependsOn = []task.ID{openTask(1, "").ID}
	inHouse(t, nil, []task.Task{openTask(1, "First"), second}, func(h *house) {
		_, err := h.claim("Sandman", second.ID)
		denied, ok := errors.AsType[*claim.Denied](err)
		log, lerr := h.Log(h.Context(), nobody, &api.LogInput{Task: string(second.ID)})
		if !ok || lerr != nil || len(log.Entries) != 1 || !strings.Contains(denied.Detail, "“First”") || log.Entries[0].Detail != denied.Detail {
			t.Errorf("told %v, and on record is %+v, %v", err, log.Entries, lerr)
		}
	})
}

// An attempt that was given up is shown in the state of the mark that it left, as long as there is one.
func TestLookupOfAWithdrawal(t *testing.T) {
	for state, withdrawing := range map[claim.MarkState]bool{claim.Unseen: false, claim.Abandoned: true, claim.Voided: true, claim.Clearing: true, claim.Gone: false} {
		inHouse(t, nil, []task.Task{openTask(1, "First")}, func(h *house) {
			id := string(h.mustClaim("Sandman", openTask(1, "").ID).ID)
			hold, err := h.claimer.Find(h.Context(), claim.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			hold.State, hold.Ending, hold.Ended = claim.Ended, claim.EndNotGranted, h.store.Now()
			left := claim.Mark{ID: hold.ID, Why: claim.Withdrawn, Of: hold.ID, Agent: hold.Agent, Task: hold.Task, State: state, Made: hold.Reserved}
			outcome := claim.Ending("")
			if state == claim.Gone {
				outcome, left.Ended = hold.Ending, hold.Ended
			}
			if err := h.journal.Save(h.Context(), claim.Change{Holds: []claim.Hold{hold}, Marks: []claim.Mark{left}}); err != nil {
				t.Fatal(err)
			}
			h.restart()
			got, err := h.Lookup(h.Context(), id, "")
			if err != nil || string(got.State) != string(state) || got.Withdrawing != withdrawing || got.Outcome != outcome {
				t.Errorf("%s: shown as %s, %s, withdrawing %v, %v", state, got.State, got.Outcome, got.Withdrawing, err)
			}
		})
	}
}
