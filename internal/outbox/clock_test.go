package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/outbox"
)

// TestClockJumpsWhileInDoubt sets the machine's clock while an entry is there that
// queries do not show yet. However long the clock says that ago is, it is not sent
// again before it must have shown.
func TestClockJumpsWhileInDoubt(t *testing.T) {
	for name, restart := range map[string]bool{"while the daemon runs": false, "before the next one starts": true} {
		for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			t.Run(name+", "+jump.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.mesh.lag = 100 * time.Second
					w.mesh.create = func(_ context.Context, _ string, _ int) fate { return fate{err: unknown} }
					w.owe(outbox.MeshEntry, "e")
					w.pass(time.Second)
					if w.ledger.Shift(jump); restart {
						w.start()
					}
					w.pass(15 * time.Minute)
					w.wantOnce(w.mesh, "e")
				})
			})
		}
	}
}

// TestClockSetBackWhileWaiting sets the clock back by an hour while an entry that was
// refused waits to be sent again, and no daemon runs. The next one does not wait for
// that hour.
func TestClockSetBackWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, _ string, n int) fate {
			if n == 0 {
				return fate{lost: true, err: refused}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "e")
		w.pass(time.Second)
		w.ledger.Shift(-time.Hour)
		w.start()
		again := time.Now()
		w.pass(2 * time.Hour)
		w.wantOnce(w.mesh, "e")
		if took := w.row("e").DeliveredAt.Sub(again); took > 10*time.Minute {
			t.Errorf("delivered %v after the next start, want it within ten minutes", took)
		}
	})
}
