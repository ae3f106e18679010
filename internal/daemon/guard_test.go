package daemon_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// coverLate lets Oracle, at b, claim the task with a write that lands 20 seconds after it was given
// up; by then Sandman, at a, holds the task. It returns Sandman's claim at the time when Oracle's
// write has landed.
func coverLate(w *world, a, b *node, id string) api.Claim {
	w.Helper()
	page := func(r *http.Request, _ []byte) bool { return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, id) }
	w.notion.Inject(emulator.Fault{Kind: emulator.LateWrite, Late: 20 * time.Second, Times: 1, Match: page})
	w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Times: 2, Match: page}) // of the attempts that follow
	began := time.Now()
	if _, err := b.claim("Oracle", id); code(err) != denied(claim.CodeNotionUnavailable) {
		w.Fatalf("Oracle: %v, want notion_unavailable", err)
	}
	cl := a.mustClaim("Sandman", id)
	time.Sleep(time.Until(began.Add(20*time.Second + time.Millisecond)))
	if got := w.page(id).Text("claimed_by"); got != "Oracle" {
		w.Fatalf("the task is %q's, want the late write over Sandman's", got)
	}
	return cl
}

// An abandoned write may land on a claim that was granted since. Its sender withdraws it, and the
// holder restores its own claim.
func TestClaimCoveredByALateWrite(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("covered", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := coverLate(w, a, b, id)

		covered := time.Now()
		repaired := time.Duration(0)
		for time.Since(covered) < 5*time.Minute {
			now, err := a.Lookup(w.Context(), string(cl.ID), "")
			if err != nil || now.State != claim.Held {
				w.Fatalf("after %v: the claim is %s, %s, %v; want it held", time.Since(covered), now.State, now.Detail, err)
			}
			if shows := w.page(id).Text("claim_token") == string(cl.ID); shows && repaired == 0 {
				repaired = time.Since(covered)
			} else if !shows && repaired > 0 {
				w.Fatalf("the claim was in its place after %v, and is not after %v", repaired, time.Since(covered))
			}
			if held, err := b.Claims(w.Context(), ""); err != nil || len(held.Claims) > 0 {
				w.Fatalf("b holds %+v, %v; want nothing", held.Claims, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		// The late write is seen and marked after one interval at most, the mark after another.
		if most := 2 * config.Default().Sync.Interval; repaired == 0 || repaired > most {
			w.Errorf("repaired after %v, want within %v", repaired, most)
		}
		if diff := cmp.Diff([]string{"conflict: Sandman", "denied: Oracle", "denied: Oracle", "denied: Oracle", "granted: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		if err := a.complete(cl); err != nil {
			w.Error(err)
		}
		// Oracle's attempt is completely done with.
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		for _, r := range w.notion.Requests() {
			if strings.HasSuffix(r.Path, id) {
				w.Errorf("%s of the task's page", r.Method)
			}
		}
		w.logsAgree(a, b)
	})
}

// Work that is finished while a late write covers the claim is not lost.
func TestFinishUnderALateWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("covered", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		cl := coverLate(w, a, b, id)
		mustDo(w, a.complete(cl))
		time.Sleep(5 * time.Minute)
		if got := show(w.page(id)); got.Status != "COMPLETED" || got.ClaimedBy != "Sandman" {
			w.Errorf("the task shows %+v, want it completed by Sandman", got)
		}
		if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
		w.logsAgree(a, b)
	})
}

// TestAgentKnowsWithinAnInterval ends a claim in Notion, as a person, at any time of the sync
// interval: one interval later an agent that asks about its claim learns that it ended, and why.
func TestAgentKnowsWithinAnInterval(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	edits := map[string]struct {
		props  map[string]any
		edit   func(w *world, id string) error // instead of props
		detail string
	}{
		"cancelled":      {props: map[string]any{"status": option("status", "CANCELLED")}, detail: "CANCELLED"},
		"completed":      {props: map[string]any{"status": option("status", "COMPLETED")}, detail: "COMPLETED"},
		"reopened":       {props: map[string]any{"status": option("status", "OPEN")}, detail: "OPEN"},
		"name cleared":   {props: map[string]any{"claimed_by": text("rich_text", "")}, detail: "cleared"},
		"taken":          {props: map[string]any{"claimed_by": text("rich_text", "Maria")}, detail: "Maria"},
		"token cleared":  {props: map[string]any{"claim_token": text("rich_text", "")}, detail: "token"},
		"token replaced": {props: map[string]any{"claim_token": text("rich_text", "mine")}, detail: "token"},
		"all cleared": {props: map[string]any{
			"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
		}, detail: "OPEN"},
		"trashed":  {edit: func(w *world, id string) error { return w.notion.TrashPage(id) }, detail: "trash"},
		"archived": {edit: func(w *world, id string) error { return w.notion.ArchivePage(id, true) }, detail: "trash"},
	}
	interval := config.Default().Sync.Interval
	for i, name := range slices.Sorted(maps.Keys(edits)) {
		tt := edits[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(nil)
				for offset := range 5 { // time of the edit in the interval
					if !inTurn(i, offset, 5) {
						continue
					}
					id := w.add(name, nil)
					cl := n.mustClaim("Sandman", id)
					time.Sleep(5*time.Minute + time.Duration(offset)*interval/5 + 300*time.Millisecond)
					if tt.edit != nil {
						mustDo(w, tt.edit(w, id))
					} else {
						w.edit(id, tt.props)
					}
					time.Sleep(interval + time.Millisecond)
					now, err := n.Lookup(w.Context(), string(cl.ID), "")
					if err != nil || now.State != claim.Ended || now.Outcome != claim.EndLost || !strings.Contains(now.Detail, tt.detail) {
						w.Errorf("one interval after the edit the claim is %s, %s: %q, %v; want it lost, and to be told of %q", now.State, now.Outcome, now.Detail, err, tt.detail)
					}
				}
			})
		})
	}
}

// If a program writes a token in dibs' form over a live claim and does not withdraw it, the token
// is accepted after a grace.
func TestClaimTakenByAProgramThatFollowsNoProtocol(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("taken", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		w.edit(id, map[string]any{
			"claimed_by": text("rich_text", "Rogue"), "claimed_at": date(time.Now()),
			"claim_token": text("rich_text", string(claim.NewID(time.Now()))),
		})
		taken := show(w.page(id))
		c := config.Default()
		time.Sleep(4*c.Sync.Interval + c.Claim.Settle + c.Notion.Timeout)
		now, err := n.Lookup(w.Context(), string(cl.ID), "")
		if err != nil || now.Outcome != claim.EndLost || !strings.Contains(now.Detail, "Rogue") {
			w.Errorf("the claim is %s, %s: %q, %v; want it lost to Rogue", now.State, now.Outcome, now.Detail, err)
		}
		if diff := cmp.Diff(taken, show(w.page(id))); diff != "" {
			w.Errorf("the task was written to (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"granted: Sandman", "lost: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
	})
}
