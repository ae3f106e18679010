package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"

	"github.com/google/go-cmp/cmp"
)

var (
	unknown = claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503")
	saved   = claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")
	refused = claim.Errorf(claim.Refused, claim.LandedNo, "400")
)

// TestExactlyOnce has the first request for an entry meet each fate: whatever the
// sender is told and however late the entry shows, it is there once in the end.
func TestExactlyOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		first fate
		lag   time.Duration
		// sent and delivered count from the beginning.
		sent      []time.Duration
		delivered time.Duration
	}{
		"created":                           {sent: []time.Duration{0}},
		"503, and said to be saved":         {first: fate{err: saved}, sent: []time.Duration{0}},
		"503, and saved":                    {first: fate{err: unknown}, sent: []time.Duration{0}, delivered: 5 * time.Second},
		"cut off, landing at once":          {first: fate{err: context.DeadlineExceeded}, sent: []time.Duration{0}, delivered: 5 * time.Second},
		"landing within the first half":     {first: fate{err: unknown, late: 20 * time.Second}, sent: []time.Duration{0}, delivered: 35 * time.Second},
		"landing a minute later":            {first: fate{err: unknown, late: time.Minute}, sent: []time.Duration{0}, delivered: 65 * time.Second},
		"landing after three minutes":       {first: fate{err: unknown, late: 3 * time.Minute}, sent: []time.Duration{0}, delivered: 185 * time.Second},
		"a query two minutes behind":        {first: fate{err: unknown}, lag: 2 * time.Minute, sent: []time.Duration{0}, delivered: 125 * time.Second},
		"a minute late, two minutes behind": {first: fate{err: unknown, late: time.Minute}, lag: 2 * time.Minute, sent: []time.Duration{0}, delivered: 185 * time.Second},
		"lost":                              {first: fate{err: unknown, lost: true}, sent: []time.Duration{0, 185 * time.Second}, delivered: 185 * time.Second},
		"refused":                           {first: fate{err: refused, lost: true}, sent: []time.Duration{0, 15 * time.Second}, delivered: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.mesh.lag = tt.lag
				w.mesh.create = func(_ context.Context, _ string, n int) fate {
					if n == 0 {
						return tt.first
					}
					return fate{}
				}
				w.owe(outbox.MeshEntry, "e")
				w.pass(time.Hour)
				w.wantOnce(w.mesh, "e")
				if diff := cmp.Diff(tt.sent, w.since(w.mesh.sent["e"])); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				if got := w.row("e").DeliveredAt.Sub(w.began); got != tt.delivered {
					t.Errorf("known to be delivered after %v, want %v", got, tt.delivered)
				}
			})
		})
	}
}

// TestLookups looks an entry up that nobody knows the fate of, and not more
// often than is good for the budget.
func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, _ string, n int) fate {
			if n == 0 {
				return fate{lost: true, err: unknown}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "e")
		w.pass(time.Hour)
		var want []time.Duration
		for at := 5 * time.Second; at <= 185*time.Second; at += 30 * time.Second {
			want = append(want, at)
		}
		if diff := cmp.Diff(want, w.since(w.mesh.lookups["e"])); diff != "" {
			t.Errorf("looked up (-want +got):\n%s", diff)
		}
	})
}

// TestRefusedLog has one log refuse everything for an hour. The other does not
// notice, nor is the one that refuses asked over and over.
func TestRefusedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mended := false
		w.mesh.create = func(context.Context, string, int) fate {
			if mended {
				return fate{}
			}
			return fate{lost: true, err: refused}
		}
		var mesh, work []string
		for i := range 40 {
			mesh, work = append(mesh, fmt.Sprintf("m%02d", i)), append(work, fmt.Sprintf("w%02d", i))
		}
		w.owe(outbox.MeshEntry, mesh...)
		w.owe(outbox.TaskEntry, work...)
		w.pass(0)
		w.wantOnce(w.work, work...)
		first := w.mesh.requests()
		w.pass(time.Minute)
		if n := w.mesh.requests(); n != first {
			t.Errorf("the log that refuses was asked %d times at once, and %d times more within a minute", first, n-first)
		}
		w.pass(time.Hour)
		if n := w.mesh.requests(); n < 4 || n > 32 {
			t.Errorf("the log that refuses was asked %d times in an hour, want a few times", n)
		}
		w.owe(outbox.TaskEntry, "later")
		w.pass(0)
		w.wantOnce(w.work, "later")
		mended = true
		w.pass(10 * time.Minute)
		w.wantOnce(w.mesh, mesh...)
	})
}

// TestRetryAfter leaves a log alone for as long as it asks to be.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limited := claim.Errorf(claim.Unavailable, claim.LandedNo, "429")
		limited.RetryAfter = 20 * time.Minute
		w.mesh.create = func(_ context.Context, _ string, n int) fate {
			if n == 0 {
				return fate{lost: true, err: limited}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "e")
		w.pass(time.Hour)
		if diff := cmp.Diff([]time.Duration{0, 20 * time.Minute}, w.since(w.mesh.sent["e"])); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestPoison has one entry refused for good: it waits longer and longer, and no
// other waits for it.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, id string, _ int) fate {
			if id == "poison" {
				return fate{lost: true, err: refused}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "poison")
		var others []string
		for i := range 60 { // deliveries in between do not help it
			id := fmt.Sprintf("e%02d", i)
			others = append(others, id)
			w.owe(outbox.MeshEntry, id)
			w.pass(0)
			w.wantOnce(w.mesh, id)
			w.pass(time.Minute)
		}
		w.wantOnce(w.mesh, others...)
		want := []time.Duration{0}
		for _, wait := range []int{15, 30, 60, 120, 240, 480, 600, 600, 600, 600} {
			want = append(want, want[len(want)-1]+time.Duration(wait)*time.Second)
		}
		if diff := cmp.Diff(want, w.since(w.mesh.sent["poison"])); diff != "" {
			t.Errorf("the entry that is refused was sent (-want +got):\n%s", diff)
		}
	})
}

// TestStopped stops a drainer while it is sending. What it sent is noted, and the
// next one neither loses the entry nor doubles it.
func TestStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		first     fate
		sent      int
		delivered time.Duration // after the next start
	}{
		"before it was sent": {first: fate{lost: true, err: claim.Errorf(claim.Unavailable, claim.LandedNo, "stopped")}, sent: 2},
		"and it lands":       {first: fate{err: unknown}, sent: 1, delivered: 5 * time.Second},
		"and it lands later": {first: fate{late: time.Minute, err: unknown}, sent: 1, delivered: 65 * time.Second},
		"and it is lost":     {first: fate{lost: true, err: unknown}, sent: 2, delivered: 185 * time.Second},
		"and it was created": {first: fate{}, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.mesh.create = func(ctx context.Context, _ string, n int) fate {
					if n > 0 {
						return fate{}
					}
					<-ctx.Done()
					return tt.first
				}
				w.owe(outbox.MeshEntry, "e")
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, stop)
				if _, err := w.queues[outbox.MeshEntry].RunOnce(ctx); err != nil {
					t.Errorf("the run that was stopped: %v", err)
				}
				if state := w.row("e").State; state == "sending" {
					t.Error("what became of the entry was not noted")
				}
				w.start()
				again := time.Now()
				w.pass(time.Hour)
				w.wantOnce(w.mesh, "e")
				if n := w.mesh.requests(); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
				if got := max(0, w.row("e").DeliveredAt.Sub(again)); got != tt.delivered {
					t.Errorf("known to be delivered %v after the next start, want %v", got, tt.delivered)
				}
			})
		})
	}
}
