package daemon_test

import (
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
)

// TestRepeatedAfterCut stops a daemon during a settle wait that is longer than its drain time. The
// next daemon does not refuse the same request because of the remains of the first attempt, and
// grants it once that is withdrawn.
func TestRepeatedAfterCut(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Cut off", nil)
		o := w.options(func(c *config.Config) {
			c.Claim.WriteWindow, c.Claim.Settle = 40*time.Second, time.Minute
		})
		ask := func(n *node) (api.Claim, error) {
			return n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id}, "the same")
		}
		first := w.start(o)
		cut := make(chan error, 1)
		go func() {
			_, err := ask(first)
			cut <- err
		}()
		time.Sleep(5 * time.Second)
		if p := w.page(id); p.Text("claimed_by") != "Sandman" {
			t.Errorf("the page shows %q: the claim was not written before the stop", p.Text("claimed_by"))
		}
		first.stop()
		if err := <-cut; code(err) != string(api.CodeStopping) {
			t.Errorf("the claim that could not be verified before the stop was answered: %v", err)
		}

		second := w.start(o)
		if _, err := ask(second); code(err) != denied(claim.CodeNotionUnavailable) {
			t.Errorf("the same request, with the first attempt not withdrawn: %v", err)
		}
		time.Sleep(15 * time.Minute)
		if cl, err := ask(second); err != nil || cl.Agent != "Sandman" {
			t.Errorf("the same request, with the first attempt withdrawn: %+v, %v", cl, err)
		}
	})
}
