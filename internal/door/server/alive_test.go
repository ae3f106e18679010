package server_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

// TestConnectionKeepsAClaim follows a claim on a connection, to its end.
func TestConnectionKeepsAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		f.broker.act = func(what, id string, with any) (api.Claim, error) {
			if what != "connect" || id != string(claimID) || with != "60s" {
				t.Errorf("the broker was asked to %s %v, %v", what, id, with)
			}
			return held(), nil
		}
		f.broker.events = reads(t, reading(api.EventFilter{After: -1}, 0, 16))
		looks := 0
		f.broker.watch = func(in api.GetClaimInput) (api.Claim, error) {
			c := held()
			if looks++; looks == 2 {
				c.State, c.Outcome, c.Event = claim.Ended, claim.EndLost, &lost
			}
			if in.ID != string(claimID) || in.After != 16 || in.Wait != "15s" {
				t.Errorf("the broker was asked to watch %+v", in)
			}
			return c, nil
		}
		got := f.must("GET", "/v1/claims/"+string(claimID)+"/alive?agent=Sandman&grace=60s", "")
		if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("answer %d, %v", got.status, got.header)
		}
		if n := strings.Count(got.body, "event: claim\ndata: {"); n != 2 || !strings.Contains(got.body, ": alive\n\n") ||
			!strings.Contains(got.body, `"state":"ended"`) || !strings.Contains(got.body, lostJSON) {
			t.Errorf("stream:\n%s\nwant the claim, a sign of life, and the claim as it ended", got.body)
		}
		if synctest.Wait(); !f.broker.left.Load() {
			t.Error("the connection is still said to be there")
		}
	})
}

func TestKeepersRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		method, path, body, want string
	}{
		"no process":       {"POST", "/v1/claims", `{"agent":"Sandman","pid":4194305}`, "body.pid: "},
		"none at all":      {"POST", "/v1/claims", `{"agent":"Sandman","pid":0}`, "body.pid: "},
		"a grace alone":    {"POST", "/v1/claims", `{"agent":"Sandman","grace_seconds":5}`, "body.grace_seconds: "},
		"too long a grace": {"POST", "/v1/claims", `{"agent":"Sandman","pid":1,"grace_seconds":3601}`, "body.grace_seconds: "},
		"a renewal":        {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","pid":4194305}`, "body.pid: "},
		"nobody to adopt":  {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","orphaned":true}`, "body.orphaned: "},
		"no time":          {"GET", "/v1/claims/mine/alive?agent=Sandman&grace=soon", "", "query.grace: "},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := start(t)
			f.broker.real = true
			got := f.must(tt.method, tt.path, tt.body)
			if got.status != 422 || !strings.Contains(got.body, tt.want) {
				t.Errorf("answered %d %s, want 422 with %s", got.status, got.body, tt.want)
			}
		})
	}
}

// TestProcessKeepsAClaim names this process.
func TestProcessKeepsAClaim(t *testing.T) {
	me, err := keepers.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"agent":"Sandman","pid":` + strconv.Itoa(os.Getpid()) + `,"grace_seconds":60}`
	for _, path := range []string{"/v1/claims", "/v1/claims/mine/renew"} {
		inBubble(t, path, func(t *testing.T) {
			f := start(t)
			var by broker.Caller
			f.broker.claim = func(_ context.Context, who broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
				by = who
				return held(), nil
			}
			f.broker.act = func(_, _ string, with any) (api.Claim, error) {
				by = with.(broker.Caller)
				return held(), nil
			}
			if got := f.must("POST", path, body); got.status >= 300 || by.Process != me {
				t.Errorf("answered %d %s, to be kept by %v", got.status, got.body, by.Process)
			}
		})
	}
}
