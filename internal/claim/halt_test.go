package claim_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
)

// Whatever stands still between the read and the claim write, for however long, as long
// as one of the three clocks tells: what another daemon was granted meanwhile stays its
// own.
func TestStandingStillBeforeTheClaimWrite(t *testing.T) {
	names := map[sim.Halt]string{sim.Stopped: "stopped", sim.Suspended: "suspended", sim.Paused: "paused"}
	for what, name := range names {
		for _, lasts := range []time.Duration{4 * time.Second, 6 * time.Second, 30 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", lasts), func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					stands := w.daemon("stands", sim.InTurn(sim.Claims, sim.Halted(what, lasts)))
					rival := w.daemon("rival")
					granted := w.race(entrant{daemon: stands, agent: "Oracle"}, entrant{daemon: rival, agent: "Sandman"})
					if len(granted) != 1 || granted[0].Agent != "Sandman" {
						t.Fatalf("granted to %v, want Sandman alone", granted)
					}
					w.sync(3*time.Minute, rival, stands)
					if got := w.only(rival); got.State != claim.Held {
						t.Errorf("Sandman's claim is %s, want held", got.State)
					}
					w.none(stands)
				})
			})
		}
	}
}

// What a claim's life is counted from is no guess of a clock that has jumped.
func TestStartOfAClaimVerifiedWithoutDate(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Reads, nil, sim.NoDate, sim.NoDate))
		time.AfterFunc(time.Second, func() { d.Store.SetSkew(10 * time.Minute) })
		c := w.claim(d, "Sandman")
		if since := time.Since(c.Started); since < 0 || since > 10*time.Second {
			t.Errorf("the claim was granted now and counts from %v ago", since)
		}
	})
}
