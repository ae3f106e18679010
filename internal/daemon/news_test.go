package daemon_test

import (
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

func TestLeaseThatIsAboutToEnd(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	tests := map[string]struct {
		timeout time.Duration
		during  func(w *world, n *node, cl api.Claim) // from the grant on
		want    []time.Duration                       // when the agent is warned
		detail  string
	}{
		"without a heartbeat": {30 * time.Minute, nil, []time.Duration{25 * time.Minute}, "no heartbeat"},
		"a short one":         {3 * time.Minute, nil, []time.Duration{2 * time.Minute}, "no heartbeat"},
		"renewed once": {
			30 * time.Minute,
			func(w *world, n *node, cl api.Claim) {
				time.Sleep(20 * time.Minute)
				if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
					w.Error(err)
				}
			},
			[]time.Duration{45 * time.Minute}, "no heartbeat",
		},
		"renewed after the warning": {
			30 * time.Minute,
			func(w *world, n *node, cl api.Claim) {
				time.Sleep(28 * time.Minute)
				if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
					w.Error(err)
				}
			},
			[]time.Duration{25 * time.Minute, 53 * time.Minute}, "no heartbeat",
		},
		"a heartbeat that Notion cannot be told of": {
			30 * time.Minute,
			func(w *world, n *node, cl api.Claim) {
				time.Sleep(10 * time.Minute)
				if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
					w.Error(err)
				}
				w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
			},
			[]time.Duration{25 * time.Minute}, "could not be renewed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(func(c *config.Config) {
					c.Claim.Timeout, c.Sync.Interval = tt.timeout, time.Minute
					c.Schedule.Sweep = "@every 100h"
				})
				cl := n.mustClaim("Sandman", id)
				granted := cl.ClaimedAt.Time
				if tt.during != nil {
					go tt.during(w, n, cl)
				}
				time.Sleep(70 * time.Minute)
				var got []time.Duration
				_, err := n.Events(w.Context(), api.EventsInput{Agent: "Sandman"}, false, func(e api.Event) error {
					if e.Kind == api.LeaseExpiring {
						got = append(got, e.At.Sub(granted).Truncate(time.Minute))
						if !strings.Contains(e.Detail, tt.detail) || e.Claim != cl.ID || e.ExpiresAt.Before(e.At.Time) {
							w.Errorf("warning = %+v, want %q of claim %s", e, tt.detail, cl.ID)
						}
					}
					return nil
				})
				if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
					w.Errorf("warned at, err = %v (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

// TestLeaseThatEndedUnnoticed ends a lease while the daemon is down: a warning afterwards would be
// false.
func TestLeaseThatEndedUnnoticed(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) { c.Schedule.Sweep = "@every 100h" })
		id := w.add("work", nil)
		n := w.start(o)
		n.mustClaim("Sandman", id)
		time.Sleep(20 * time.Minute)
		n.stop()
		time.Sleep(11 * time.Minute)
		n = w.start(o)
		time.Sleep(time.Hour)
		n.wantEvents(0, `claimed Sandman "work"`)
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

// TestSweepOfADuplicateIsNotTold sweeps a copy of a page with a live claim, which shows the claim's
// token, too. Nothing has happened to the claim, so its agent hears nothing.
func TestSweepOfADuplicateIsNotTold(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("original", nil)
		n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 100h" })
		cl := n.mustClaim("Sandman", id)
		for range 2 { // until the copy's lease is over, and the claim's is not
			time.Sleep(17 * time.Minute)
			if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
				w.Fatal(err)
			}
		}
		shown := w.page(id)
		copied := w.add("copy", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
			"claimed_at": date(cl.ClaimedAt.Time), "claim_token": text("rich_text", shown.Text("claim_token")),
		})
		time.Sleep(time.Minute) // the claim on a live copy would have been cleared
		after := n.last()
		swept, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
		if err != nil || len(swept.Swept) != 1 || string(swept.Swept[0].Task) != copied {
			w.Fatalf("swept = %+v, %v; want the copy", swept.Swept, err)
		}
		time.Sleep(time.Minute)
		n.wantEvents(after, `swept "copy"`, `ready "copy"`)
		got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: after, Wait: time.Minute.String()})
		if err != nil || got.State != claim.Held || got.Event != nil {
			w.Errorf("the claim is %s, its event %+v, err = %v; want it held, and nothing told", got.State, got.Event, err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		if got, want := w.mesh(), []string{"granted: Sandman", "swept: "}; !cmp.Equal(got, want) {
			w.Errorf("the mesh log says %q, want %q", got, want)
		}
	})
}

// TestSweepIsToldOnce syncs in the middle of a sweep of another daemon's claim, when the task is
// free.
func TestSweepIsToldOnce(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", "01JAAAAAAAAAAAAAAAAAAAAAAA"),
		})
		n := w.daemon(func(c *config.Config) { c.Sync.Interval, c.Schedule.Sweep = time.Second, "@every 100h" })
		time.Sleep(3 * time.Second)
		w.notion.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.DelayAnswer, Delay: 1400 * time.Millisecond})
		if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if got := w.page(id).Select("status"); got != "OPEN" {
			w.Fatalf("the task is %s, want it swept", got)
		}
		n.wantEvents(0, `swept Ghost "work"`, `ready "work"`)
	})
}

func TestWaitOnAClaim(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", id)

		start := time.Now()
		got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", Wait: time.Minute.String()}) // its grant is no news
		if took := time.Since(start); err != nil || got.Event != nil || got.State != claim.Held || took != time.Minute {
			w.Errorf("nothing happened: %+v after %v, err = %v; want the claim after a minute", got, took, err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Oracle", After: api.EventsFuture, Wait: time.Minute.String()}); code(err) != string(api.CodeClaimLost) {
			w.Errorf("another's claim: err = %v, want claim_lost", err)
		}

		start = time.Now()
		got, err = client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: api.EventsFuture, Wait: time.Hour.String()})
		if took := time.Since(start); err != nil || got.Event == nil || got.Event.Kind != api.LeaseExpiring || took > 24*time.Minute {
			w.Errorf("event = %+v after %v, err = %v; want a warning", got.Event, took, err)
		}
		// Events between two waits are not missed, given the last position.
		before := got.Event.ID - 1
		got, err = client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: before, Wait: time.Hour.String()})
		if err != nil || got.Event == nil || got.Event.ID != before+1 {
			w.Errorf("event = %+v, err = %v; want the same again", got.Event, err)
		}

		time.AfterFunc(time.Minute, func() { n.complete(cl) })
		got, err = client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: "Sandman", After: before + 1, Wait: time.Hour.String()})
		if err != nil || got.Event == nil || got.Event.Kind != claim.KindCompleted || got.Event.Summary != "done" || got.State != claim.Ended {
			w.Errorf("%s, event = %+v, err = %v; want the completion", got.State, got.Event, err)
		}
		start = time.Now()
		got, err = client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture, Wait: time.Hour.String()})
		if err != nil || got.Event == nil || got.Event.Kind != claim.KindCompleted || time.Since(start) != 0 {
			w.Errorf("an ended claim: %+v after %v, err = %v; want its end at once", got.Event, time.Since(start), err)
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

// TestClaimThatIsRepairedIsNoNews covers a live claim with a late write of an abandoned attempt:
// nobody hears that the task changed hands.
func TestClaimThatIsRepairedIsNoNews(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		w.notion.Inject(emulator.Fault{Method: "PATCH", Times: 1, Kind: emulator.LateWrite, Late: 40 * time.Second})
		w.notion.Inject(emulator.Fault{Method: "PATCH", Times: 2, Kind: emulator.DropRequest}) // of the attempts that follow
		if _, err := b.claim("Oracle", id); err == nil {
			w.Fatal("Oracle was granted a claim whose write never landed in time")
		}
		cl := a.mustClaim("Sandman", id)
		time.Sleep(5 * time.Minute)
		a.wantEvents(0, `claimed Sandman "work"`, `conflict Sandman Oracle "work"`)
		if err := a.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

// TestEditsInTheMinuteOfASync edits a task twice in the minute of a sync: Notion's edit times do
// not show the difference.
func TestEditsInTheMinuteOfASync(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		time.Sleep(2*time.Minute + time.Second)
		w.edit(id, map[string]any{"status": option("status", "BLOCKED")})
		time.Sleep(interval)
		n.wantEvents(0, `blocked "work"`)
		w.edit(id, map[string]any{"status": option("status", "OPEN")})
		time.Sleep(interval)
		n.wantEvents(0, `blocked "work"`, `unblocked "work"`, `ready "work"`)
		w.edit(id, map[string]any{"status": option("status", "CANCELLED")})
		time.Sleep(interval)
		n.wantEvents(0, `blocked "work"`, `unblocked "work"`, `ready "work"`, `cancelled "work"`)
	})
}
