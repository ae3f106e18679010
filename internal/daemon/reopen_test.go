package daemon_test

import (
	"slices"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

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
				_, err := n.Comment(w.Context(), task.ID(id), api.CommentRequest{Agent: "Oracle", Text: "no wonder"}, "")
				mustDo(w, err)
			},
			"finished": func(id string) {
				_, err := n.Reopen(w.Context(), task.ID(id), api.ReopenRequest{Was: "BLOCKED", Status: "COMPLETED"}, "")
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
				_, err := n.Block(w.Context(), string(cl.ID), api.BlockRequest{}, "")
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
			done, err := n.ReopenFailed(w.Context(), r, "")
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
