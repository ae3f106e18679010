package daemon_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// A task is completed only once the to-dos on its page are ticked. It costs a request.
func TestTodos(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { quiet(c); c.Claim.Todos = true })
		id := w.paged("- [x] begin\n- [ ] write\u202e a test\n\t- [ ] ask Maria\n- [ ]\n")
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		w.notion.ResetRequests()
		var p *api.Problem
		if err := n.complete(cl); !errors.As(err, &p) || p.Code != api.CodeNotDone || !slices.Equal(p.Todos, []string{"write a test", "ask Maria", "without a text"}) {
			w.Errorf("%v: %+v", err, p)
		}
		if got := w.requests(); !slices.Equal(got, []string{"GET page"}) {
			w.Errorf("it cost %q", got)
		}
		mustDo(w, n.complete(n.mustClaim("Oracle", w.paged("- [x] write a test\n"))))
	})
}

// With claim.review, a person decides of whatever is completed. Its evidence is on the card and in the task log.
func TestReviewOfEverything(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.AddOption(w.tasks, "status", "REVIEW"))
		mustDo(w, w.notion.EditSchema(w.notion.Databases().TaskLog, map[string]any{"Proof": typed("rich_text")}))
		n := w.daemon(func(c *config.Config) {
			quiet(c)
			c.Claim.Review, c.Tasks.Statuses.Review, c.Claim.Todos = config.ReviewAlways, "REVIEW", true
		})
		id := w.add("Fix the login", nil)
		cl := n.mustClaim("Sandman", id)
		for range 2 {
			c, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit\n1f3a", "go test: 0"}}))
			if err != nil || c.Outcome != claim.EndReview || c.Task.Status != "REVIEW" {
				w.Errorf("%+v, %v", c, err)
			}
		}
		if got := w.page(id); got.Select("status") != "REVIEW" || !strings.HasPrefix(got.Text("note"), "In review: fixed (commit 1f3a; go test: 0) — Sandman") {
			w.Errorf("%s, %q", got.Select("status"), got.Text("note"))
		}
		time.Sleep(time.Minute)
		w.logs(w.work(), "review: Sandman")
		if got := w.notion.Pages(w.notion.Databases().TaskLog)[0].Text("Proof"); got != "commit 1f3a; go test: 0" {
			w.Errorf("the task log has %q", got)
		}
		if err := n.complete(n.mustClaim("Sandman", w.paged("- [ ] never\n"))); code(err) != string(api.CodeNotDone) {
			w.Error(err)
		}
	})
}

// A review comes back to its agent with what was said, whether somebody returns it through dibs, or
// comments on the card and drags it.
func TestReturned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		comesBack func(n *node, id string)
		said      string
		once      bool
	}{
		"through dibs": {func(n *node, id string) {
			mustCall(n, api.OpReopen, api.ReopenInput{ID: id, Body: &api.ReopenRequest{Note: "it leaks"}})
		}, "it leaks", false},
		"in Notion": {func(n *node, id string) {
			n.w.commented(id, "it leaks")
			n.w.drag(id, task.Open)
			n.sync()
		}, "Maria: it leaks", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				mustDo(w, w.notion.AddOption(w.tasks, "status", "REVIEW"))
				id := w.add("Mend the roof", nil)
				n := w.daemon(func(c *config.Config) { quiet(c); c.Tasks.Statuses.Review = "REVIEW" })
				var want []string
				reviewed := func(cl api.Claim) {
					w.Helper()
					var told []string
					for _, a := range cl.Task.Attempts {
						told = append(told, string(a.Outcome)+" "+a.Text)
					}
					if diff := cmp.Diff(want, told); diff != "" {
						w.Errorf("attempts (-want +got):\n%s", diff)
					}
					if len(want) > 0 && tt.once { // what is on the card is read for the last return only
						want[0] = "returned "
					}
					want = append([]string{"returned " + tt.said, "completed new tiles"}, want...)
					time.Sleep(10 * time.Minute)
					mustCall(n, api.OpReview, api.On(string(cl.ID), "", api.ReviewRequest{Agent: "Sandman", Note: "new tiles"}))
					time.Sleep(10 * time.Minute)
				}
				reviewed(n.mustClaim("Sandman", id))
				n.react("Sandman", 0)
				tt.comesBack(n, id)
				if got := n.react("Sandman", time.Minute); len(got) == 0 || !strings.HasPrefix(got[0], "task_assigned Mend the roof") {
					w.Errorf("Sandman is told %q", got)
				}
				if _, err := n.claim("Oracle", ""); code(err) != denied(claim.CodeNothingReady) {
					w.Errorf("Oracle: %v", err)
				}
				reviewed(n.mustClaim("Sandman", ""))
				waiting := make(chan api.Claim)
				go func() {
					cl, err := n.waitFor("Sandman", "", time.Hour)
					testkit.Check(w, err == nil, "%v", err)
					waiting <- cl
				}()
				time.Sleep(time.Minute)
				tt.comesBack(n, id)
				reviewed(<-waiting)
			})
		})
	}
}

// What the board says of when a task is done comes with the claim. A column that goes, or was never
// there, stops nothing.
func TestDoneWhen(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		use := func(c *config.Config) { quiet(c); c.Tasks.Properties.DoneWhen = "Done when" }
		n := w.daemon(use)
		id := w.add("Fix the login", nil)
		cl := n.mustClaim("Sandman", id)
		if cl.Task.DoneWhen != "" {
			w.Errorf("without the column: %q", cl.Task.DoneWhen)
		}
		mustDo(w, n.complete(cl))
		n.stop()

		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Done when": typed("rich_text")}))
		id = w.add("Write the report", map[string]any{"Done when": text("rich_text", "Maria\nhas \x1b[31mread it")})
		n = w.daemon(use)
		if cl = n.mustClaim("Sandman", id); cl.Task.DoneWhen != "Maria\nhas read it" || n.task(id).DoneWhen != cl.Task.DoneWhen {
			w.Errorf("done when %q", cl.Task.DoneWhen)
		}
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Done when": nil}))
		time.Sleep(2 * time.Hour)
		n.sync()
		mustDo(w, n.complete(n.mustClaim("Sandman", w.add("Order paper", nil))))
	})
}

// withBox runs a test on a board with a box Finished, which the daemons of the test read as done.
func withBox(t *testing.T, test func(w *world, use func(*config.Config))) {
	t.Helper()
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Finished": typed("checkbox")}))
		test(w, func(c *config.Config) { c.Tasks.Properties.Done = "Finished" })
	})
}

// ticked reports whether the box of a card is ticked.
func (w *world) ticked(id string) bool { return w.page(id).Value("Finished") == true }

// What is ticked is done, whoever ticks it and whenever, and what waits for it is ready.
func TestTickedIsDone(t *testing.T) {
	testkit.RacedElsewhere(t)
	withBox(t, func(w *world, use func(*config.Config)) {
		tick := func(id string, ticked bool) {
			w.edit(id, map[string]any{"Finished": checked(ticked)})
			time.Sleep(2 * interval)
		}
		first, held := w.add("first", map[string]any{"Finished": checked(true)}), w.add("held", nil)
		w.add("waits for it", map[string]any{"depends_on": relation(first)})
		n := w.daemon(use)
		cl := n.mustClaim("Oracle", held)
		if _, err := n.claim("Sandman", first); code(err) != denied(claim.CodeNotOpen) {
			w.Errorf("what is ticked was claimed: %v", err)
		}
		for _, step := range []struct {
			ticked bool
			ready  string
		}{{true, "waits for it"}, {false, "first"}, {true, "waits for it"}} {
			tick(first, step.ticked)
			if got := n.ready(""); !slices.Equal(got, []string{step.ready}) {
				w.Errorf("ticked %v: ready %q, want %q", step.ticked, got, step.ready)
			}
		}
		tick(held, true) // by a person while an agent works on it
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			w.Errorf("%v, want the claim lost to the person who ticked it", err)
		}
		if got := w.page(held).Select("status"); got != "IN_PROGRESS" || !w.ticked(held) {
			w.Errorf("the card is %s, ticked %v: want it as the person left it", got, w.ticked(held))
		}
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Finished": nil}))
		if _, err := n.claim("Sandman", w.add("free", nil)); err == nil {
			w.Error("a task was claimed without the box")
		}
	})
}

// Only what finishes a task, or opens it again, writes into the box. A person who ticks it in the middle of an
// attempt finds nothing of the attempt on the card.
func TestFinishingTicks(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		id := w.add("to do", nil)
		n := w.daemon(use)
		for _, part := range []time.Duration{0, 2, 5, 7} {
			time.AfterFunc(config.Default().Claim.Settle*part/8, func() { w.edit(id, map[string]any{"Finished": checked(true)}) })
			if _, err := n.claim("Sandman", id); err == nil {
				w.Errorf("a task was granted that a person ticked in part %d", part)
			}
			time.Sleep(time.Minute)
			if got := show(w.page(id)); !w.ticked(id) || got != (shown{Status: "COMPLETED"}) && got != openCard {
				w.Errorf("ticked by a person in part %d, the card shows %+v, ticked: %v", part, got, w.ticked(id))
			}
			w.edit(id, map[string]any{"Finished": checked(false), "status": option("status", "OPEN")})
			time.Sleep(2 * interval)
		}
		cl := n.mustClaim("Sandman", id)
		w.notion.ResetRequests()
		mustDo(w, n.complete(cl))
		if sent := slices.DeleteFunc(w.requests(), func(r string) bool { return r != "PATCH page" }); len(sent) != 1 || !w.ticked(id) {
			w.Errorf("%d writes, ticked %v: want it ticked in the same write", len(sent), w.ticked(id))
		}
		_, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: id, Body: &api.ReopenRequest{Was: "COMPLETED"}})
		mustDo(w, err)
		if w.sees(id, openCard); w.ticked(id) {
			w.Error("the reopened card is ticked")
		}
		n.mustClaim("Oracle", id)
	})
}
