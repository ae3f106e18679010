package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// An agent is warned of the end of its lease, and not after it.
func TestLeaseThatIsAboutToEnd(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) { c.Schedule.Sweep = "@every 100h" })
		first, second := w.add("work", nil), w.add("more", nil)
		n := w.start(o)
		n.mustClaim("Sandman", first)
		time.Sleep(26 * time.Minute)
		n.wantEvents(0, `claimed Sandman "work"`, `lease_expiring Sandman "work"`)
		after := n.last()
		n.mustClaim("Oracle", second)
		time.Sleep(20 * time.Minute)
		n.stop()
		time.Sleep(11 * time.Minute) // the lease ends while the daemon is down
		n = w.start(o)
		time.Sleep(time.Hour)
		n.wantEvents(after, `claimed Oracle "more"`)
	})
}

func TestSweptAndOverridden(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		swept, over := w.add("swept", nil), w.add("over", nil)
		n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 100h" })
		n.mustClaim("Sandman", swept)
		old := n.mustClaim("Sandman", over)
		time.Sleep(33 * time.Minute)
		after := n.last()
		cl := n.mustClaim("Oracle", over)
		if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.wantEvents(after, `overridden Sandman Oracle "over"`, `swept Sandman "swept"`, `ready "swept"`)
		got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(old.ID), After: api.EventsFuture, Wait: time.Hour.String()})
		if err != nil || got.Outcome != claim.EndOverridden || got.Event == nil || got.Event.Kind != claim.KindOverridden || got.Event.Holder != "Oracle" {
			w.Errorf("claim = %+v, event = %+v, err = %v; want it overridden by Oracle, at once", got, got.Event, err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

func TestEventsAfterARestart(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		lost, kept := w.add("lost", nil), w.add("kept", nil)
		waits := w.add("waits", map[string]any{"depends_on": relation(kept)})
		o := w.options(nil)
		n := w.start(o)
		gone := n.mustClaim("Sandman", lost)
		cl := n.mustClaim("Oracle", kept)
		time.Sleep(3 * time.Minute)
		after := n.last()
		n.stop()

		// People continue while the daemon is down.
		w.edit(lost, map[string]any{"claimed_by": text("rich_text", "Maria")})
		w.edit(waits, map[string]any{"priority": option("select", "high")})
		w.add("new", nil)
		time.Sleep(5 * time.Minute)
		w.notion.ResetRequests()
		n = w.start(o)
		time.Sleep(10 * time.Second)
		pages := 0
		for _, r := range w.notion.Requests() {
			if r.Method == "GET" && (strings.HasSuffix(r.Path, kept) || strings.HasSuffix(r.Path, lost)) {
				pages++
			}
		}
		if pages < 2 {
			w.Errorf("%d pages of held claims were read after the start, want each", pages)
		}
		want := []string{
			`claim_lost Sandman Maria "lost"`, `created "new"`, `edited "waits" priority`, `ready "new"`, `reassigned Sandman Maria "lost"`,
		}
		if diff := cmp.Diff(want, sorted(n.eventsAfter(after))); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
		if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(gone.ID), Agent: "Sandman", After: after, Wait: time.Hour.String()}); err != nil || got.Event == nil || got.Event.ID <= after {
			w.Errorf("event = %+v, err = %v; want the loss, with an id above %d", got.Event, err, after)
		}
		// The agent continues as before.
		after = n.last()
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
			w.Error(err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		time.Sleep(time.Second)
		n.wantEvents(after, `completed Oracle "kept"`, `ready "waits"`)
	})
}
