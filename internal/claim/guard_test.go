package claim_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// A held claim whose page shows it costs nothing to watch.
func TestGuardOfAnUntouchedClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		sent := len(d.Store.Calls())
		row := w.Page(page)
		w.ok(d.Guard(w.ctx, c.ID, &row))
		w.sent(d, sent, 0)
		w.ok(d.Guard(w.ctx, c.ID, nil)) // the row is not known: the page is read
		w.sent(d, sent, 1)
		if diff := cmp.Diff(c, w.only(d)); diff != "" {
			w.Errorf("the claim changed:\n%s", diff)
		}
		// A row from before the claim is a hint, and no more.
		old := openTask()
		w.ok(d.Guard(w.ctx, c.ID, &old))
		if diff := cmp.Diff(c, w.only(d)); diff != "" {
			w.Errorf("the claim changed:\n%s", diff)
		}
	})
}

// What a person does to a claimed task is final, and is known here within a
// sync interval.
func TestGuardOfPersonEdits(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*task.Task)
		holder string
		after  func(*task.Task) // what the daemon that held it makes of the edit, if anything
	}{
		{"cleared", func(t *task.Task) { unclaim(t); t.Status = task.Open }, "", nil},
		{"name cleared", func(t *task.Task) { t.ClaimedBy = "" }, "", nil},
		{"all but the status cleared", unclaim, "", nil},
		{"given to somebody else", func(t *task.Task) { t.ClaimedBy = "Maria" }, "Maria", func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"given to somebody else, without a token", func(t *task.Task) { t.ClaimedBy, t.Token = "Maria", "" }, "Maria", nil},
		{"opened", func(t *task.Task) { t.Status = task.Open }, "", unclaim},
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, "", nil},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, "", nil},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, "", nil},
		{"status unknown", func(t *task.Task) { t.Status = task.Unknown }, "", nil},
		{"token cleared", func(t *task.Task) { t.Token = "" }, "Sandman", nil},
		{"token overwritten", func(t *task.Task) { t.Token = "mine!" }, "Sandman", nil},
		{"trashed", func(t *task.Task) { t.Trashed = true }, "", nil},
	}
	for _, tt := range tests {
		play(t, tt.name, openTask(), func(w *world) {
			d := w.daemon("a")
			c := w.claim(d, "Sandman")
			time.Sleep(time.Minute)
			w.Edit(page, tt.edit)
			edited := w.Page(page)
			row := &edited
			if edited.Trashed {
				row = nil // no query shows it
			}
			want, events := edited, []claim.Kind{claim.KindGranted, claim.KindLost}
			if tt.after != nil {
				tt.after(&want)
				events = append(events, claim.KindCleared)
			}
			lost := w.lost(d.Guard(w.ctx, c.ID, row))
			if lost.Holder != tt.holder || lost.Detail == "" {
				w.Errorf("lost %+v, want holder %q, and why", lost, tt.holder)
			}
			w.pageIs(want)
			w.ended(d, c, claim.EndLost)
			w.events(d, events...)
			w.refused(d, c, claim.EndCompleted)
			w.ok(d.Guard(w.ctx, c.ID, row)) // it has been said
		})
	}
}

// A page that is gone loses its claim; of one that cannot be read nothing is known.
func TestGuardOfAPageThatIsNotRead(t *testing.T) {
	play(t, "removed", openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		w.Remove(page)
		w.lost(d.Guard(w.ctx, c.ID, nil))
	})
	play(t, "Notion is down", openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, sim.ReadFails(claim.Unavailable)))
		if err := d.Guard(w.ctx, w.claim(d, "Sandman").ID, nil); err == nil {
			w.Error("no error, although the page could not be read")
		}
		w.held(d)
	})
}

// A person may change how long a lease lasts. The holder must not trust its
// claim for longer than others grant it.
func TestGuardOfTheLease(t *testing.T) {
	tests := []struct {
		name string
		edit func(*task.Task)
	}{
		{"shorter", func(t *task.Task) { t.Timeout = 12 * time.Minute }},
		{"longer", func(t *task.Task) { t.Timeout = 2 * time.Hour }},
		{"set back", func(t *task.Task) { t.ClaimedAt = t.ClaimedAt.Add(-20 * time.Minute) }},
	}
	for _, tt := range tests {
		play(t, tt.name, openTask(), func(w *world) {
			d := w.daemon("a")
			w.claim(d, "Sandman")
			time.Sleep(time.Minute)
			w.Edit(page, tt.edit)
			w.sync(sim.SyncInterval, d)
			w.honoured(d)
			sent := len(d.Store.Calls())
			w.sync(time.Minute, d)
			w.sent(d, sent, 0)
		})
	}
}

// late has the first claim of another daemon, made at the same time as that of
// d, land that much later, over the claim of d.
func (w *world) late(by time.Duration, faults ...sim.Fault) (d, other *sim.Daemon, c claim.Hold) {
	w.Helper()
	other = w.daemon("b", sim.InTurn(sim.Claims, sim.Late(by)))
	d = w.daemon("a", faults...)
	granted := w.race(entrant{daemon: other, agent: "Oracle"}, entrant{daemon: d, agent: "Sandman", after: time.Millisecond})
	if len(granted) != 1 || granted[0].Agent != "Sandman" {
		w.Fatalf("granted %+v, want Sandman's claim", granted)
	}
	return d, other, granted[0]
}

// A late write that covers a verified claim is withdrawn by its writer, and the holder writes its own back, whatever
// becomes of that write. Nobody else gets the task meanwhile, and it is logged once.
func TestLateWriteOverAHeldClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		by     time.Duration
		repair sim.Fault
	}{
		"4 s": {by: 4 * time.Second}, "7 s": {by: 7 * time.Second}, "20 s": {by: 20 * time.Second}, "59 s": {by: 59 * time.Second},
		"answer dropped":  {20 * time.Second, sim.AnswerDropped},
		"request dropped": {20 * time.Second, sim.RequestDropped},
		"not applied":     {20 * time.Second, sim.NotApplied},
		"turned away":     {20 * time.Second, sim.TurnedAway(429, time.Second)},
		"applied late":    {20 * time.Second, sim.AppliedLate(2 * time.Second)},
	} {
		for _, order := range []string{"holder first", "writer first"} {
			play(t, name+", "+order, openTask(), func(w *world) {
				d, other, c := w.late(tt.by, sim.InTurn(sim.Claims, nil, tt.repair))
				third := w.daemon("c")
				daemons := []*sim.Daemon{d, other}
				if order == "writer first" {
					daemons = []*sim.Daemon{other, d}
				}
				for range 12 {
					w.sync(sim.SyncInterval, daemons...)
					w.held(d)
					w.deny(third, "Hypnos", claim.CodeHeld)
				}
				w.shows(task.InProgress, "Sandman", string(c.ID))
				if got := w.only(d); !got.Suspect.IsZero() || !got.Due.IsZero() || got.Detail != "" {
					w.Errorf("the claim is suspect since %v, due at %v, %q; want it held and no more", got.Suspect, got.Due, got.Detail)
				}
				w.none(other)
				w.events(d, claim.KindGranted, claim.KindConflict)
				w.finish(d, c, claim.EndCompleted)
				w.finished(c, task.Completed)
			})
		}
	}
}

// If the writer of a late claim never comes back, the holder believes it after
// the grace.
func TestSuspicionThatTurnsOutTrue(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, _, c := w.late(20 * time.Minute)
		time.Sleep(20 * time.Minute)
		begun := time.Now()
		w.sync(2*sim.SyncInterval, d)
		if got := w.only(d); got.State != claim.Held || got.Suspect.IsZero() {
			w.Fatalf("the claim is %s, suspect since %v; want it held and under suspicion", got.State, got.Suspect)
		}
		// While in doubt, a renewal neither writes nor loses.
		got, err := d.Renew(w.ctx, c.ID)
		w.ok(err)
		if !got.ClaimedAt.Equal(c.ClaimedAt) || count(d, sim.Renewals) != 0 {
			w.Errorf("renewed at %v, while somebody else's claim lay over it", got.ClaimedAt)
		}
		w.sync(time.Minute, d)
		if got := w.record(d, c.ID); got.Ending != claim.EndLost || got.Ended.Sub(begun) > d.Policy().Grace+sim.SyncInterval {
			w.Errorf("the claim is %s, %s after %v; want it lost after the grace", got.State, got.Ending, got.Ended.Sub(begun))
		}
		w.events(d, claim.KindGranted, claim.KindLost)
	})
}

// What an agent does while its claim is covered by a late write.
func TestFinishUnderALateWrite(t *testing.T) {
	for _, tt := range finishes {
		for _, wait := range []time.Duration{0, 10 * time.Second} { // covered by the claim, or by its void mark
			play(t, tt.name+", "+wait.String(), openTask(), func(w *world) {
				d, other, c := w.late(20 * time.Second)
				time.Sleep(20 * time.Second)
				if wait > 0 {
					w.sync(wait, other)
				}
				got := w.end(d, c, tt.finish)
				if wait == 0 && got.State != claim.Finishing {
					w.Errorf("the claim is %s, want finishing until the late write is explained", got.State)
				}
				w.sync(5*time.Minute, other, d)
				w.finished(c, tt.status)
				w.none(d)
				w.none(other)
				w.events(d, claim.KindGranted, tt.kind)
			})
		}
	}
}

// A renewal finds the claim covered by a void one, and writes it back.
func TestRenewUnderALateWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other, c := w.late(50 * time.Second)
		time.Sleep(50 * time.Second)
		w.sync(sim.SyncInterval, other)
		time.Sleep(time.Until(c.ClaimedAt.Add(16 * time.Minute)))
		w.renew(d, c)
		w.shows(task.InProgress, "Sandman", string(c.ID))
		w.honoured(d)
		w.ok(d.KeepAlive(w.ctx)) // the sign of life is good for a renewal yet
		if got := w.only(d); !got.ClaimedAt.After(c.ClaimedAt) {
			w.Errorf("claimed at %v, want it renewed", got.ClaimedAt)
		}
		w.honoured(d)
		w.events(d, claim.KindGranted, claim.KindConflict, claim.KindRenewed)
	})
}

// A daemon knows which attempts it abandoned, and does not wait for its own to be
// withdrawn.
func TestLateWriteOfTheSameDaemon(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(20*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		c := w.claim(d, "Oracle")
		time.Sleep(20 * time.Second)
		w.ok(d.Guard(w.ctx, c.ID, nil))
		w.shows(task.InProgress, "Oracle", string(c.ID))
		w.sync(3*time.Minute, d)
		w.shows(task.InProgress, "Oracle", string(c.ID))
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			w.Errorf("%s of %s is %s, want Oracle's claim held", got.ID, got.Agent, got.State)
		}
	})
}

// A suspicion that somebody else clears up is over.
func TestSuspicionClearedUp(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, _, c := w.late(20 * time.Second)
		mine := w.Page(page)
		time.Sleep(20 * time.Second)
		w.sync(sim.SyncInterval, d)
		if got := w.only(d); got.Suspect.IsZero() {
			w.Fatal("the claim is not under suspicion")
		}
		w.Edit(page, func(t *task.Task) { *t = mine })
		w.sync(sim.SyncInterval, d)
		if got := w.only(d); got.ID != c.ID || !got.Suspect.IsZero() {
			w.Errorf("the claim is %s, suspect since %v; want it held and no more", got.State, got.Suspect)
		}
		w.events(d, claim.KindGranted, claim.KindConflict)
	})
}

// At most one renewal per half lease reaches Notion.
func TestHalfLeaseRule(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		sent := len(d.Store.Calls())

		time.Sleep(time.Until(c.ClaimedAt.Add(15*time.Minute - time.Second)))
		got, err := d.Renew(w.ctx, c.ID)
		w.ok(err)
		if n := len(d.Store.Calls()); n != sent || !got.ClaimedAt.Equal(c.ClaimedAt) {
			w.Errorf("before half the lease: %d requests, claimed at %v", n-sent, got.ClaimedAt)
		}
		if !got.Heartbeat.Equal(d.Store.Now()) {
			w.Errorf("heartbeat at %v, want %v", got.Heartbeat, d.Store.Now())
		}

		time.Sleep(time.Second)
		now := d.Store.Now()
		got, err = d.Renew(w.ctx, c.ID)
		w.ok(err)
		if n := len(d.Store.Calls()); n != sent+2 || !got.ClaimedAt.Equal(now) {
			w.Errorf("at half the lease: %d requests, claimed at %v; want 2, %v", n-sent, got.ClaimedAt, now)
		}
		if want := now.Truncate(time.Minute).Add(31*time.Minute + 15*time.Second); !got.StaleAt.Equal(want) || !got.ExpiresAt().Equal(now.Add(30*time.Minute)) {
			w.Errorf("stale at %v, expires at %v", got.StaleAt, got.ExpiresAt())
		}
		if diff := cmp.Diff(&claim.Write{ClaimedAt: &now}, d.Store.Calls()[sent+1].Write); diff != "" {
			w.Errorf("write (-want +got):\n%s", diff)
		}
		if at := w.Page(page).ClaimedAt; !at.Equal(now.Truncate(time.Minute)) {
			w.Errorf("the page is claimed at %v, want %v", at, now.Truncate(time.Minute))
		}
		w.events(d, claim.KindGranted, claim.KindRenewed)
	})
}

func TestKeepAlive(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		second := openTask()
		second.ID = otherPage
		w.Add(second)
		d := w.daemon("a")
		lively := w.claim(d, "Sandman")
		silent, err := d.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: second})
		w.ok(err)

		time.Sleep(10 * time.Minute)
		_, err = d.Renew(w.ctx, lively.ID) // too early to be written
		w.ok(err)
		w.ok(d.KeepAlive(w.ctx))
		w.counts(d, sim.Renewals, 0)
		time.Sleep(6 * time.Minute)
		now := d.Store.Now()
		w.ok(d.KeepAlive(w.ctx))
		if got := w.record(d, lively.ID); !got.ClaimedAt.Equal(now) {
			w.Errorf("claimed at %v, want %v", got.ClaimedAt, now)
		}
		if got := w.record(d, silent.ID); !got.ClaimedAt.Equal(silent.ClaimedAt) {
			w.Errorf("the claim of an agent that gave no sign of life was renewed at %v", got.ClaimedAt)
		}
		// One sign of life is good for one renewal.
		time.Sleep(16 * time.Minute)
		w.ok(d.KeepAlive(w.ctx))
		w.counts(d, sim.Renewals, 1)
	})
}

func TestMaxLifetime(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := sim.DaemonOptions{Policy: sim.Policy()}
		o.Policy.MaxLifetime = 2 * time.Hour
		d := w.start(o)
		c := w.claim(d, "Sandman")
		end := c.Started.Add(2 * time.Hour)
		rival := w.daemon("b")
		for time.Now().Before(end.Add(2 * time.Minute)) {
			time.Sleep(time.Minute)
			got, err := d.Renew(w.ctx, c.ID)
			w.ok(err)
			w.ok(d.KeepAlive(w.ctx))
			if got.ExpiresAt().After(end) {
				w.Fatalf("at %v the claim lasts until %v, want until %v at most", time.Now(), got.ExpiresAt(), end)
			}
		}
		if got := w.only(d).ExpiresAt(); end.Sub(got) > 16*time.Minute {
			w.Errorf("the claim lasted until %v, want close to %v", got, end)
		}
		w.claim(rival, "Oracle")
	})
}

// A renewal whose fate is unknown is believed only if the page shows it.
func TestFateOfTheRenewal(t *testing.T) {
	for name, tt := range fates {
		play(t, name, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Renewals, tt.fault))
			c := w.claim(d, "Sandman")
			time.Sleep(20 * time.Minute)
			now := d.Store.Now()
			got, err := d.Renew(w.ctx, c.ID)
			want := now
			if tt.lands != inTime && tt.lands != shortly {
				want = c.ClaimedAt
				se, ok := errors.AsType[*claim.StoreError](err)
				if !ok || se.Kind != claim.Unavailable {
					w.Fatalf("error %v, want an unavailable store", err)
				}
			} else if err != nil || !got.ClaimedAt.Equal(want) {
				w.Fatalf("claimed at %v, error %v; want %v", got.ClaimedAt, err, want)
			}
			if got := w.only(d); !got.ClaimedAt.Equal(want) || got.State != claim.Held {
				w.Errorf("ledger: %s, claimed at %v; want held, %v", got.State, got.ClaimedAt, want)
			}
			// It stands, whatever comes later.
			w.sync(5*time.Minute, d)
			w.held(d)
			w.finish(d, c, claim.EndCompleted)
		})
	}
}

// An earlier renewal that lands after a later one sets the date back. The
// holder must not trust its claim for longer than the others now grant it.
func TestRenewalsOutOfOrder(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Renewals, sim.Late(5*time.Minute)))
		c := w.claim(d, "Sandman")
		time.Sleep(16 * time.Minute)
		if _, err := d.Renew(w.ctx, c.ID); err == nil {
			w.Fatal("a renewal that did not land was believed")
		}
		first := w.Page(page).ClaimedAt
		time.Sleep(4 * time.Minute)
		w.renew(d, c)
		time.Sleep(2 * time.Minute) // the first one lands
		if at := w.Page(page).ClaimedAt; !at.After(first) || !at.Before(w.only(d).ClaimedAt.Truncate(time.Minute)) {
			w.Fatalf("the page is claimed at %v, want the time of the first renewal", at)
		}
		w.sync(sim.SyncInterval, d)
		w.honoured(d)
	})
}

// honoured checks that the holder trusts its claim for no longer than the page
// makes others wait.
func (w *world) honoured(d *sim.Daemon) {
	w.Helper()
	c := w.only(d)
	t := w.Page(page)
	if stale := d.Policy().StaleAt(t.ClaimedAt, d.Policy().LeaseOf(t)); !c.ExpiresAt().Before(stale) || !c.StaleAt.Equal(stale) {
		w.Errorf("the holder expects to expire at %v and to be stale at %v; others override after %v", c.ExpiresAt(), c.StaleAt, stale)
	}
}

// A lease that ran out while nobody took the task can be renewed, after a wait.
func TestRenewAfterTheLease(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		time.Sleep(2 * time.Hour)
		begun := time.Now()
		got := w.renew(d, c)
		if took := time.Since(begun); took < d.Policy().Settle || !got.ExpiresAt().After(time.Now()) {
			w.Errorf("renewed after %v, until %v; want the settle wait", took, got.ExpiresAt())
		}
	})
}

// Whoever renews what is not theirs any more is told whose it is, and how that came.
func TestRenewOfALostClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		lose         func(w *world, d *sim.Daemon, c claim.Hold)
		holder, says string
	}{
		"overridden": {func(w *world, _ *sim.Daemon, _ claim.Hold) { w.claim(w.daemon("b"), "Oracle") }, "Oracle", ""},
		"taken between the read and the write": {func(w *world, _ *sim.Daemon, _ claim.Hold) {
			time.AfterFunc(200*time.Millisecond, func() { w.Edit(page, named("Maria")) })
		}, "Maria", ""},
		"of a status of their own": {func(w *world, _ *sim.Daemon, _ claim.Hold) {
			w.Edit(page, func(t *task.Task) { t.Status, t.StatusName = task.Unknown, "Parked" })
		}, "", "tasks.statuses does not name"},
		"finished, and Notion has yet to be told": {func(w *world, d *sim.Daemon, c claim.Hold) {
			w.owes(w.end(d, c, claim.Finish{As: claim.EndCompleted}))
		}, "Sandman", "it was reported as completed, and Notion has yet to be told"},
	} {
		play(t, name, openTask(), func(w *world) {
			d := w.start(steady("a"), sim.On(sim.Every(sim.Completions), sim.RequestDropped))
			c := w.claim(d, "Sandman")
			time.Sleep(time.Hour)
			tt.lose(w, d, c)
			_, err := d.Renew(w.ctx, c.ID)
			if lost := w.lost(err); lost.Holder != tt.holder || !strings.Contains(lost.Detail, tt.says) {
				w.Errorf("lost %+v, want it to name %q, and to say %q", lost, tt.holder, tt.says)
			}
		})
	}
}

func TestRenewWithNotionDown(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, sim.ReadFails(claim.Unavailable)))
		c := w.claim(d, "Sandman")
		time.Sleep(20 * time.Minute)
		_, err := d.Renew(w.ctx, c.ID)
		if _, ok := errors.AsType[*claim.StoreError](err); !ok {
			w.Fatalf("error %v, want a *claim.StoreError", err)
		}
		// The sign of life is noted: the next KeepAlive renews.
		w.ok(d.KeepAlive(w.ctx))
		if got := w.only(d); !got.ClaimedAt.After(c.ClaimedAt) {
			w.Errorf("claimed at %v, want it renewed", got.ClaimedAt)
		}
	})
}

// An agent is warned once of the end of its lease, some minutes before, and not after it.
func TestWarnings(t *testing.T) {
	const lease = 30 * time.Minute
	renewAfter := func(after time.Duration) func(*world, *sim.Daemon, *atomic.Bool) {
		return func(w *world, d *sim.Daemon, _ *atomic.Bool) {
			time.AfterFunc(after, func() { w.renew(d, w.only(d)) })
		}
	}
	for name, tt := range map[string]struct {
		lease  time.Duration
		during func(w *world, d *sim.Daemon, away *atomic.Bool)
		want   []time.Duration // in minutes after the grant
		says   string
	}{
		"without a heartbeat":       {lease, nil, []time.Duration{25}, "no heartbeat has come since the lease began"},
		"a short one":               {3 * time.Minute, nil, []time.Duration{2}, "no heartbeat"},
		"renewed once":              {lease, renewAfter(20 * time.Minute), []time.Duration{45}, "no heartbeat"},
		"renewed after the warning": {lease, renewAfter(28 * time.Minute), []time.Duration{25, 53}, "no heartbeat"},
		"a heartbeat that Notion cannot be told of": {lease, func(w *world, d *sim.Daemon, away *atomic.Bool) {
			time.AfterFunc(10*time.Minute, func() {
				w.renew(d, w.only(d))
				away.Store(true)
			})
		}, []time.Duration{25}, "it could not be renewed: "},
	} {
		play(t, name, openTask(), func(w *world) {
			o := sim.DaemonOptions{Policy: sim.Policy()}
			o.Policy.Timeout = tt.lease
			var away atomic.Bool
			d := w.start(o, sim.Outage(away.Load))
			c := w.claim(d, "Sandman")
			if tt.during != nil {
				tt.during(w, d, &away)
			}
			for range 70 * 6 {
				_, _ = d.Warn(w.ctx)
				time.Sleep(10 * time.Second)
			}
			var got []time.Duration
			for _, f := range d.Ledger.Events() {
				if f.Kind != claim.KindExpiring {
					continue
				}
				got = append(got, f.At.Sub(c.Started).Round(time.Minute)/time.Minute)
				if !strings.HasPrefix(f.Detail, tt.says) || f.Claim != c.ID || f.Expires.Before(f.At) {
					w.Errorf("warned of %+v, want %q", f, tt.says)
				}
			}
			if !slices.Equal(got, tt.want) {
				w.Errorf("warned in minutes %d, want %d", got, tt.want)
			}
		})
	}
	play(t, "the lease ended meanwhile", openTask(), func(w *world) {
		d := w.daemon("a")
		w.claim(d, "Sandman")
		time.Sleep(31 * time.Minute)
		_, err := d.Warn(w.ctx)
		w.ok(err)
		w.events(d, claim.KindGranted)
	})
}

// If Notion refuses one page, what is owed to the others goes on: they are renewed, and Notion is told that they are finished.
func TestOnePageIsRefused(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		refused := task.Task{ID: otherPage, Status: task.Open}
		w.Add(refused)
		bad, away := false, false
		d := w.daemon("a", sim.On(func(id task.ID, _ *claim.Write) bool { return bad && id == otherPage }, sim.ReadFails(claim.Refused)),
			sim.On(func(task.ID, *claim.Write) bool { return away }, sim.ReadFails(claim.Unavailable)))
		one, err := d.Claim(w.ctx, claim.Request{Agent: "Hypnos", Task: refused})
		w.ok(err)
		c := w.claim(d, "Sandman")
		time.Sleep(10 * time.Minute)
		for _, id := range []claim.ID{one.ID, c.ID} { // too early to be written
			_, err := d.Renew(w.ctx, id)
			w.ok(err)
		}
		time.Sleep(6 * time.Minute)
		bad = true
		if err := d.KeepAlive(w.ctx); err == nil || !w.record(d, c.ID).ClaimedAt.After(c.ClaimedAt) {
			w.Errorf("%v, and the claim is renewed at %v", err, w.record(d, c.ID).ClaimedAt)
		}
		away = true
		for _, id := range []claim.ID{one.ID, c.ID} {
			_, err := d.Finish(w.ctx, id, claim.Finish{As: claim.EndReleased})
			w.ok(err)
		}
		away = false
		time.Sleep(5 * time.Minute)
		_, _ = d.RunDue(w.ctx)
		w.shows(task.Open, "", "")
		w.ended(d, c, claim.EndReleased)
	})
}
