package emulator_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

func TestRateLimitWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, emulator.Options{Limit: 5})
		burst := func() (ok int, last reply) {
			for range 7 {
				if last = a.do("GET", "/v1/users/me", nil); last.status == http.StatusOK {
					ok++
				}
			}
			return ok, last
		}
		time.Sleep(7 * time.Second) // the window starts with the first request, not with the server
		ok, refused := burst()
		if ok != 5 {
			t.Errorf("%d requests allowed at once, want 5", ok)
		}
		if refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") != "60" || refused.body["code"] != "rate_limited" {
			t.Errorf("refused with %d, Retry-After %s: %s", refused.status, refused.header.Get("Retry-After"), refused.text)
		}
		want := object{"rate_limit_reason": "public_api_request_rate_limit", "retry_after": "60"}
		if diff := cmp.Diff(want, refused.body["additional_data"]); diff != "" {
			t.Errorf("additional_data (-want +got):\n%s", diff)
		}

		time.Sleep(20*time.Second + 300*time.Millisecond)
		if r := a.do("GET", "/v1/users/me", nil); r.header.Get("Retry-After") != "40" || at(r.body, "additional_data", "retry_after") != "40" {
			t.Errorf("20.3 s into the window, Retry-After is %s, want 40", r.header.Get("Retry-After"))
		}
		time.Sleep(39*time.Second + 699*time.Millisecond)
		if r := a.do("GET", "/v1/users/me", nil); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "1" {
			t.Errorf("a millisecond before the window's end: %d, Retry-After %s", r.status, r.header.Get("Retry-After"))
		}
		time.Sleep(time.Millisecond)
		if ok, _ := burst(); ok != 5 {
			t.Errorf("%d requests allowed in the next window, want 5", ok)
		}
		// Windows follow each other without gaps, even unused ones.
		time.Sleep(90 * time.Second)
		burst()
		time.Sleep(30 * time.Second)
		if ok, _ := burst(); ok != 5 {
			t.Errorf("%d requests allowed 180 s after the first, want 5", ok)
		}
	})
}

func TestOnlyRequestsOfTheTokenCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, emulator.Options{Limit: 1})
		stranger := *a
		stranger.token = "wrong"
		for range 5 {
			stranger.do("GET", "/v1/users/me", nil)
		}
		if _, err := a.e.Seed("demo"); err != nil {
			t.Fatal(err)
		}
		a.ok("GET", "/v1/users/me", nil)
		a.refused("GET", "/v1/users/me", nil, http.StatusTooManyRequests, "rate_limited", "")
	})
}
