package daemon_test

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// coverLate lets Oracle, at b, claim the task with a write that lands 20 seconds after it was given
// up; by then Sandman, at a, holds the task. It returns Sandman's claim at the time when Oracle's
// write has landed.
func coverLate(w *world, a, b *node, id string) api.Claim {
	w.Helper()
	page := func(r *http.Request, _ []byte) bool { return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, id) }
	w.notion.Inject(emulator.Fault{Kind: emulator.LateWrite, Late: 20 * time.Second, Times: 1, Match: page})
	w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Times: 2, Match: page}) // of the attempts that follow
	began := time.Now()
	if _, err := b.claim("Oracle", id); code(err) != denied(claim.CodeNotionUnavailable) {
		w.Fatalf("Oracle: %v, want notion_unavailable", err)
	}
	cl := a.mustClaim("Sandman", id)
	time.Sleep(time.Until(began.Add(20*time.Second + time.Millisecond)))
	if got := w.page(id).Text("claimed_by"); got != "Oracle" {
		w.Fatalf("the task is %q's, want the late write over Sandman's", got)
	}
	return cl
}

// An abandoned write may land on a claim that was granted since. Its sender withdraws it, and the
// holder restores its own claim.
func TestClaimCoveredByALateWrite(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("covered", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := coverLate(w, a, b, id)

		covered := time.Now()
		repaired := time.Duration(0)
		for time.Since(covered) < 5*time.Minute {
			now, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
			if err != nil || now.State != claim.Held {
				w.Fatalf("after %v: the claim is %s, %s, %v; want it held", time.Since(covered), now.State, now.Detail, err)
			}
			if shows := w.page(id).Text("claim_token") == string(cl.ID); shows && repaired == 0 {
				repaired = time.Since(covered)
			} else if !shows && repaired > 0 {
				w.Fatalf("the claim was in its place after %v, and is not after %v", repaired, time.Since(covered))
			}
			if held, err := client.Do(w.Context(), b.Client, api.OpListClaims, api.AgentFilter{}); err != nil || len(held.Claims) > 0 {
				w.Fatalf("b holds %+v, %v; want nothing", held.Claims, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		// The late write is seen and marked after one interval at most, the mark after another.
		if most := 2 * config.Default().Sync.Interval; repaired == 0 || repaired > most {
			w.Errorf("repaired after %v, want within %v", repaired, most)
		}
		if diff := cmp.Diff([]string{"conflict: Sandman", "denied: Oracle", "denied: Oracle", "denied: Oracle", "granted: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		if err := a.complete(cl); err != nil {
			w.Error(err)
		}
		// Oracle's attempt is completely done with.
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		for _, r := range w.notion.Requests() {
			if strings.HasSuffix(r.Path, id) {
				w.Errorf("%s of the task's page", r.Method)
			}
		}
		w.logsAgree(a, b)
	})
}

// Work that is finished while a late write covers the claim is not lost.
func TestFinishUnderALateWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("covered", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := coverLate(w, a, b, id)
		mustDo(w, a.complete(cl))
		time.Sleep(5 * time.Minute)
		if got := show(w.page(id)); got.Status != "COMPLETED" || got.ClaimedBy != "Sandman" {
			w.Errorf("the task shows %+v, want it completed by Sandman", got)
		}
		if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
		w.logsAgree(a, b)
	})
}

// TestAgentKnowsWithinAnInterval ends a claim in Notion, as a person, at any time of the sync
// interval: one interval later an agent that asks about its claim learns that it ended, and why.
func TestAgentKnowsWithinAnInterval(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	edits := map[string]struct {
		props  map[string]any
		edit   func(w *world, id string) error // instead of props
		detail string
	}{
		"cancelled":      {props: map[string]any{"status": option("status", "CANCELLED")}, detail: "CANCELLED"},
		"completed":      {props: map[string]any{"status": option("status", "COMPLETED")}, detail: "COMPLETED"},
		"reopened":       {props: map[string]any{"status": option("status", "OPEN")}, detail: "OPEN"},
		"name cleared":   {props: map[string]any{"claimed_by": text("rich_text", "")}, detail: "cleared"},
		"taken":          {props: map[string]any{"claimed_by": text("rich_text", "Maria")}, detail: "Maria"},
		"token cleared":  {props: map[string]any{"claim_token": text("rich_text", "")}, detail: "token"},
		"token replaced": {props: map[string]any{"claim_token": text("rich_text", "mine")}, detail: "token"},
		"all cleared": {props: map[string]any{
			"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
		}, detail: "OPEN"},
		"trashed":  {edit: func(w *world, id string) error { return w.notion.TrashPage(id) }, detail: "trash"},
		"archived": {edit: func(w *world, id string) error { return w.notion.ArchivePage(id, true) }, detail: "trash"},
	}
	interval := config.Default().Sync.Interval
	for i, name := range slices.Sorted(maps.Keys(edits)) {
		tt := edits[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(nil)
				for offset := range 5 { // time of the edit in the interval
					if !inTurn(i, offset, 5) {
						continue
					}
					id := w.add(name, nil)
					cl := n.mustClaim("Sandman", id)
					time.Sleep(5*time.Minute + time.Duration(offset)*interval/5 + 300*time.Millisecond)
					if tt.edit != nil {
						mustDo(w, tt.edit(w, id))
					} else {
						w.edit(id, tt.props)
					}
					time.Sleep(interval + time.Millisecond)
					now, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
					if err != nil || now.State != claim.Ended || now.Outcome != claim.EndLost || !strings.Contains(now.Detail, tt.detail) {
						w.Errorf("one interval after the edit the claim is %s, %s: %q, %v; want it lost, and to be told of %q", now.State, now.Outcome, now.Detail, err, tt.detail)
					}
				}
			})
		})
	}
}

// If a program writes a token in dibs' form over a live claim and does not withdraw it, the token
// is accepted after a grace.
func TestClaimTakenByAProgramThatFollowsNoProtocol(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("taken", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		w.edit(id, map[string]any{
			"claimed_by": text("rich_text", "Rogue"), "claimed_at": date(time.Now()),
			"claim_token": text("rich_text", string(claim.NewID(time.Now()))),
		})
		taken := show(w.page(id))
		c := config.Default()
		time.Sleep(4*c.Sync.Interval + c.Claim.Settle + c.Notion.Timeout)
		now, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
		if err != nil || now.Outcome != claim.EndLost || !strings.Contains(now.Detail, "Rogue") {
			w.Errorf("the claim is %s, %s: %q, %v; want it lost to Rogue", now.State, now.Outcome, now.Detail, err)
		}
		if diff := cmp.Diff(taken, show(w.page(id))); diff != "" {
			w.Errorf("the task was written to (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"granted: Sandman", "lost: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
	})
}

// finishUnnamed completes the agent's only claim, and returns the refusal, if there is one.
func (n *node) finishUnnamed(agent, summary string) (api.Claim, *api.Problem) {
	n.w.Helper()
	cl, err := client.Do(n.w.Context(), n.Client, api.OpComplete, api.On(api.OnlyClaim, "", api.CompleteRequest{Agent: agent, Summary: summary}))
	p, refused := errors.AsType[*api.Problem](err)
	if err != nil && !refused {
		n.w.Fatal(err)
	}
	return cl, p
}

// take assigns a task to Anna and syncs the daemon.
func (n *node) take(id string) {
	n.w.Helper()
	n.w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")})
	time.Sleep(time.Minute)
	if _, err := client.Do(n.w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
		n.w.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// After a loss, a command without an id does nothing to the next claim until the agent was told of
// the loss, even by the next daemon; completed work is in the task log.
func TestUnnamedAfterALoss(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("First", nil), w.add("Second", nil)
		o := w.options(quiet)
		n := w.start(o)
		n.mustClaim("Sandman", first)
		n.take(first)
		n.mustClaim("Sandman", second)
		n.stop()
		n = w.start(o)
		_, p := n.finishUnnamed("Sandman", "all of it")
		if p == nil || p.Code != api.CodeClaimLost || p.Holder != "Anna" || p.Task == nil || p.Task.Title != "First" || !strings.Contains(p.Detail, `"Second"`) ||
			len(p.Claims) != 1 || p.Claims[0].Task.Title != "Second" {
			t.Errorf("refused with %+v; want the loss of First to Anna, and that Second is held", p)
		}
		if got := w.page(second).Select("status"); got != "IN_PROGRESS" {
			t.Errorf("the other task is %s", got)
		}
		if cl, p := n.finishUnnamed("Sandman", "the second"); p != nil || cl.Task.Title != "Second" {
			t.Errorf("once it was told: %+v, %v", cl, p)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"completed: Sandman", "orphaned: Sandman"}, w.work()); diff != "" {
			t.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

// A key can be used wherever a task is named.
func TestTaskByKey(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		id := w.add("Second", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", "task-2")
		if string(cl.Task.ID) != id || cl.Task.Key != "TASK-2" {
			t.Errorf("claimed %+v", cl.Task)
		}
		if found, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: "TASK-2"}); err != nil || string(found.ID) != id {
			t.Errorf("%+v, %v", found, err)
		}
		if found, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: "TASK-2", After: api.EventsFuture}); err != nil || found.ID != cl.ID {
			t.Errorf("%+v, %v", found, err)
		}
		if log, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Task: "TASK-1"}); err != nil || len(log.Entries) != 0 {
			t.Errorf("%+v, %v", log, err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: "TASK-9"}); code(err) != "not_found" || !strings.Contains(err.Error(), "TASK-9") {
			t.Error(err)
		}
	})
}

// takeBack has Ada take a task back from whoever holds it.
func (n *node) takeBack(id, reason string) api.Claim {
	n.w.Helper()
	ended, err := client.Do(n.w.Context(), n.Client, api.OpRelease, api.On(id, "", api.StopRequest{By: "Ada", Reason: reason}))
	mustDo(n.w, err)
	return ended
}

// A person who ends a claim through dibs is named everywhere: to the agent, on the card and in the
// log. The agent is not offered the task for an hour, whoever is the daemon by then.
func TestTakenBackByAPerson(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		taken := time.Now()
		if ended := n.takeBack(id, "the ladder\nbroke"); ended.ID != cl.ID || ended.Outcome != claim.EndLost || ended.Summary != "" {
			w.Errorf("the claim ended as %+v", ended)
		}
		if again := n.takeBack(string(cl.ID), "twice"); again.Outcome != claim.EndLost || !strings.Contains(again.Detail, "the ladder broke") {
			w.Errorf("taken back twice: %+v", again)
		}
		if diff := cmp.Diff(shown{Status: "OPEN"}, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
		if got := w.page(id).Text("note"); !regexp.MustCompile(`^Taken back: from Sandman: the ladder broke — Ada \(user .+\), .* UTC$`).MatchString(got) {
			w.Errorf("the note: %q", got)
		}
		told := regexp.MustCompile(`^claim_lost Alpha from Ada: Ada \(user .+\) took the task back: the ladder broke$`)
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !told.MatchString(got[0]) {
			w.Errorf("Sandman is told %q", got)
		}
		for _, id := range []string{string(cl.ID), api.OnlyClaim} {
			_, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(id, "", api.CompleteRequest{Agent: "Sandman", Summary: "it was done"}))
			if code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "took the task back: the ladder broke") {
				w.Errorf("complete %s: %v; want who took it and why", id, err)
			}
		}

		next := func(agent, want string) {
			w.Helper()
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent}))
			got := cl.Task.Title
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				w.Errorf("%v after it was taken back, %s gets %q, want %q", time.Since(taken), agent, got, want)
			}
			if err == nil {
				_, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{}))
				mustDo(w, err)
			}
		}
		next("Sandman", "1 was taken back from the agent")
		next("Oracle", "Alpha")
		n.stop()
		n = w.start(o)
		time.Sleep(time.Until(taken.Add(59 * time.Minute)))
		next("Sandman", "1 was taken back from the agent")
		n.wantInbox("Sandman", 0)
		list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Agent: "Sandman", Ready: true, Why: true})
		mustDo(w, err)
		i := slices.IndexFunc(list.Tasks, func(t api.Task) bool { return t.Title == "Alpha" })
		if got := list.Tasks[i]; got.Ready || got.Code != "not_offered" || !strings.Contains(got.Reason, "Ada") {
			w.Errorf("for Sandman: %+v", got)
		}
		// Whoever names the task, or gives it to the agent, means it.
		_, err = client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(n.mustClaim("Sandman", id).ID), "", api.StopRequest{By: "Sandman"}))
		mustDo(w, err)
		if got := w.page(id).Text("note"); !strings.HasPrefix(got, "Given back — Sandman") {
			w.Errorf("by itself: %q", got)
		}
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Sandman")})
		n.sync()
		next("Sandman", "Alpha")
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "")})
		n.sync()
		next("Sandman", "1 was taken back from the agent")
		time.Sleep(time.Until(taken.Add(time.Hour + time.Second)))
		next("Sandman", "Alpha")

		log := w.notion.Pages(w.notion.Databases().MeshLog)
		if i := slices.IndexFunc(log, func(p emulator.Page) bool { return p.Select("event") == "lost" }); i < 0 ||
			log[i].Text("agent") != "Ada" || log[i].Text("holder") != "Sandman" || !strings.Contains(log[i].Text("detail"), "the ladder broke") {
			w.Errorf("the mesh log does not say that Ada took it: %v", w.mesh())
		}
		if diff := cmp.Diff([]string{"orphaned: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

// Without Notion the agent is told at once, once, and the card is opened when Notion is back.
func TestTakenBackWithoutNotion(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("Alpha", nil), w.add("Beta", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		n.mustClaim("Sandman", other)
		back := w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
		if ended := n.takeBack(id, "no more"); !ended.Pending || ended.Outcome != claim.EndLost || !strings.Contains(ended.Detail, "Ada") {
			w.Errorf("accepted as %+v", ended)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Agent: "Sandman"})); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "no more") {
			w.Errorf("released by its agent: %v", err)
		}
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !strings.Contains(got[0], "claim_lost Alpha from Ada") {
			w.Errorf("Sandman is told %q", got)
		}
		back()
		time.Sleep(10 * time.Minute)
		if got := w.page(id).Select("status"); got != "OPEN" {
			w.Errorf("the card is %s", got)
		}
		n.stop()
		n = w.start(o)
		n.wantInbox("Sandman", 0) // not twice, and there is nothing for it
		if done, p := n.finishUnnamed("Sandman", "beta"); p != nil || done.Task.Title != "Beta" {
			w.Errorf("the other claim: %+v, %v", done, p)
		}
	})
}

// A name of agents is signed with only by those who may go by it.
func TestSignedByWhom(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(func(c *config.Config) {
			c.Agents = []config.Agent{{Name: "Sandman"}, {Name: "Oracle", UIDs: []int{1 << 20}}}
		})
		cl := n.mustClaim("Sandman", id)
		for by, want := range map[string]api.Code{"Oracle": api.CodeForbiddenAgent, "user ada": api.CodeInvalidRequest} {
			if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{By: by})); code(err) != string(want) {
				w.Errorf("by %q: %v", by, err)
			}
		}
		n.takeBack(id, "")
	})
}

// What an agent failed is opened again in one go, but for what somebody touched since.
func TestReopenFailedBy(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		touched := map[string]func(id string){
			"left alone": func(string) {},
			"early":      func(string) {},
			"Oracle's":   func(string) {},
			"blocked":    func(string) {},
			"edited": func(id string) {
				w.edit(id, map[string]any{"priority": map[string]any{"select": map[string]any{"name": "high"}}})
			},
			"commented": func(id string) { w.commented(id, "no wonder") },
			"remarked": func(id string) {
				_, err := client.Do(w.Context(), n.Client, api.OpComment, api.OnTask(task.ID(id), "", api.CommentRequest{Agent: "Oracle", Text: "no wonder"}))
				mustDo(w, err)
			},
			"finished": func(id string) {
				_, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: id, Body: &api.ReopenRequest{Was: "BLOCKED", Status: "COMPLETED"}})
				mustDo(w, err)
			},
		}
		ids := make(map[string]string)
		for name := range touched {
			ids[name] = w.add(name, nil)
		}
		n.sync()
		fail := func(agent, name string) {
			cl := n.mustClaim(agent, ids[name])
			if name == "blocked" {
				_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{}))
				mustDo(w, err)
			} else {
				n.fail(cl)
			}
			time.Sleep(3 * time.Minute)
		}
		fail("Sandman", "early")
		since := time.Now()
		for name, touch := range touched {
			if name == "Oracle's" {
				fail("Oracle", name)
			} else if name != "early" {
				fail("Sandman", name)
			}
			touch(ids[name])
		}
		titles := func(tasks []api.TaskRef) []string {
			all := []string{}
			for _, t := range tasks {
				all = append(all, t.Title)
			}
			slices.Sort(all)
			return all
		}
		left := []string{"commented", "edited", "remarked"} // "finished" and "blocked" are no failures
		asks := func(r api.ReopenFailedRequest, want ...string) {
			w.Helper()
			done, err := client.Do(w.Context(), n.Client, api.OpReopenFailed, api.Keyed("", r))
			mustDo(w, err)
			if got := titles(done.Reopened); !slices.Equal(got, append([]string{}, want...)) || !slices.Equal(titles(done.Left), left) {
				w.Errorf("%+v reopens %q and leaves %q, want %q and %q", r, got, titles(done.Left), want, left)
			}
		}
		status := func(name, want string) {
			w.Helper()
			if is := w.page(ids[name]).Select("status"); is != want {
				w.Errorf("%q is %s, want %s", name, is, want)
			}
		}
		asks(api.ReopenFailedRequest{FailedBy: []string{"Sandman"}, Since: api.Time{Time: since}, DryRun: true}, "left alone")
		status("left alone", "BLOCKED")
		asks(api.ReopenFailedRequest{FailedBy: []string{"Sandman"}, Since: api.Time{Time: since}, Note: "again"}, "left alone")
		status("left alone", "OPEN")
		status("early", "BLOCKED")
		status("edited", "BLOCKED")
		asks(api.ReopenFailedRequest{FailedBy: []string{"Oracle", "S*"}, DryRun: true}, "Oracle's", "early")
		asks(api.ReopenFailedRequest{FailedBy: []string{"*"}}, "Oracle's", "early")
		asks(api.ReopenFailedRequest{FailedBy: []string{"*"}})
	})
}
