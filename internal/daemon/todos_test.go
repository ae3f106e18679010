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
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"

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
			c, err := n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Agent: "Sandman"}, key)
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
		if c, err := n.Lookup(w.Context(), string(cl.ID), ""); err != nil || c.State != claim.Held {
			w.Errorf("the claim is %s, %v", c.State, err)
		}
		// Whatever else an agent says is accepted.
		other := n.mustClaim("Oracle", w.paged("- [ ] never\n"))
		_, err := n.Block(w.Context(), string(other.ID), api.BlockRequest{Reason: "which?"}, "")
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
		_, err := n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{}, "")
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
			c, err := n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit 1f3a"}}, "")
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
		_, err := n.Fail(w.Context(), string(cl.ID), api.FailRequest{}, "")
		mustDo(w, err)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"failed: Sandman", "review: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}
