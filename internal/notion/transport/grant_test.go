package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/transport/transporttest"
)

func TestPermitsTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		ctx, err := p.permits.grant(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
		// Others who wait do not come between.
		go p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
		synctest.Wait()
		if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodPatch, transporttest.PagePath, "{}")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("two requests with permits took %s, want no wait", took)
		}
		if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 300*time.Millisecond {
			t.Errorf("a third request had to wait %s only, want a permit of its own", took)
		}
	})
}

func TestUnusedPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		ctx, cancel := context.WithCancel(t.Context())
		ctx, err := p.permits.grant(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		start := time.Now()
		drain(t, p, 10)
		if took := time.Since(start); took != 0 {
			t.Errorf("ten requests took %s, want none to wait", took)
		}
		if got := grantOf(ctx).held; got {
			t.Error("the permits are still held")
		}
	})
}

// Permits that are held and not used make the others wait, until they are given back.
func TestHeldPermitsAreNotHandedOutTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		for i := range time.Duration(5) {
			ctx, cancel := context.WithTimeout(t.Context(), i*time.Second+3*time.Second)
			defer cancel()
			if _, err := p.permits.grant(ctx, 2); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		drain(t, p, 1)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the request waited %s, want until the first permits were given back, 3s", took)
		}
	})
}

// Who holds permits and waits for another does not make everybody wait for good.
func TestHoldersWhoWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := paced(t, 3, 10, fine), time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				ctx, giveBack := context.WithCancel(t.Context())
				defer giveBack()
				ctx, err := p.permits.grant(ctx, 2)
				if err == nil {
					err = p.permits.admit(ctx, time.Time{})
				}
				if err == nil {
					err = p.permits.admit(WithoutPermits(ctx), time.Time{})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("20 of them took %s", took)
		}
	})
}

// Whoever gives permits back does so for those who wait, at that moment.
func TestPermitsGivenBackAreHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		ctx, giveBack := context.WithCancel(t.Context())
		if _, err := p.permits.grant(ctx, 10); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				ctx, giveBack := context.WithCancel(t.Context())
				defer giveBack()
				if _, err := p.permits.grant(ctx, 2); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != time.Second {
					t.Errorf("served after %s, want when the permits were given back, after a second", took)
				}
			})
		}
		time.Sleep(time.Second)
		giveBack()
		waiting.Wait()
	})
}

// A request that outlives its permits is like any other: it waits in line for its own,
// and holds none.
func TestRequestAfterItsPermitsWereGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		ctx, giveBack := context.WithCancel(t.Context())
		granted, err := p.permits.grant(ctx, 2)
		if err != nil {
			t.Fatal(err)
		}
		giveBack()
		synctest.Wait()
		drain(t, p, 10)
		start := time.Now()
		if _, err := p.RoundTrip(transporttest.Request(t, context.WithoutCancel(granted), http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 300*time.Millisecond {
			t.Errorf("waited %s, want like the others", took)
		}
		time.Sleep(time.Minute)
		if now, most := p.permits.room(); now != most {
			t.Errorf("after a quiet minute there is room for %d of %d", now, most)
		}
	})
}

// Permits that are held are not used in a pause. They are as good as before when it is
// over.
func TestPauseWhilePermitsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		granted, err := p.permits.grant(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		drain(t, p, 8)
		end := p.permits.pause(time.Second)
		start := time.Now()
		if _, err := p.RoundTrip(transporttest.Request(t, granted, http.MethodPatch, transporttest.PagePath, "{}")); !errors.Is(err, errHeldBack) {
			t.Errorf("a write in a pause: %v, want it held back", err)
		}
		for _, method := range []string{http.MethodGet, http.MethodPatch} {
			if _, err := p.RoundTrip(transporttest.Request(t, granted, method, transporttest.PagePath, "")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != end {
				t.Errorf("%s was sent after %s, want at the end of the pause, after %s", method, took, end)
			}
		}
	})
}

// A change of the burst turns away those who wait for more than it allows.
func TestBurstBelowWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := p.permits.grant(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "notion.burst") {
				t.Errorf("err = %v, want one that names the setting", err)
			}
		})
		synctest.Wait()
		if err := p.permits.setRate(3, 4); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
	})
}
