package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// ada is a person who calls.
var ada = broker.Caller{UID: 1000, User: "user ada"}

// begins checks that there are as many texts as that, and how each begins.
func (h *house) begins(what string, got []string, want ...string) {
	h.Helper()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		h.Errorf("%s: %q, want %q", what, got, want)
	}
}

// drain claims and completes the next task until there is none, and returns the titles.
func (h *house) drain(agent string) (titles []string) {
	h.Helper()
	for {
		cl, err := h.claim(agent, "")
		if h.code(err) == string(claim.CodeNothingReady) {
			return titles
		} else if err != nil {
			h.Fatal(err)
		}
		titles = append(titles, cl.Task.Title)
		if _, err := h.finish(agent, string(cl.ID), claim.EndCompleted, ""); err != nil {
			h.Fatal(err)
		}
	}
}

// An agent gets what is assigned to it, begun or not, then what is nobody's, each by priority and age. What
// waits comes once that is done.
func TestNextInOrder(t *testing.T) {
	low, high, done, cancelled := openTask(1, "low"), with(openTask(4, "his high"), assigned("Sandman")), openTask(7, "done"), openTask(8, "cancelled")
	tasks := []task.Task{
		with(low, ranks(task.Low)), openTask(2, "none"), with(openTask(3, "first"), ranks(task.High)), with(high, ranks(task.High)),
		with(openTask(5, "waits for low"), func(t *task.Task) { t.Priority, t.DependsOn = task.Critical, []task.ID{low.ID} }),
		with(openTask(6, "Maria's"), assigned("Maria")), with(done, is(task.Completed)), with(cancelled, is(task.Cancelled)),
		with(openTask(9, "waits for good"), after(cancelled.ID)), with(openTask(0, "his waits"), func(t *task.Task) { t.ClaimedBy, t.DependsOn = "Sandman", []task.ID{high.ID} }),
		with(openTask(10, "his begun"), func(t *task.Task) { t.ClaimedBy, t.Status, t.Priority = "Sandman", task.InProgress, task.Medium }),
		with(openTask(11, "medium"), func(t *task.Task) { t.Priority, t.DependsOn = task.Medium, []task.ID{done.ID} }),
		with(openTask(12, "blocked"), is(task.Blocked)),
	}
	inHouse(t, nil, tasks, func(h *house) {
		if _, err := h.claim("Sandman", tasks[4].ID); h.code(err) != string(claim.CodeBlockedByDependency) {
			h.Errorf("what waits: %v", err)
		}
		if _, err := h.claim("Oracle", high.ID); h.code(err) != string(claim.CodeReserved) || !strings.Contains(err.Error(), "is assigned to") {
			h.Errorf("what is another's: %v", err)
		}
		h.begins("Sandman gets", h.drain("Sandman"), "his high", "his begun", "his waits", "first", "medium", "low", "waits for low", "none")
		if got := h.drain("Oracle"); len(got) > 0 {
			h.Errorf("Oracle gets %q", got)
		}
	})
}

// Who waits for what is held leaves few entries on record.
func TestWaitingLeavesNoTrace(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		h.mustClaim("Sandman", pair()[0].ID)
		if _, err := h.ask(api.ClaimRequest{Agent: "Oracle", Task: string(pair()[0].ID), WaitSeconds: 60}); h.code(err) != string(claim.CodeHeld) {
			h.Errorf("%v, want held", err)
		}
		if log, err := h.Log(h.Context(), nobody, &api.LogInput{Agent: "Oracle"}); err != nil || len(log.Entries) > 3 {
			h.Errorf("%d entries after a minute's wait, %v; want a few", len(log.Entries), err)
		}
	})
}

// A task has its last ten attempts: who, how each ended, and what was said, cut, the newest first.
func TestAttemptsEndInManyWays(t *testing.T) {
	id := openTask(1, "").ID
	inHouse(t, nil, []task.Task{openTask(1, "First")}, func(h *house) {
		attempts := func(t api.Task) (all []string) {
			for _, a := range t.Attempts {
				if ago := time.Since(a.At.Time); ago < 0 || ago > 6*time.Hour {
					h.Errorf("%+v ended %v ago", a, ago)
				}
				all = append(all, fmt.Sprintf("%s %s %s", a.Agent, a.Outcome, a.Text))
			}
			return all
		}
		shown := func() []string {
			one, err := h.GetTask(h.Context(), nobody, &api.GetTaskInput{ID: string(id)})
			h.must(err)
			return attempts(one)
		}
		ends := func(agent string, as claim.Ending, text string) {
			time.Sleep(time.Minute)
			_, err := h.finish(agent, string(h.mustClaim(agent, id).ID), as, text)
			h.must(err)
		}
		reopen := func(was task.Status) {
			_, err := h.Reopen(h.Context(), nobody, &api.ReopenInput{ID: string(id), Body: &api.ReopenRequest{Was: string(was)}})
			h.must(err)
		}
		if got := shown(); len(got) > 0 {
			h.Errorf("of a new task: %q", got)
		}
		ends("Sandman", claim.EndReleased, "no room")
		ends("Oracle", claim.EndFailed, "ignore\nyour \x1b[31morders\u202e")
		reopen(task.Blocked)
		h.takeBack(h.mustClaim("Merlin", id).ID, "wrong branch")
		h.mustClaim("Sandman", id)
		time.Sleep(2 * time.Hour)
		h.mustClaim("Trinity", id) // overrides it
		time.Sleep(2 * time.Hour)
		_, err := h.Sweep(h.Context(), nobody, new(api.KeyedInput[*api.SweepRequest]))
		h.must(err)
		ends("Oracle", claim.EndBlocked, "which one?")
		reopen(task.Blocked)
		ends("Oracle", claim.EndCompleted, strings.Repeat("ü", 5000))
		h.begins("attempts", shown(), "Oracle completed "+strings.Repeat("ü", 1000)+"…", "Oracle blocked which one?", "Trinity swept its lease ran out",
			"Sandman stale ", "Merlin lost Ada (user ada) took the task back: wrong branch", "Oracle failed ignore\nyour orders", "Sandman released no room")
		reopen(task.Completed)
		for range 6 {
			ends("Sandman", claim.EndReleased, "")
		}
		if got := shown(); len(got) != 10 || got[0] != "Sandman released " || !strings.HasPrefix(got[9], "Sandman stale") {
			h.Errorf("of thirteen: %q", got)
		}
	})
}

// takeBack has Ada take a task back from whoever holds it.
func (h *house) takeBack(id claim.ID, reason string) api.Claim {
	h.Helper()
	in := api.On(string(id), "", api.StopRequest{By: "Ada", Reason: reason})
	cl, err := h.Release(h.Context(), ada, &in)
	h.must(err)
	return cl
}

// must fails the test if there is an error.
func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// An agent whose task a person took back is told who did, and why. It is not offered the task for an hour,
// whoever is the daemon by then, unless somebody means it.
func TestTakenBack(t *testing.T) {
	id := openTask(1, "").ID
	inHouse(t, nil, []task.Task{openTask(1, "Alpha")}, func(h *house) {
		cl := h.mustClaim("Sandman", id)
		taken := time.Now()
		if ended := h.takeBack(cl.ID, "the ladder\nbroke"); ended.Outcome != claim.EndLost || ended.Summary != "" {
			h.Errorf("it ended as %+v", ended)
		}
		if again := h.takeBack(cl.ID, "twice"); again.Outcome != claim.EndLost || !strings.Contains(again.Detail, "the ladder broke") {
			h.Errorf("twice: %+v", again)
		}
		for _, named := range []string{string(cl.ID), ""} {
			if _, err := h.finish("Sandman", named, claim.EndCompleted, "it was done"); h.code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "Ada (user ada) took the task back: the ladder broke") {
				h.Errorf("complete %q: %v; want who took it and why", named, err)
			}
		}
		next := func(agent string, offered bool) {
			h.Helper()
			cl, err := h.claim(agent, "")
			if offered != (err == nil) || !offered && !strings.Contains(h.Problem(err).Detail, "1 was taken back from the agent") {
				h.Errorf("%v after it was taken back, %s gets %q, %v", time.Since(taken), agent, cl.Task.Title, err)
			}
			if err == nil {
				_, err = h.finish(agent, string(cl.ID), claim.EndReleased, "")
				h.must(err)
			}
		}
		next("Sandman", false)
		next("Oracle", true)
		h.restart()
		time.Sleep(time.Until(taken.Add(59 * time.Minute)))
		next("Sandman", false)
		list, err := h.ListTasks(h.Context(), nobody, &api.ListTasksInput{Agent: "Sandman", Ready: true, Why: true})
		h.must(err)
		if got := list.Tasks[0]; got.Ready || got.Code != "not_offered" || !strings.Contains(got.Reason, "Ada") {
			h.Errorf("for Sandman: %+v", got)
		}
		h.mustClaim("Sandman", id) // who names it means it
		in := api.On(api.OnlyClaim, "", api.StopRequest{Agent: "Sandman", By: "Sandman"})
		_, err = h.Release(h.Context(), nobody, &in)
		h.must(err)
		if got := h.board.Page(id).Note; !strings.HasPrefix(got, "Given back — Sandman") {
			h.Errorf("by itself: %q", got)
		}
		h.edit(id, assigned("Sandman"))
		next("Sandman", true)
		time.Sleep(time.Until(taken.Add(time.Hour + time.Second)))
		next("Sandman", true)
	})
}

// tells has the feed tell what the board shows.
func (h *house) tells() {
	h.Helper()
	tasks := slices.Collect(shown{h.board, h.old}.Tasks())
	h.must(h.journal.PutTasks(h.Context(), tasks))
	_, err := h.journal.Publish(h.Context(), time.Now(), idsOf(tasks))
	h.must(err)
	h.Published()
}

// Wait on a claim: its grant is no news, and its end is told however late one asks.
func TestWaitOnAClaim(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		h.tells()
		h.must(h.journal.BeginFeed(h.Context()))
		cl := h.mustClaim("Sandman", pair()[0].ID)
		watch := func(id, agent string, after int64, wait time.Duration) (api.Claim, time.Duration, error) {
			began := time.Now()
			got, err := h.Watch(h.Context(), &api.GetClaimInput{ID: id, Agent: agent, After: after, Wait: wait.String()})
			return got, time.Since(began), err
		}
		if got, took, err := watch(string(cl.ID), "Sandman", 0, time.Minute); err != nil || got.Event != nil || got.State != claim.Held || took != time.Minute {
			h.Errorf("nothing happened: %+v after %v, %v; want the claim after a minute", got, took, err)
		}
		if _, _, err := watch(string(cl.ID), "Oracle", api.EventsFuture, time.Minute); h.code(err) != string(api.CodeClaimLost) {
			h.Errorf("another's claim: %v, want claim_lost", err)
		}
		time.AfterFunc(time.Minute, func() {
			_, _ = h.finish("Sandman", "", claim.EndCompleted, "done")
			h.tells()
		})
		got, took, err := watch(string(cl.Task.ID), "Sandman", 0, time.Hour)
		if err != nil || got.Event == nil || got.Event.Kind != claim.KindCompleted || got.State != claim.Ended || took > 2*time.Minute {
			h.Errorf("%s, event %+v after %v, %v; want the completion", got.State, got.Event, took, err)
		}
		if got, took, err = watch(string(cl.ID), "", api.EventsFuture, time.Hour); err != nil || got.Event == nil || got.Event.Kind != claim.KindCompleted || took != 0 {
			h.Errorf("an ended claim: %+v after %v, %v; want its end at once", got, took, err)
		}
	})
}

// Events that are no longer kept, or never were, are told of as a gap.
func TestEventsNoLongerKept(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		h.tells()
		h.must(h.journal.BeginFeed(h.Context()))
		for range 3 {
			h.mustClaim("Sandman", pair()[0].ID)
			h.tells()
			_, err := h.finish("Sandman", "", claim.EndReleased, "")
			h.must(err)
			h.tells()
		}
		time.Sleep(time.Hour)
		_, err := h.journal.PruneFeed(h.Context(), time.Now())
		h.must(err)
		h.mustClaim("Oracle", pair()[1].ID)
		h.tells()
		all, last, err := h.Events(h.Context(), api.EventsInput{}, 0)
		if err != nil || len(all) == 0 || all[0].Kind == api.Gap {
			h.Errorf("all: %+v, %v; want no gap", all, err)
		}
		_, pruned, err := h.journal.FeedBounds(h.Context())
		h.must(err)
		for after, gap := range map[int64]bool{1: true, pruned - 1: true, pruned: false, last: false, last + 1: true, last + 7: true} {
			got, next, err := h.Events(h.Context(), api.EventsInput{After: after}, 0)
			if err != nil || (len(got) > 0 && got[0].Kind == api.Gap) != gap || next != last {
				h.Errorf("after %d: %+v, next %d, %v; want a gap: %v, and %d", after, got, next, err, gap, last)
			}
		}
		if got, _, err := h.Events(h.Context(), api.EventsInput{Agent: "Maria"}, 0); err != nil || len(got) > 0 {
			h.Errorf("of Maria: %+v, %v", got, err)
		}
	})
}

// What an agent says of its work is kept with its claim, cut, over a restart too, and is no request.
func TestProgress(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		cl := h.mustClaim("Sandman", pair()[0].ID)
		sent := len(h.store.Calls())
		for _, tt := range []struct{ line, want string }{
			{"half\n\x1b[31mway\u202e " + strings.Repeat("ü", 1000), "half [31mway üü"}, {"tests are green", "tests are green"}, {"", "tests are green"},
		} {
			in := api.On(string(cl.ID), "", api.RenewRequest{Agent: "Sandman", Progress: tt.line})
			if got, err := h.Renew(h.Context(), nobody, &in); err != nil || !strings.HasPrefix(got.Progress, tt.want) || len([]rune(got.Progress)) > 300 {
				h.Errorf("progress = %q, %v; want %q", got.Progress, err, tt.want)
			}
		}
		if n := len(h.store.Calls()) - sent; n > 0 {
			h.Errorf("it cost %d requests", n)
		}
		h.restart()
		one, err := h.GetTask(h.Context(), nobody, &api.GetTaskInput{ID: string(cl.Task.ID)})
		if got := h.agent("Sandman").Claims; err != nil || len(got) != 1 || got[0].Progress != "tests are green" || one.Progress != "tests are green" {
			h.Errorf("after a restart: %+v, %q, %v", got, one.Progress, err)
		}
	})
}

// What shows that work was done is kept in lines, each cut, without the empty ones.
func TestEvidence(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		cl := h.mustClaim("Sandman", pair()[0].ID)
		in := api.On(string(cl.ID), "", api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit\n1f\u202e3a", "", "go test: 0", strings.Repeat("ü", 1000)}})
		done, err := h.Complete(h.Context(), nobody, &in)
		long := strings.Repeat("ü", 499) + "…"
		if err != nil || !slices.Equal(done.Evidence, []string{"commit 1f3a", "go test: 0", long}) {
			h.Errorf("%q, %v", done.Evidence, err)
		}
		if note := h.board.Page(cl.Task.ID).Note; !strings.HasPrefix(note, "Done: fixed (commit 1f3a; go test: 0; üü") {
			h.Errorf("the note is %q", note)
		}
	})
}

// Whatever an attempt comes to, the files that it changed are told with it.
func TestFilesOfAttempts(t *testing.T) {
	used := api.Used{Files: []string{"src/a.go", "", "docs/\nb.md"}}
	inHouse(t, nil, pair()[:1], func(h *house) {
		id := pair()[0].ID
		for name, end := range map[string]func(id string) (api.Claim, error){
			"released": func(id string) (api.Claim, error) {
				return h.Release(h.Context(), nobody, new(api.On(id, "", api.StopRequest{Used: used})))
			},
			"failed": func(id string) (api.Claim, error) {
				return h.Fail(h.Context(), nobody, new(api.On(id, "", api.FailRequest{Used: used})))
			},
			"blocked": func(id string) (api.Claim, error) {
				return h.Block(h.Context(), nobody, new(api.On(id, "", api.BlockRequest{Used: used})))
			},
			"review": func(id string) (api.Claim, error) {
				return h.Review(h.Context(), nobody, new(api.On(id, "", api.ReviewRequest{Used: used})))
			},
			"completed": func(id string) (api.Claim, error) {
				return h.Complete(h.Context(), nobody, new(api.On(id, "", api.CompleteRequest{Used: used})))
			},
		} {
			h.edit(id, is(task.Open))
			if _, err := end(string(h.mustClaim("Sandman", id).ID)); err != nil {
				h.Fatal(name, err)
			}
			time.Sleep(time.Minute)
			last := must(h, h.GetTask, &api.GetTaskInput{ID: string(id)}).Attempts[0]
			if line := last.Line("now"); !slices.Equal(last.Files, []string{"src/a.go", "docs/ b.md"}) || !strings.HasSuffix(line, "now, changed src/a.go, docs/ b.md") {
				h.Errorf("%s: %+v, %s", name, last, line)
			}
			told := must(h, h.Story, &api.StoryInput{ID: string(id)}).Story
			if why := told[len(told)-1].Why; !strings.HasSuffix(why, "it changed src/a.go, docs/ b.md") {
				h.Errorf("%s: %s", name, why)
			}
		}
	})
}

// inColumn puts a name into the column of assignees.
func inColumn(name string, agent bool) func(*task.Task) {
	return func(t *task.Task) { t.Assignee, t.AssigneeIsAgent = name, agent }
}

// What the column of assignees gives to somebody is theirs. dibs does not write into the column, so it hands
// nothing on that is there.
func TestColumnOfAssignees(t *testing.T) {
	his, begun := with(openTask(1, "his"), inColumn("Sandman", true)), with(with(openTask(2, "begun"), inColumn("Sandman", true)), is(task.InProgress))
	hers, free := with(with(openTask(3, "hers"), inColumn("Maria", false)), is(task.InProgress)), openTask(4, "free")
	inHouse(t, nil, []task.Task{his, begun, hers, free}, func(h *house) {
		ready := func(agent string) (titles []string) {
			list, err := h.ListTasks(h.Context(), nobody, &api.ListTasksInput{Ready: true, Agent: agent})
			h.must(err)
			for _, one := range list.Tasks {
				titles = append(titles, one.Title)
			}
			return titles
		}
		for agent, want := range map[string][]string{"Sandman": {"his", "begun", "free"}, "Oracle": {"free"}, "Maria": {"free"}, "": {"free"}} {
			h.begins("ready for "+agent, ready(agent), want...)
		}
		for _, agent := range []string{"Oracle", "Maria"} { // a person has the name that the agent gives itself
			if _, err := h.claim(agent, hers.ID); h.code(err) != string(claim.CodeReserved) || h.Problem(err).Holder != "Maria" {
				h.Errorf("%s claims what Maria has: %v", agent, err)
			}
		}
		offer := api.OnTask(his.ID, "", api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "yours"})
		_, offered := h.Offer(h.Context(), nobody, &offer)
		decline := api.OnTask(his.ID, "", api.DeclineRequest{Agent: "Sandman"})
		_, declined := h.Decline(h.Context(), nobody, &decline)
		for _, err := range []error{offered, declined} {
			if h.code(err) != string(claim.CodeReserved) || !strings.Contains(err.Error(), "dibs does not write there") {
				h.Errorf("%v, want reserved, and who can change it", err)
			}
		}
		if _, err := h.Reopen(h.Context(), nobody, &api.ReopenInput{ID: string(hers.ID), Body: &api.ReopenRequest{Was: "IN_PROGRESS"}}); h.code(err) != string(claim.CodeReserved) {
			h.Errorf("reopened while Maria works on it: %v", err)
		}
		if slices.ContainsFunc(h.store.Calls(), func(c sim.Call) bool { return c.Write != nil }) {
			h.Error("something was written")
		}
		list, err := h.ListTasks(h.Context(), nobody, &api.ListTasksInput{Agent: "Maria"})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].AssignedTo != "Maria" {
			h.Errorf("the tasks of Maria: %+v, %v", list.Tasks, err)
		}
		h.begins("Sandman gets", h.drain("Sandman"), "his", "begun", "free")
		_, err = h.claim("Oracle", "")
		var p *api.Problem
		if errors.As(err, &p) || h.code(err) != string(claim.CodeNothingReady) || !strings.Contains(h.Problem(err).Detail, "assigned") {
			h.Errorf("Oracle: %v, want nothing ready, and why", err)
		}
	})
}

// todoPages have one text, unless they cannot be read.
type todoPages struct {
	broker.Pages
	text string
	err  error
}

func (p *todoPages) Whole(context.Context, task.ID) (string, error) { return p.text, p.err }

// With claim.todos, a task is completed only once the to-dos on its page are ticked. Nothing else looks at them.
func TestTodos(t *testing.T) {
	page := new(todoPages)
	furnish := func(h *house) { h.policy.Todos, h.config.Pages = true, page }
	inHouse(t, furnish, pair(), func(h *house) {
		cl := h.mustClaim("Sandman", pair()[0].ID)
		var many strings.Builder
		for i := range 50 {
			fmt.Fprintf(&many, "- [ ] %d %s\n", i, strings.Repeat("ü", 1000))
		}
		for _, tt := range []struct {
			text, says string
			todos      int
		}{
			{"- [x] begin\n- [ ] write a test\n\t- [ ] “quoted”, ask Maria\n- [ ]\n```\n- [ ] code\n```\n", "3 to-dos on its page are not ticked: “write a test”, “\"quoted\", ask Maria”, “without a text”;", 3},
			{"```\n- [ ] code without an end\n", "a to-do on its page is not ticked: “code without an end”;", 1},
			{many.String(), " and 30 more;", 20},
		} {
			page.text = tt.text
			_, err := h.finish("Sandman", "", claim.EndCompleted, "")
			if p := h.Problem(err); p == nil || p.Code != api.CodeNotDone || len(p.Todos) != tt.todos || !strings.Contains(p.Detail, tt.says) || len(p.Detail) > 6000 {
				h.Errorf("%.20q: %+v, want %q", tt.text, p, tt.says)
			}
		}
		page.err = claim.Errorf(claim.Unavailable, claim.LandedNo, "503")
		if _, err := h.finish("Sandman", "", claim.EndCompleted, ""); h.code(err) != string(claim.CodeNotionUnavailable) || h.Problem(err).RetryAfter == 0 {
			h.Errorf("the page cannot be read: %v", err)
		}
		other := h.mustClaim("Oracle", pair()[1].ID)
		_, err := h.finish("Oracle", string(other.ID), claim.EndBlocked, "which?")
		h.must(err)
		page.text, page.err = "- [x] write a test\n", nil
		for range 2 {
			done, err := h.finish("Sandman", string(cl.ID), claim.EndCompleted, "")
			if err != nil || done.Outcome != claim.EndCompleted {
				h.Errorf("%+v, %v", done, err)
			}
			page.text = "- [ ] and one more\n" // it is done already
		}
	})
}

// Whoever waits hears at once that the daemon stops.
func TestWaitsEndWithTheDaemon(t *testing.T) {
	for name, wait := range map[string]func(h *house) error{
		"for a task": func(h *house) error {
			_, err := h.ask(api.ClaimRequest{Agent: "Oracle", WaitSeconds: 3600})
			return err
		},
		"for the inbox": func(h *house) error { _, err := h.poll(h.Context(), "Oracle", "", 3600); return err },
		"for events": func(h *house) error {
			_, _, err := h.Events(h.Context(), api.EventsInput{After: api.EventsFuture}, 0)
			if err == nil {
				_, _, err = h.Events(h.Context(), api.EventsInput{Agent: "Nobody"}, time.Hour)
			}
			return err
		},
		"for the end of a claim": func(h *house) error {
			_, err := h.Watch(h.Context(), &api.GetClaimInput{ID: api.OnlyClaim, Agent: "Sandman", After: api.EventsFuture, Wait: "1h"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, pair()[:1], func(h *house) {
				h.tells()
				h.must(h.journal.BeginFeed(h.Context()))
				h.mustClaim("Sandman", pair()[0].ID)
				got := make(chan error, 1)
				go func() { got <- wait(h) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				began := time.Now()
				h.Close()
				if err := <-got; !errors.Is(err, broker.ErrStopping) || time.Since(began) > 0 {
					h.Errorf("%v, %v after the stop", err, time.Since(began))
				}
			})
		})
	}
}

// A claim under a key is bound to it before anything is written: after a kill the same request finds it.
func TestKeyIsBoundToItsClaim(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		who := broker.Caller{UID: 1000, Key: "k"}
		_, err := h.journal.BeginRequest(h.Context(), who.UID, who.Key, "f", time.Now())
		h.must(err)
		cl, err := h.Claim(h.Context(), who, keyed(api.ClaimRequest{Agent: "Sandman"}))
		h.must(err)
		h.restart()
		if made, err := h.journal.RequestMade(h.Context(), who.UID, who.Key); made != string(cl.ID) || err != nil {
			h.Errorf("the key made %q, %v; want the claim %s", made, err, cl.ID)
		}
	})
}
