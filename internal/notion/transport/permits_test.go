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

	"github.com/google/go-cmp/cmp"
)

// halfway is the jitter that has no luck in it.
func halfway(n time.Duration) time.Duration { return n / 2 }

// paced is a paced transport in front of a server that answers everything.
func paced(t *testing.T, perSecond float64, burst int, server transporttest.Server) *pace {
	t.Helper()
	return &pace{next: &typed{next: server}, permits: need(newPermits(perSecond, burst, halfway))(t), log: slog.New(slog.DiscardHandler)}
}

// inPace runs a test in a bubble, with a paced transport of 3 a second and a burst of 10, of which so
// many are used.
func inPace(t *testing.T, used int, test func(t *testing.T, p *pace)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, used)
		test(t, p)
	})
}

// ask sends a request for a page, and returns how it failed.
func ask(t testing.TB, over http.RoundTripper, ctx context.Context, method string) error {
	t.Helper()
	_, err := over.RoundTrip(transporttest.Request(t, ctx, method, transporttest.PagePath, map[bool]string{true: "{}"}[method == http.MethodPatch]))
	return err
}

// drain uses up the burst.
func drain(t *testing.T, p *pace, n int) {
	t.Helper()
	for range n {
		must(t, ask(t, p, t.Context(), http.MethodGet))
	}
}

// took checks how long something took since then.
func took(t testing.TB, since time.Time, least, most time.Duration, what string) {
	t.Helper()
	if d := time.Since(since); d < least || d > most {
		t.Errorf("%s took %s, want %s to %s", what, d, least, most)
	}
}

// forever is longer than any test.
const forever = 1000 * time.Hour

// must fails the test over an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// need returns a value, or fails the test over the error beside it.
func need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// same compares two values; what says of what they are.
func same(t testing.TB, want, got any, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
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
								ask(t, p, use, http.MethodGet)
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
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			p := paced(t, 3, 10, func(*http.Request) (*http.Response, error) { sent++; return transporttest.Reply(200, "{}"), nil })
			var grants []context.Context
			for range held {
				grants = append(grants, need(p.permits.grant(t.Context(), 2))(t))
			}
			time.Sleep(5 * time.Second)
			for _, ctx := range grants {
				must(t, ask(t, p, ctx, http.MethodGet))
				must(t, ask(t, p, ctx, http.MethodGet))
			}
			ctx, cancel := context.WithTimeout(t.Context(), window+jitterAllowance)
			defer cancel()
			for ask(t, p, ctx, http.MethodGet) == nil {
			}
			if sent < 178 || sent > 180 {
				t.Errorf("%d held: sent %d in a minute and a little, want 178 to 180", held, sent)
			}
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
	inPace(t, 10, func(t *testing.T, p *pace) {
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
	inPace(t, 10, func(t *testing.T, p *pace) {
		served := order(t, p, 5, map[Lane]int{LaneSync: 3, LaneClaim: 2}) // the lower lane has what is left
		same(t, []Lane{LaneClaim, LaneClaim, LaneSync, LaneSync, LaneSync}, served, "served")
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	inPace(t, 10, func(t *testing.T, p *pace) {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				err := ask(t, p, ctx, http.MethodPatch)
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
		took(t, start, 0, 400*time.Millisecond, "the next request")
	})
}

// Whoever is served at the very moment at which it turns away leaves its permit to
// the next.
func TestPermitOfThoseWhoTurnAway(t *testing.T) {
	inPace(t, 10, func(t *testing.T, p *pace) {
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
		took(t, start, 0, 0, "the next request, which finds the permit left behind,")
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
	p := need(newPermits(3, 10, halfway))(t)
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
		room := func(wantNow, wantMost int) {
			t.Helper()
			if now, most := p.permits.room(); now != wantNow || most != wantMost {
				t.Errorf("room for %d of %d, want %d of %d", now, most, wantNow, wantMost)
			}
		}
		drain(t, p, 10)
		room(0, 10)
		begin := time.Now()
		must(t, p.permits.setRate(100, 20))
		drain(t, p, 100)
		took(t, begin, 0, 2*time.Second, "100 requests at 100 a second")
		time.Sleep(time.Minute)
		room(20, 20)
		must(t, p.permits.setRate(1, 2))
		begin = time.Now()
		drain(t, p, 32)
		took(t, begin, 30*time.Second, forever, "32 requests at one a second")
		if err := p.permits.setRate(0, 2); err == nil {
			t.Error("a rate of nothing was accepted")
		}
	})
	// A change of the burst turns away those who wait for more than it allows.
	inPace(t, 10, func(t *testing.T, p *pace) {
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := p.permits.grant(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "notion.burst") {
				t.Errorf("err = %v, want one that names the setting", err)
			}
		})
		synctest.Wait()
		must(t, p.permits.setRate(3, 4))
		waiting.Wait()
	})
}

func TestPermitsTakenTogether(t *testing.T) {
	inPace(t, 10, func(t *testing.T, p *pace) {
		ctx := need(p.permits.grant(t.Context(), 2))(t)
		start := time.Now()
		must(t, ask(t, p, ctx, http.MethodGet))
		// Others who wait do not come between.
		go ask(t, p, t.Context(), http.MethodGet)
		synctest.Wait()
		must(t, ask(t, p, ctx, http.MethodPatch))
		took(t, start, 0, 0, "two requests with permits")
		must(t, ask(t, p, ctx, http.MethodGet))
		took(t, start, 300*time.Millisecond, forever, "a third request, which waits for a permit of its own,")
	})
}

func TestUnusedPermitsComeBack(t *testing.T) {
	inPace(t, 0, func(t *testing.T, p *pace) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = need(p.permits.grant(ctx, 10))(t)
		cancel()
		synctest.Wait()
		start := time.Now()
		drain(t, p, 10)
		if took(t, start, 0, 0, "ten requests"); grantOf(ctx).held {
			t.Error("the permits are still held")
		}
	})
}

// Permits that are held and not used make the others wait, until they are given back.
func TestHeldPermitsAreNotHandedOutTwice(t *testing.T) {
	inPace(t, 0, func(t *testing.T, p *pace) {
		for i := range time.Duration(5) {
			ctx, cancel := context.WithTimeout(t.Context(), i*time.Second+3*time.Second)
			defer cancel()
			need(p.permits.grant(ctx, 2))(t)
		}
		start := time.Now()
		drain(t, p, 1)
		took(t, start, 3*time.Second, 3*time.Second, "until the first permits were given back, the request")
	})
}

// Who holds permits and waits for another does not make everybody wait for good.
func TestHoldersWhoWaitForEachOther(t *testing.T) {
	inPace(t, 0, func(t *testing.T, p *pace) {
		began := time.Now()
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
		took(t, began, 0, 5*time.Minute, "20 of them")
	})
}

// Whoever gives permits back does so for those who wait, at that moment.
func TestPermitsGivenBackAreHandedOn(t *testing.T) {
	inPace(t, 0, func(t *testing.T, p *pace) {
		ctx, giveBack := context.WithCancel(t.Context())
		need(p.permits.grant(ctx, 10))(t)
		start := time.Now()
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				ctx, giveBack := context.WithCancel(t.Context())
				defer giveBack()
				if _, err := p.permits.grant(ctx, 2); err != nil {
					t.Error(err)
				}
				took(t, start, time.Second, time.Second, "until the permits were given back, it")
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
	inPace(t, 0, func(t *testing.T, p *pace) {
		ctx, giveBack := context.WithCancel(t.Context())
		granted := need(p.permits.grant(ctx, 2))(t)
		giveBack()
		synctest.Wait()
		drain(t, p, 10)
		start := time.Now()
		must(t, ask(t, p, context.WithoutCancel(granted), http.MethodGet))
		took(t, start, 300*time.Millisecond, forever, "the request, which waits like the others,")
		time.Sleep(time.Minute)
		if now, most := p.permits.room(); now != most {
			t.Errorf("after a quiet minute there is room for %d of %d", now, most)
		}
	})
}

// Permits that are held are not used in a pause. They are as good as before when it is
// over.
func TestPauseWhilePermitsAreHeld(t *testing.T) {
	inPace(t, 0, func(t *testing.T, p *pace) {
		granted := need(p.permits.grant(t.Context(), 2))(t)
		drain(t, p, 8)
		end := p.permits.pause(time.Second)
		start := time.Now()
		if err := ask(t, p, granted, http.MethodPatch); !errors.Is(err, errHeldBack) {
			t.Errorf("a write in a pause: %v, want it held back", err)
		}
		for _, method := range []string{http.MethodGet, http.MethodPatch} {
			must(t, ask(t, p, granted, method))
			took(t, start, end, end, method+" at the end of the pause")
		}
	})
}
