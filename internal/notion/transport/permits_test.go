package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport/transporttest"
)

// halfway is the jitter that has no luck in it.
func halfway(n time.Duration) time.Duration { return n / 2 }

// paced is a paced transport in front of a server that answers everything.
func paced(t *testing.T, perSecond float64, burst int, server transporttest.Server) *pace {
	t.Helper()
	permits, err := newPermits(perSecond, burst, halfway)
	if err != nil {
		t.Fatal(err)
	}
	return &pace{next: &typed{next: server}, permits: permits, log: slog.New(slog.DiscardHandler)}
}

// drain uses up the burst.
func drain(t *testing.T, p *pace, n int) {
	t.Helper()
	for range n {
		if _, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
	}
}

func fine(*http.Request) (*http.Response, error) { return transporttest.Reply(200, "{}"), nil }

// Whatever the load, no window of 60 seconds sees more requests than the rate
// allows, also when requests take different times to arrive and permits are used
// long after they were handed out; and the load gets nearly all that is allowed.
func TestNoWindowSeesTooManyRequests(t *testing.T) {
	const (
		perSecond = 3
		minutes   = 10
	)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(seed, 1))
				some := func(d time.Duration) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(random.Int64N(int64(d)))
				}
				var arrivals []time.Time
				p := paced(t, perSecond, 10, func(*http.Request) (*http.Response, error) {
					time.Sleep(some(time.Second))
					mu.Lock()
					defer mu.Unlock()
					arrivals = append(arrivals, time.Now())
					return transporttest.Reply(200, "{}"), nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
				defer cancel()
				var workers sync.WaitGroup
				for i := range 12 {
					workers.Go(func() {
						ctx := InLane(ctx, Lane(i%int(lanes)))
						for ctx.Err() == nil {
							use, done := ctx, func() {}
							if i%2 == 0 { // takes two, uses none to two, and not at once
								var inner context.Context
								inner, done = context.WithCancel(ctx)
								var err error
								if use, err = p.permits.grant(inner, 2); err != nil {
									done()
									continue
								}
								time.Sleep(some(8 * time.Second))
							}
							for range some(3) {
								p.RoundTrip(transporttest.Request(t, use, http.MethodGet, transporttest.PagePath, ""))
							}
							done()
							if some(10) == 0 { // a quiet time, in which the bucket fills
								time.Sleep(some(20 * time.Second))
							}
						}
					})
				}
				workers.Wait()

				slices.SortFunc(arrivals, time.Time.Compare)
				most := 0
				for i, from := range arrivals {
					n := 0
					for _, at := range arrivals[i:] {
						if at.Sub(from) >= window {
							break
						}
						n++
					}
					most = max(most, n)
				}
				if most > perSecond*60 {
					t.Errorf("%d requests within a minute, want at most %d", most, perSecond*60)
				}
				if least := minutes * perSecond * 60 * 8 / 10; len(arrivals) < least {
					t.Errorf("%d requests in %d minutes, want at least %d", len(arrivals), minutes, least)
				}
			})
		})
	}
}

// The worst that a fixed window can meet: after a quiet time, all that is held and
// all that is left at once, then as fast as it goes.
func TestBurstThenSteady(t *testing.T) {
	for held := range 6 {
		t.Run(fmt.Sprint(held, " held"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				p := paced(t, 3, 10, func(*http.Request) (*http.Response, error) { sent++; return transporttest.Reply(200, "{}"), nil })
				var grants []context.Context
				for range held {
					ctx, err := p.permits.grant(t.Context(), 2)
					if err != nil {
						t.Fatal(err)
					}
					grants = append(grants, ctx)
				}
				time.Sleep(5 * time.Second)
				for _, ctx := range grants {
					p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, ""))
					p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, ""))
				}
				if sent != 2*held {
					t.Fatalf("sent %d with permits, want %d", sent, 2*held)
				}
				ctx, cancel := context.WithTimeout(t.Context(), window+jitterAllowance)
				defer cancel()
				for {
					if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
						break
					}
				}
				if sent < 178 || sent > 180 {
					t.Errorf("sent %d in a minute and a little, want 178 to 180", sent)
				}
			})
		})
	}
}

// order has n requests wait in each of the given lanes and returns the lanes in
// the order in which they were served.
func order(t *testing.T, p *pace, want int, waiting map[Lane]int) []Lane {
	t.Helper()
	var mu sync.Mutex
	var served []Lane
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for lane, n := range waiting {
		for range n {
			group.Go(func() {
				if err := p.permits.admit(InLane(ctx, lane), time.Time{}); err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if served = append(served, lane); len(served) == want {
					cancel()
				}
			})
		}
	}
	group.Wait()
	return served[:want]
}

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		served := order(t, p, 120, map[Lane]int{LaneClaim: 120, LaneLog: 120, LaneSync: 120})
		for lane, every := range map[Lane]int{LaneLog: 4, LaneSync: 40} {
			since := 0
			for i, l := range served {
				if since++; since > every {
					t.Fatalf("at permit %d, the %s lane had waited for %d: %v", i, lane, since, served)
				}
				if l == lane {
					since = 0
				}
			}
		}
		claims := len(slices.DeleteFunc(served, func(l Lane) bool { return l != LaneClaim }))
		if claims < 84 {
			t.Errorf("the claim lane got %d of 120 permits, want the rest", claims)
		}
	})
}

func TestLowerLaneHasWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		served := order(t, p, 5, map[Lane]int{LaneSync: 3, LaneClaim: 2})
		if want := []Lane{LaneClaim, LaneClaim, LaneSync, LaneSync, LaneSync}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				_, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodPatch, transporttest.PagePath, "{}"))
				failed, isFailed := errors.AsType[*SendError](err)
				if !isFailed || failed.Landed != claim.LandedNo || !errors.Is(err, context.Canceled) {
					t.Errorf("err = %v, want one that says that it did not land", err)
				}
			})
			group.Go(func() {
				if _, err := p.permits.grant(ctx, 2); !errors.Is(err, context.Canceled) {
					t.Errorf("err = %v, want that of the context", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		group.Wait()
		if n, _ := p.permits.waiting(); n != [lanes]int{} {
			t.Errorf("still waiting: %v", n)
		}
		// Nothing was lost: the next gets the next permit.
		start := time.Now()
		drain(t, p, 1)
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("the next request waited %s", took)
		}
	})
}

// Whoever is served at the very moment at which it turns away leaves its permit to
// the next.
func TestPermitOfThoseWhoTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() {
			if err := p.permits.admit(ctx, time.Time{}); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v, want that of the context", err)
			}
		})
		synctest.Wait()
		p.permits.mu.Lock()
		cancel() // wakes the waiter, which now waits for the mutex
		p.permits.spare++
		p.permits.serve()
		p.permits.mu.Unlock()
		waiter.Wait()

		start := time.Now()
		drain(t, p, 1)
		if took := time.Since(start); took != 0 {
			t.Errorf("the next request waited %s, want the permit left behind", took)
		}
	})
}

func TestRatesThatMakeNoSense(t *testing.T) {
	for _, tc := range []struct {
		perSecond float64
		burst     int
		names     string
	}{
		{0, 10, "notion.rate"}, {-1, 10, "notion.rate"}, {math.NaN(), 10, "notion.rate"},
		{3, 1, "notion.burst"}, {3, 0, "notion.burst"}, {0.1, 10, "notion.burst"}, {3, 180, "notion.burst"},
	} {
		if _, err := newPermits(tc.perSecond, tc.burst, halfway); err == nil || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("newPermits(%g, %d): err = %v, want one that names %s", tc.perSecond, tc.burst, err, tc.names)
		}
	}
	p, err := newPermits(3, 10, halfway)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 11} {
		if _, err := p.grant(t.Context(), n); err == nil {
			t.Errorf("grant(%d) succeeded", n)
		}
	}
}

// A change of the rate holds from the moment it is made, for those who wait, too.
func TestRateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 1, 10, fine)
		drain(t, p, 10)
		if now, most := p.permits.room(); now != 0 || most != 10 {
			t.Errorf("room for %d of %d, want 0 of 10", now, most)
		}
		begin := time.Now()
		if err := p.permits.setRate(100, 20); err != nil {
			t.Fatal(err)
		}
		drain(t, p, 100)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("100 requests at 100 a second took %v", took)
		}
		time.Sleep(time.Minute)
		if now, most := p.permits.room(); now != 20 || most != 20 {
			t.Errorf("room for %d of %d, want all of 20", now, most)
		}
		if err := p.permits.setRate(1, 2); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		drain(t, p, 32)
		if took := time.Since(begin); took < 30*time.Second {
			t.Errorf("32 requests at one a second took %v", took)
		}
		if err := p.permits.setRate(0, 2); err == nil {
			t.Error("a rate of nothing was accepted")
		}
	})
}

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
