package server_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/server/servertest"
)

// TestConnectionKeepsAClaim follows a claim on a connection, to its end.
func TestConnectionKeepsAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		ref := broker.Ref{Claim: string(claimID)}
		ended := held()
		ended.State, ended.Ending = claim.Ended, claim.EndLost
		watching := func(after int64, w servertest.Watched) servertest.Call {
			return servertest.Call{Method: "Watch", Args: []any{ref, after, 15 * time.Second}, Result: w}
		}
		f.broker.Expect(
			allowed("Sandman"), found(broker.Ref{Claim: string(claimID), Agent: "Sandman"}),
			servertest.Call{Method: "Connect", Args: []any{broker.Ref{Claim: string(claimID), Agent: "Sandman"}, time.Minute}, Result: held()},
			reading(api.EventFilter{After: -1}, 0, 16),
			watching(16, servertest.Watched{Claim: held()}),
			watching(16, servertest.Watched{Claim: ended, Event: &lost}),
			servertest.Call{Method: "leave", Args: []any{claimID}},
		)
		got := f.must("GET", "/v1/claims/"+string(claimID)+"/alive?agent=Sandman&grace=60s", "")
		if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("answer %d, %v", got.status, got.header)
		}
		if n := strings.Count(got.body, "event: claim\ndata: {"); n != 2 || !strings.Contains(got.body, ": alive\n\n") ||
			!strings.Contains(got.body, `"state":"ended"`) || !strings.Contains(got.body, lostJSON) {
			t.Errorf("stream:\n%s\nwant the claim, a sign of life, and the claim as it ended", got.body)
		}
	})
}

func TestKeepersRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		method, path, body, want string
		before                   []servertest.Call
	}{
		"no process":       {"POST", "/v1/claims", `{"agent":"Sandman","pid":4194305}`, "body.pid: ", []servertest.Call{allowed("Sandman")}},
		"none at all":      {"POST", "/v1/claims", `{"agent":"Sandman","pid":0}`, "body.pid: ", nil},
		"a grace alone":    {"POST", "/v1/claims", `{"agent":"Sandman","grace_seconds":5}`, "body.grace_seconds: ", []servertest.Call{allowed("Sandman")}},
		"too long a grace": {"POST", "/v1/claims", `{"agent":"Sandman","pid":1,"grace_seconds":3601}`, "body.grace_seconds: ", nil},
		"a renewal":        {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","pid":4194305}`, "body.pid: ", nil},
		"nobody to adopt":  {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","orphaned":true}`, "body.orphaned: ", nil},
		"no time":          {"GET", "/v1/claims/mine/alive?agent=Sandman&grace=soon", "", "query.grace: ", nil},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(tt.before...)
			got := f.must(tt.method, tt.path, tt.body)
			if got.status != 422 || !strings.Contains(got.body, tt.want) {
				t.Errorf("answered %d %s, want 422 with %s", got.status, got.body, tt.want)
			}
		})
	}
}

// TestProcessKeepsAClaim names this process.
func TestProcessKeepsAClaim(t *testing.T) {
	me, err := alive.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	keeper := alive.Keeper{Process: me, Grace: time.Minute}
	body := `{"agent":"Sandman","pid":` + strconv.Itoa(os.Getpid()) + `,"grace_seconds":60}`
	inBubble(t, "claim", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(allowed("Sandman"), servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman", Keeper: keeper}}, Result: held()})
		if got := f.must("POST", "/v1/claims", body); got.status != 201 {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	})
	inBubble(t, "renew", func(t *testing.T) {
		f := start(t)
		mine := broker.Ref{Agent: "Sandman"}
		f.broker.Expect(allowed("Sandman"), found(mine), servertest.Call{Method: "Keep", Args: []any{broker.Ref{Claim: string(claimID), Agent: "Sandman"}, keeper}, Result: held()})
		if got := f.must("POST", "/v1/claims/mine/renew", body); got.status != 200 {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	})
	inBubble(t, "adopt", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(allowed("Sandman"), found(broker.Ref{Agent: "Sandman"}),
			servertest.Call{Method: "Adopt", Args: []any{broker.Ref{Claim: string(claimID), Agent: "Sandman"}, keeper}, Result: held()})
		if got := f.must("POST", "/v1/claims/mine/renew", strings.Replace(body, "{", `{"orphaned":true,`, 1)); got.status != 200 {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	})
}
