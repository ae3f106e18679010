package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"

	"dibs/internal/notion/transport/transporttest"
)

// limited answers the first request with a rate limit, then everything.
func limited(status int, body string, headers ...string) (transporttest.Server, func() []time.Time) {
	var mu sync.Mutex
	var sent []time.Time
	return func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if sent = append(sent, time.Now()); len(sent) == 1 {
			return transporttest.Reply(status, body, headers...), nil
		}
		return transporttest.Reply(200, "{}"), nil
	}, func() []time.Time { mu.Lock(); defer mu.Unlock(); return sent }
}

func TestRetryAfterPausesEverything(t *testing.T) {
	for _, status := range []int{429, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, sent := limited(status, "", "Retry-After", "90")
				p := paced(t, 3, 10, server)
				granted, err := p.permits.grant(t.Context(), 2)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")); err == nil {
					t.Fatal("no error from a limited request")
				}

				var group sync.WaitGroup
				for _, ctx := range []context.Context{t.Context(), InLane(t.Context(), LaneSync)} {
					group.Go(func() { // reads wait
						if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
							t.Errorf("a read: %v", err)
						}
					})
				}
				group.Go(func() { // and so does the entry of a log
					if _, err := p.RoundTrip(transporttest.Request(t, InLane(t.Context(), LaneLog), http.MethodPost, "/v1/pages", "{}")); err != nil {
						t.Errorf("a log entry: %v", err)
					}
				})
				for _, req := range []*http.Request{ // a write does not, nor what an agent waits for
					transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"),
					transporttest.Request(t, granted, http.MethodPatch, transporttest.PagePath, "{}"),
					transporttest.Request(t, granted, http.MethodGet, transporttest.PagePath, ""),
				} {
					_, err := p.RoundTrip(req)
					failed, isFailed := errors.AsType[*SendError](err)
					if !isFailed || failed.Landed != claim.LandedNo ||
						failed.RetryAfter < 90*time.Second || failed.RetryAfter > 99*time.Second {
						t.Errorf("%s: %v, want that it was not sent, and when to try again", req.Method, err)
					}
				}
				// Nor does what a person waits for.
				for _, ctx := range []context.Context{Impatient(t.Context()), WithoutPermits(granted), Patient(t.Context(), time.Minute)} {
					if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); !errors.Is(err, errHeldBack) {
						t.Errorf("a read of somebody who waits: %v", err)
					}
				}
				// Nor does what would be too late.
				soon, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := p.RoundTrip(transporttest.Request(t, soon, http.MethodGet, transporttest.PagePath, "")); !errors.Is(err, errHeldBack) {
					t.Errorf("a read without the time to wait: %v", err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("to be refused took %s", took)
				}
				group.Wait()
				times := sent()
				if len(times) != 4 {
					t.Errorf("%d requests were sent, want 4", len(times))
				}
				for _, at := range times[1:] {
					if waited := at.Sub(start); waited < 90*time.Second || waited > 99*time.Second {
						t.Errorf("sent after %s, want 90s or a little more", waited)
					}
				}
			})
		})
	}
}

// Those who are waiting when a pause begins are treated like those who come later.
func TestPauseReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		var group sync.WaitGroup
		start := time.Now()
		group.Go(func() {
			_, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
			if !errors.Is(err, errHeldBack) || time.Since(start) != 0 {
				t.Errorf("a write: %v after %s", err, time.Since(start))
			}
		})
		group.Go(func() {
			_, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			if err != nil || time.Since(start) < time.Minute {
				t.Errorf("a read: %v after %s", err, time.Since(start))
			}
		})
		synctest.Wait()
		p.permits.pause(time.Minute)
		group.Wait()
	})
}

// A read that is sent again takes its permit anew together with the one that its
// write will need.
func TestRetriedReadKeepsThePermitOfItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, sent := limited(502, "")
		p := paced(t, 3, 10, server)
		chain := &retry{next: p, base: 500 * time.Millisecond, jitter: halfway}
		ctx, err := p.permits.grant(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var others sync.WaitGroup
		for range 30 {
			others.Go(func() {
				if err := p.permits.admit(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
		read := time.Now()
		if _, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodPatch, transporttest.PagePath, "{}")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(read); waited != 0 || len(sent()) != 3 {
			t.Errorf("the write waited %s after its read, of %d requests", waited, len(sent()))
		}
		others.Wait()
	})
}

func TestLengthOfPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := transporttest.Failure("rate_limited", "no", map[string]any{"rate_limit_reason": reasonBlocked})
		answer := transporttest.Reply(429, "")
		p := paced(t, 3, 10, func(*http.Request) (*http.Response, error) { return answer, nil })
		for i, tc := range []struct {
			answer *http.Response
			want   time.Duration
		}{
			{transporttest.Reply(429, ""), 5 * time.Second},
			{transporttest.Reply(429, ""), 10 * time.Second},
			{transporttest.Reply(529, "", "Retry-After", "soon"), 20 * time.Second},
			{transporttest.Reply(200, "{}"), 0},
			{transporttest.Reply(429, ""), 5 * time.Second},
			{transporttest.Reply(429, blocked), time.Minute},
			{transporttest.Reply(429, blocked, "Retry-After", "120"), 2 * time.Minute},
			{transporttest.Reply(429, ""), 40 * time.Second},
			{transporttest.Reply(429, ""), time.Minute},
			{transporttest.Reply(429, ""), time.Minute},
		} {
			answer = tc.answer
			p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			start := time.Now()
			if err := p.permits.admit(t.Context(), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < tc.want || took > tc.want+tc.want/10+400*time.Millisecond {
				t.Errorf("pause %d took %s, want %s or a little more", i, took, tc.want)
			}
		}
	})
}
