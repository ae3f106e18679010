package daemon_test

import (
	"testing"

	"dibs/internal/api"
)

// The next task is none of those that the request says will not do.
func TestNextExcept(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("First", map[string]any{"priority": option("select", "critical")})
		w.add("Second", nil)
		n := w.daemon(nil)
		defer n.stop()
		next := func(r api.ClaimRequest) (api.Claim, error) {
			r.Agent = "Sandman"
			return n.Claim(w.Context(), r, "")
		}
		for _, r := range []api.ClaimRequest{{Except: []string{"nonsense"}}, {Task: first, Except: []string{first}}} {
			if _, err := next(r); code(err) != "invalid_request" {
				w.Errorf("%+v: %v", r, err)
			}
		}
		if cl, err := next(api.ClaimRequest{Except: []string{first}}); err != nil || cl.Task.Title != "Second" {
			w.Errorf("%+v, %v", cl.Task, err)
		}
		if _, err := next(api.ClaimRequest{Except: []string{first}}); code(err) != "nothing_ready" {
			w.Error(err)
		}
		if cl, err := next(api.ClaimRequest{}); err != nil || cl.Task.Title != "First" {
			w.Errorf("%+v, %v", cl.Task, err)
		}
	})
}
