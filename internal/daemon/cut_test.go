package daemon_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/testkit/pgtest"
)

// Whenever the way from a door to the leader is cut under a claim, its caller gets the answer under
// its key, or is told to ask again. The claim is lost to nobody.
func TestCutUnderAClaim(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		b := w.members(s, "a b", nil)[1]
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 100 * time.Millisecond, 100 * time.Millisecond
		})
		granted := 0
		for after := 50 * time.Millisecond; after <= time.Second; after += 50 * time.Millisecond {
			id, agent := w.add(fmt.Sprint("cut after ", after), nil), fmt.Sprint("agent-", after.Milliseconds())
			time.AfterFunc(after, func() { w.wires.sever("a:7331", false) })
			cl, err := b.claim(agent, id)
			switch {
			case err == nil:
				granted++
				if err := b.complete(cl); err != nil {
					t.Errorf("cut after %v, what was granted: %v", after, err)
				}
			case code(err) != denied(claim.CodeJournalUnavailable):
				t.Errorf("cut after %v: %v", after, err)
			}
			time.Sleep(2 * time.Second)
		}
		if granted == 0 {
			t.Error("nothing was granted")
		}
		for _, n := range w.nodes {
			n.stop()
		}
	})
}
