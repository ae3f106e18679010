package claim_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Whatever happens to a claim while it settles, it is not granted.
func TestTouchedWhileSettling(t *testing.T) {
	rival := string(claim.NewID(bubbleStart))
	tests := []struct {
		name   string
		edit   func(*task.Task)
		holder string
	}{
		{"overwritten", func(t *task.Task) { t.ClaimedBy, t.Token = "Oracle", rival }, "Oracle"},
		{"overwritten under the same name", func(t *task.Task) { t.Token = rival }, "Sandman"},
		{"marked void", func(t *task.Task) { t.Token = "void " + rival }, ""},
		{"token cleared", func(t *task.Task) { t.Token = "" }, "Sandman"},
		{"name cleared", func(t *task.Task) { t.ClaimedBy = "" }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				time.AfterFunc(time.Second, func() { w.Edit(page, tt.edit) })
				denied := w.deny(d, "Sandman", claim.CodeLostRace)
				if denied.Holder != tt.holder || denied.ExpiresAt.IsZero() != (tt.holder == "") {
					t.Errorf("denied %+v, want %q as holder, and until when", denied, tt.holder)
				}
				w.none(d)
				w.sync(2*time.Minute, d)
				if n := len(w.History(page)); n != 3 {
					t.Errorf("the page has %d versions, want none after the edit", n)
				}
			})
		})
	}
}

// What a person does to a task in the middle of an attempt stands, nothing of the attempt
// stays on the card, and the denial says whose doing it was.
func TestPersonEditsWhileSettling(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*task.Task)
		code   claim.Code
		holder string
		says   string
	}{
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, claim.CodeNotOpen, "", "CANCELLED by a person"},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, claim.CodeNotOpen, "", "COMPLETED by a person"},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, claim.CodeNotOpen, "", "BLOCKED by a person"},
		{"status unknown", func(t *task.Task) { t.Status = task.Unknown }, claim.CodeNotOpen, "", "by a person"},
		{"opened", func(t *task.Task) { t.Status = task.Open }, claim.CodeLostRace, "", "OPEN by a person"},
		{"given to somebody else", func(t *task.Task) { t.ClaimedBy = "Maria" }, claim.CodeReserved, "Maria", "set to Maria by a person"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				w.Edit(page, func(t *task.Task) { t.Timeout = 45 * time.Minute })
				d := w.daemon("a")
				time.AfterFunc(time.Second, func() { w.Edit(page, tt.edit) })
				r := request("Sandman")
				r.Timeout = 2 * time.Hour
				_, err := d.Claim(w.ctx, r)
				denied := w.denied(err)
				if denied.Code != tt.code || denied.Holder != tt.holder || !strings.Contains(denied.Detail, tt.says) {
					t.Errorf("denied %s, %q, %q; want %s, %q, %q", denied.Code, denied.Holder, denied.Detail, tt.code, tt.holder, tt.says)
				}
				want := openTask()
				want.Timeout = 45 * time.Minute
				tt.edit(&want)
				if want.Status == task.Open && tt.holder != "" {
					want.Status = task.InProgress // as the claim left it, and the person did not mind
				}
				if diff := cmp.Diff(want, w.Page(page)); diff != "" {
					t.Errorf("page, at once (-want +got):\n%s", diff)
				}
				w.none(d)
				w.sync(2*time.Minute, d)
				if diff := cmp.Diff(want, w.Page(page)); diff != "" {
					t.Errorf("page, later (-want +got):\n%s", diff)
				}
				if e := d.Ledger.Events()[0]; e.Code != tt.code || !strings.Contains(e.Detail, tt.says) {
					t.Errorf("the log says %s, %q", e.Code, e.Detail)
				}
			})
		})
	}
}

// A write that takes an attempt off the card that a person cancelled may fail, and the
// daemon with it: it is made later.
func TestPersonEditWhileSettlingAndThenNotion(t *testing.T) {
	for name, f := range map[string]sim.Fault{
		"dropped": sim.RequestDropped, "turned away": sim.TurnedAway(429, 2*time.Second), "saved": sim.AnswerDropped,
		"late": sim.Late(8 * time.Second), "refused": sim.WriteRefused,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a", sim.InTurn(sim.Openings, f))
				time.AfterFunc(time.Second, func() { w.Edit(page, func(t *task.Task) { t.Status = task.Cancelled }) })
				w.deny(d, "Sandman", claim.CodeNotOpen)
				w.ok(d.Restart(w.ctx))
				w.sync(2*time.Minute, d)
				w.shows(task.Cancelled, "", "")
				w.none(d)
			})
		})
	}
}

// A task that is put into the trash while a claim settles is for the taking once it
// is restored.
func TestTrashedWhileSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		time.AfterFunc(time.Second, func() { w.Edit(page, func(t *task.Task) { t.Trashed = true }) })
		if denied := w.deny(d, "Sandman", claim.CodeNotOpen); !strings.Contains(denied.Detail, "trash by a person") {
			t.Errorf("denied: %s", denied.Detail)
		}
		w.sync(2*time.Minute, d)
		if n := len(w.History(page)); n != 3 {
			t.Errorf("the page has %d versions, want none after the edit", n)
		}
		w.Edit(page, func(t *task.Task) { t.Trashed = false })
		w.sync(3*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}
