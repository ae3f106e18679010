package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// A task is completed only once the to-dos on its page are ticked. It costs a request.
func TestTodos(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { quiet(c); c.Claim.Todos = true })
		id := w.paged("- [x] begin\n- [ ] write\u202e a test\n\t- [ ] “quoted”, ask Maria\n- [ ]\n```\n- [ ] code\n```\n")
		cl := n.mustClaim("Sandman", id)
		complete := func(key string) (api.Claim, *api.Problem) {
			w.Helper()
			c, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), key, api.CompleteRequest{Agent: "Sandman"}))
			p, _ := errors.AsType[*api.Problem](err)
			return c, p
		}
		time.Sleep(time.Minute)
		w.notion.ResetRequests()
		_, p := complete("k")
		if p == nil || p.Code != api.CodeNotDone || p.Code.Exit() != 3 {
			w.Fatalf("%+v", p)
		}
		if diff := cmp.Diff([]string{"write a test", `"quoted", ask Maria`, "without a text"}, p.Todos); diff != "" || !strings.Contains(p.Detail, "3 to-dos") {
			w.Errorf("%s (-want +got):\n%s", p.Detail, diff)
		}
		if got := w.requests(); !slices.Equal(got, []string{"GET page"}) {
			w.Errorf("it cost %q", got)
		}
		if c, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || c.State != claim.Held {
			w.Errorf("the claim is %s, %v", c.State, err)
		}
		// Whatever else an agent says is accepted.
		other := n.mustClaim("Oracle", w.paged("- [ ] never\n"))
		_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(other.ID), "", api.BlockRequest{Reason: "which?"}))
		mustDo(w, err)

		// Without Notion it is not known.
		back := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Path: "/v1"})
		_, p = complete("k")
		if p == nil || p.Code != api.Code(claim.CodeNotionUnavailable) || p.RetryAfter == 0 {
			w.Fatalf("%+v", p)
		}
		back()
		time.Sleep(2 * time.Minute)
		if _, p = complete("k"); p == nil || p.Code != api.CodeNotDone {
			w.Errorf("%+v", p)
		}
		cl = n.mustClaim("Sandman", w.paged("- [x] write a test\n"))
		if c, p := complete(""); p != nil || c.Outcome != claim.EndCompleted {
			w.Errorf("%+v, %+v", c, p)
		}
		mustDo(w, w.notion.WriteMarkdown(string(cl.Task.ID), "- [ ] and one more\n"))
		if c, p := complete(""); p != nil || c.Outcome != claim.EndCompleted { // it is done already
			w.Errorf("once more: %+v, %+v", c, p)
		}
	})
}

// A page with many to-dos names the first.
func TestManyTodos(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { quiet(c); c.Claim.Todos = true })
		var page strings.Builder
		for i := range 50 {
			fmt.Fprintf(&page, "- [ ] %d %s\n", i, strings.Repeat("ü", 1000))
		}
		cl := n.mustClaim("Sandman", w.paged(page.String()))
		_, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{}))
		p, _ := errors.AsType[*api.Problem](err)
		if p == nil || len(p.Todos) != 20 || !strings.Contains(p.Detail, " and 30 more;") || len(p.Detail) > 6000 {
			w.Errorf("%+v", p)
		}
	})
}

// With claim.review, a person decides of whatever is completed; to-dos are looked at all the same.
func TestReviewOfEverything(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.AddOption(w.tasks, "status", "REVIEW"))
		n := w.daemon(func(c *config.Config) {
			quiet(c)
			c.Claim.Review, c.Tasks.Statuses.Review, c.Claim.Todos = config.ReviewAlways, "REVIEW", true
		})
		id := w.add("Fix the login", nil)
		cl := n.mustClaim("Sandman", id)
		for range 2 {
			c, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit 1f3a"}}))
			if err != nil || c.Outcome != claim.EndReview || c.Task.Status != "REVIEW" {
				w.Errorf("%+v, %v", c, err)
			}
		}
		if got := w.page(id); got.Select("status") != "REVIEW" || !strings.HasPrefix(got.Text("note"), "In review: fixed (commit 1f3a) — Sandman") {
			w.Errorf("%s, %q", got.Select("status"), got.Text("note"))
		}
		cl = n.mustClaim("Sandman", w.paged("- [ ] never\n"))
		if err := n.complete(cl); code(err) != string(api.CodeNotDone) {
			w.Error(err)
		}
		_, err := client.Do(w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{}))
		mustDo(w, err)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"failed: Sandman", "review: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
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

// What shows that work was done is on the card and in the task log.
func TestEvidence(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.notion.Databases().TaskLog, map[string]any{"Proof": typed("rich_text")}))
		id := w.add("Fix the login", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", id)
		done, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit\n1f\u202e3a", "", "go test: 0", strings.Repeat("ü", 1000)}}))
		mustDo(w, err)
		long := strings.Repeat("ü", 499) + "…"
		if diff := cmp.Diff([]string{"commit 1f3a", "go test: 0", long}, done.Evidence); diff != "" {
			w.Errorf("(-want +got):\n%s", diff)
		}
		if note := w.page(id).Text("note"); !strings.HasPrefix(note, "Done: fixed (commit 1f3a; go test: 0; üü") {
			w.Errorf("the note is %q", note)
		}
		time.Sleep(time.Minute)
		for _, p := range w.notion.Pages(w.notion.Databases().TaskLog) {
			if got := p.Text("Proof"); got != "commit 1f3a; go test: 0; "+long {
				w.Errorf("the task log has %q", got)
			}
		}
	})
}

// What an agent says of its work is kept with its claim, over a restart too, and is no request.
func TestProgress(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		options := w.options(quiet)
		n := w.start(options)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		renew := func(n *node, line string) api.Claim {
			w.Helper()
			c, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: "Sandman", Progress: line}))
			mustDo(w, err)
			return c
		}
		if got := renew(n, "half\n\x1b[31mway\u202e "+strings.Repeat("ü", 1000)).Progress; !strings.HasPrefix(got, "half [31mway üü") || len([]rune(got)) != 300 {
			w.Errorf("progress = %q", got)
		}
		renew(n, "tests are green")
		if got := renew(n, "").Progress; got != "tests are green" {
			w.Errorf("after a renewal that says nothing: %q", got)
		}
		if got := w.requests(); len(got) > 0 {
			w.Errorf("it cost %q", got)
		}
		n.stop()
		n = w.start(options)
		all, err := client.Do(w.Context(), n.Client, api.OpListClaims, api.AgentFilter{})
		mustDo(w, err)
		if len(all.Claims) != 1 || all.Claims[0].Progress != "tests are green" || n.task(id).Progress != "tests are green" {
			w.Errorf("after a restart: %+v, %q", all.Claims, n.task(id).Progress)
		}
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

func TestTickedIsDone(t *testing.T) {
	testkit.RacedElsewhere(t)
	withBox(t, func(w *world, use func(*config.Config)) {
		ticked := w.add("ticked", map[string]any{"Finished": checked(true)})
		w.add("waits for it", map[string]any{"depends_on": relation(ticked)})
		held := w.add("held", nil)
		n := w.daemon(use)
		if got := n.ready(""); !slices.Equal(got, []string{"waits for it", "held"}) {
			w.Errorf("ready: %q", got)
		}
		if _, err := n.claim("Sandman", ticked); code(err) != denied(claim.CodeNotOpen) {
			w.Errorf("what is ticked was claimed: %v", err)
		}
		// Ticked by a person while an agent works on it.
		cl := n.mustClaim("Sandman", held)
		w.edit(held, map[string]any{"Finished": checked(true)})
		time.Sleep(2 * interval)
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			w.Errorf("%v, want the claim lost to the person who ticked it", err)
		}
		if got := w.page(held).Select("status"); got != "IN_PROGRESS" || !w.ticked(held) {
			w.Errorf("the card is %s, ticked %v: want it as the person left it", got, w.ticked(held))
		}
	})
}

// What waits for a task is ready once that is ticked. A tick that is taken off gives the task back.
func TestTicksAreFollowed(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		first := w.add("first", nil)
		w.add("second", map[string]any{"depends_on": relation(first)})
		n := w.daemon(use)
		for _, step := range []struct {
			ticked bool
			ready  []string
		}{{true, []string{"second"}}, {false, []string{"first"}}} {
			w.edit(first, map[string]any{"Finished": checked(step.ticked)})
			time.Sleep(2 * interval)
			if got := n.ready(""); !slices.Equal(got, step.ready) {
				w.Errorf("ticked %v: ready %q, want %q", step.ticked, got, step.ready)
			}
		}
	})
}

func TestFinishingTicks(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		id := w.add("to do", nil)
		n := w.daemon(use)
		cl := n.mustClaim("Sandman", id)
		w.notion.ResetRequests()
		if err := n.complete(cl); err != nil {
			w.Fatal(err)
		}
		if sent := slices.DeleteFunc(w.requests(), func(r string) bool { return r != "PATCH page" }); len(sent) != 1 || !w.ticked(id) {
			w.Errorf("%d writes, ticked %v: want it ticked in the same write", len(sent), w.ticked(id))
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: id, Body: &api.ReopenRequest{Was: "COMPLETED"}}); err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(openCard, show(w.page(id))); diff != "" || w.ticked(id) {
			w.Errorf("the reopened card, ticked %v (-want +got):\n%s", w.ticked(id), diff)
		}
		n.mustClaim("Oracle", id)
	})
}

// Only what finishes a task, or opens it again, writes into the box. A person who ticks it in the
// middle of an attempt finds nothing of the attempt on the card.
func TestTheBoxIsPeoples(t *testing.T) {
	testkit.RacedElsewhere(t)
	withBox(t, func(w *world, use func(*config.Config)) {
		n := w.daemon(use)
		for part := range time.Duration(8) {
			after := config.Default().Claim.Settle * part / 8
			id := w.add("contested", nil)
			go func() {
				time.Sleep(after)
				w.edit(id, map[string]any{"Finished": checked(true)})
			}()
			if _, err := n.claim("Sandman", id); err == nil {
				w.Errorf("a task was granted that a person ticked after %v", after)
			}
			time.Sleep(time.Minute)
			if got := show(w.page(id)); !w.ticked(id) || got != (shown{Status: "COMPLETED"}) && got != openCard {
				w.Errorf("ticked by a person after %v, the card shows %+v, ticked: %v", after, got, w.ticked(id))
			}
		}
	})
}

func TestBoxGoes(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		ticked, free := w.add("ticked", map[string]any{"Finished": checked(true)}), w.add("free", nil)
		n := w.daemon(use)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Finished": nil}))
		for _, id := range []string{ticked, free} {
			if _, err := n.claim("Sandman", id); err == nil {
				w.Error("a task was claimed without the box")
			}
		}
	})
}
