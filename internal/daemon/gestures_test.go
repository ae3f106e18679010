package daemon_test

import (
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

// shown is what a person sees of a claim in Notion.
type shown struct {
	Status, ClaimedBy, ClaimedAt string
	Token                        bool
}

func show(p emulator.Page) shown {
	return shown{p.Select("status"), p.Text("claimed_by"), p.Date("claimed_at"), p.Text("claim_token") != ""}
}

// openCard is a card that anybody may claim.
var openCard = shown{Status: "OPEN"}

// drag moves a card to another column, as a person.
func (w *world) drag(id string, s task.Status) {
	w.Helper()
	w.edit(id, map[string]any{"status": option("status", string(s))})
}

// sees checks what a card shows.
func (w *world) sees(id string, want shown) {
	w.Helper()
	if diff := cmp.Diff(want, show(w.page(id))); diff != "" {
		w.Errorf("%q shows (-want +got):\n%s", w.page(id).Text("Name"), diff)
	}
}

// logs checks the entries of the mesh log, or of the task log.
func (w *world) logs(got []string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("log (-want +got):\n%s", diff)
	}
}

// now returns a claim as it is.
func (n *node) now(cl api.Claim) api.Claim {
	n.w.Helper()
	got, err := client.Do(n.w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
	mustDo(n.w, err)
	return got
}

// until waits for done, at most that long, and returns how long it took.
func (w *world) until(most time.Duration, what string, done func() bool) time.Duration {
	w.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > most {
			w.Fatalf("after %v: not %s", most, what)
		}
		time.Sleep(500 * time.Millisecond)
	}
	return time.Since(began)
}

// take assigns a task to Anna, which the daemon sees.
func (n *node) take(id string) {
	n.w.Helper()
	n.w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")})
	time.Sleep(2 * time.Minute)
	n.sync()
}

// Dragging a held card to OPEN ends the agent's claim, the agent is told, and the next waiter gets
// the task.
func TestDraggedToOpen(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("contended", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		for _, waits := range []*node{a, b} { // at the holder's daemon, and at another
			cl := a.mustClaim("Sandman", id)
			time.Sleep(5 * time.Minute)
			got := make(chan api.Claim, 1)
			go func() {
				next, err := client.Do(w.Context(), waits.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", WaitSeconds: 120}))
				if err != nil {
					w.Error(err)
				}
				got <- next
			}()
			time.Sleep(7 * time.Second)
			w.drag(id, task.Open)
			began := time.Now()
			next := <-got
			if took := time.Since(began); took > 3*config.Default().Sync.Interval {
				w.Errorf("the next agent got the task after %v", took)
			}
			lost, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
			if err != nil || lost.Outcome != claim.EndLost || !strings.Contains(lost.Detail, "OPEN by a person") {
				w.Errorf("the claim ended as %s, %q, %v; want it lost, by a person", lost.Outcome, lost.Detail, err)
			}
			if err := waits.complete(next); err != nil {
				w.Error(err)
			}
			w.drag(id, task.Open)
			time.Sleep(time.Minute)
		}
		if !strings.Contains(strings.Join(w.mesh(), "\n"), "cleared: Sandman") {
			w.Errorf("mesh log %q does not tell what was done to the card", w.mesh())
		}
		w.logsAgree(a, b)
	})
}

// A card that an undo makes show a claim which is over is cleared, also by the next daemon, and is anybody's.
func TestClaimThatIsOverOnACard(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("undone", nil)
		o, other := w.options(nil), w.daemon(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(2 * time.Minute)
		mustDo(w, n.complete(cl))
		time.Sleep(time.Minute)
		w.edit(id, map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
			"claimed_at": date(cl.ClaimedAt.Time), "claim_token": text("rich_text", string(cl.ID)),
		})
		n.stop()
		w.start(o)
		time.Sleep(3 * time.Minute)
		w.sees(id, openCard)
		w.logs(w.mesh(), "cleared: Sandman", "granted: Sandman")
		other.mustClaim("Oracle", id)
		time.Sleep(5 * time.Minute)
		if got := show(w.page(id)); got.ClaimedBy != "Oracle" {
			w.Errorf("the card shows %+v, want Oracle's claim left alone", got)
		}
	})
}

// A duplicate of a held card, or a card from a template, is a task of its own.
func TestDuplicatedAndTemplated(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("original", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := a.mustClaim("Sandman", id)
		for _, status := range []string{"IN_PROGRESS", "OPEN"} {
			copied := w.add("copy, "+status, map[string]any{
				"status": option("status", status), "claimed_by": text("rich_text", "Sandman"),
				"claimed_at": date(time.Now()), "claim_token": text("rich_text", string(cl.ID)),
			})
			time.Sleep(2 * interval)
			w.sees(copied, openCard)
			b.mustClaim("Oracle", copied)
		}
		time.Sleep(10 * time.Minute)
		if now := a.now(cl); now.State != claim.Held {
			w.Errorf("the claim of the original is %s, %s; want it held", now.State, now.Detail)
		}
		if events := a.get("/v1/events?after=0&follow=false&agent=Sandman"); strings.Contains(events, "copy") {
			w.Errorf("Sandman is told of the copies:\n%s", events)
		}
	})
}

// A person's edit between the read and the write of a claim is overwritten: nothing can prevent
// that. The daemon reports how long that window is.
func TestEditBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("edited at the wrong moment", nil)
		n := w.daemon(nil)
		if s := n.status(); s.ReadToWrite != nil {
			w.Errorf("before any claim: %+v", s.ReadToWrite)
		}
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 200 * time.Millisecond, 200 * time.Millisecond
		})
		time.AfterFunc(300*time.Millisecond, func() { w.drag(id, task.Cancelled) }) // the read takes effect after 200 ms
		cl := n.mustClaim("Sandman", id)
		if got := show(w.page(id)); got.Status != "IN_PROGRESS" {
			w.Errorf("the card shows %+v: if the edit can be saved, say so", got)
		}
		s := n.status()
		if got := s.ReadToWrite; got == nil || got.Writes != 1 || got.SlowestSeconds < 0.8 || got.SlowestSeconds > 0.9 || got.MedianSeconds != got.SlowestSeconds {
			w.Errorf("read to write: %+v, want 0.8 seconds", got)
		}
		if got := n.samples()["dibs_claim_read_to_write_seconds_count"]; got != "1" {
			w.Errorf("dibs_claim_read_to_write_seconds_count = %s", got)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

func TestSweepReopensWhatADeadAgentLeft(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", "01JAAAAAAAAAAAAAAAAAAAAAAA"),
		})
		alive := w.add("alive", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Oracle"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_timeout_minutes": number(300),
		})
		n := w.daemon(nil)
		time.Sleep(2 * time.Minute) // the schedule says every minute
		if got := show(w.page(id)); got != (shown{Status: "OPEN"}) {
			w.Errorf("the stale task shows %+v, want it open", got)
		}
		if got := w.page(alive).Text("claimed_by"); got != "Oracle" {
			w.Errorf("the live claim is %q's, want Oracle's", got)
		}
		if diff := cmp.Diff([]string{"swept: claude-chat-7K9X"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		swept, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
		if err != nil || len(swept.Swept) != 0 {
			w.Errorf("swept again: %v, err = %v", swept.Swept, err)
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

// A person who ends a claim through dibs is named everywhere: to the agent, on the card and in the log.
func TestTakenBackByAPerson(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		if ended := n.takeBack(id, "the ladder\nbroke"); ended.ID != cl.ID || ended.Outcome != claim.EndLost || ended.Summary != "" {
			w.Errorf("the claim ended as %+v", ended)
		}
		w.sees(id, openCard)
		if got := w.page(id).Text("note"); !regexp.MustCompile(`^Taken back: from Sandman: the ladder broke — Ada \(user .+\), .* UTC$`).MatchString(got) {
			w.Errorf("the note: %q", got)
		}
		told := regexp.MustCompile(`^claim_lost Alpha from Ada: Ada \(user .+\) took the task back: the ladder broke$`)
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !told.MatchString(got[0]) {
			w.Errorf("Sandman is told %q", got)
		}
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			w.Errorf("complete: %v", err)
		}
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Sandman")}) // whoever gives it to the agent means it
		n.sync()
		n.mustClaim("Sandman", "")
		w.logs(w.work(), "orphaned: Sandman")
		log := w.notion.Pages(w.notion.Databases().MeshLog)
		if i := slices.IndexFunc(log, func(p emulator.Page) bool { return p.Select("event") == "lost" }); i < 0 ||
			log[i].Text("agent") != "Ada" || log[i].Text("holder") != "Sandman" || !strings.Contains(log[i].Text("detail"), "the ladder broke") {
			w.Errorf("the mesh log does not say that Ada took it: %v", w.mesh())
		}
	})
}

// Without Notion the agent is told at once, once, and the card is opened when Notion is back.
func TestTakenBackWithoutNotion(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		back := w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
		if ended := n.takeBack(id, "no more"); !ended.Pending || ended.Outcome != claim.EndLost || !strings.Contains(ended.Detail, "Ada") {
			w.Errorf("accepted as %+v", ended)
		}
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "no more") {
			w.Errorf("completed by its agent: %v", err)
		}
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !strings.Contains(got[0], "claim_lost Alpha from Ada") {
			w.Errorf("Sandman is told %q", got)
		}
		back()
		time.Sleep(10 * time.Minute)
		w.sees(id, openCard)
		n.stop()
		n = w.start(o)
		n.wantInbox("Sandman", 0) // not twice, and there is nothing for it
	})
}

// A name of agents is signed with only by those who may go by it.
func TestSignedByWhom(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) {
			c.Agents = []config.Agent{{Name: "Sandman"}, {Name: "Oracle", UIDs: []int{1 << 20}}}
		})
		cl := n.mustClaim("Sandman", w.add("Alpha", nil))
		for by, want := range map[string]api.Code{"Oracle": api.CodeForbiddenAgent, "user ada": api.CodeInvalidRequest} {
			if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{By: by})); code(err) != string(want) {
				w.Errorf("by %q: %v", by, err)
			}
		}
	})
}

// What an agent failed is opened again in one go, but for what somebody touched since.
func TestReopenFailedBy(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		touched := map[string]func(id string){
			"early": nil, "left alone": nil, "Oracle's": nil, "blocked": nil,
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
		var since time.Time
		for _, name := range append([]string{"early"}, slices.Sorted(maps.Keys(touched))...) {
			if name == "early" && !since.IsZero() {
				continue
			}
			cl := n.mustClaim(map[bool]string{true: "Oracle", false: "Sandman"}[name == "Oracle's"], ids[name])
			if name == "blocked" {
				_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{}))
				mustDo(w, err)
			} else {
				n.fail(cl)
			}
			time.Sleep(3 * time.Minute)
			if touch := touched[name]; touch != nil {
				touch(ids[name])
			}
			if name == "early" {
				since = time.Now()
			}
		}
		titles := func(tasks []api.TaskRef) (all []string) {
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
			if got := titles(done.Reopened); !slices.Equal(got, want) || !slices.Equal(titles(done.Left), left) {
				w.Errorf("%+v reopens %q and leaves %q, want %q and %q", r, got, titles(done.Left), want, left)
			}
		}
		statuses := func(want map[string]string) {
			w.Helper()
			for name, want := range want {
				if is := w.page(ids[name]).Select("status"); is != want {
					w.Errorf("%q is %s, want %s", name, is, want)
				}
			}
		}
		asks(api.ReopenFailedRequest{FailedBy: []string{"Sandman"}, Since: api.Time{Time: since}, DryRun: true}, "left alone")
		statuses(map[string]string{"left alone": "BLOCKED"})
		asks(api.ReopenFailedRequest{FailedBy: []string{"Sandman"}, Since: api.Time{Time: since}, Note: "again"}, "left alone")
		statuses(map[string]string{"left alone": "OPEN", "early": "BLOCKED", "edited": "BLOCKED"})
		asks(api.ReopenFailedRequest{FailedBy: []string{"Oracle", "S*"}, DryRun: true}, "Oracle's", "early")
		asks(api.ReopenFailedRequest{FailedBy: []string{"*"}}, "Oracle's", "early")
		asks(api.ReopenFailedRequest{FailedBy: []string{"*"}})
	})
}
