package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
)

// What a user may ask for without end is bounded, all together: so many at once, then one
// every so often. The refusal says when to go on, and is not remembered under the key. Every
// operation that writes says what meters it.
func TestOwingIsBounded(t *testing.T) {
	requests := []struct{ path, body string }{
		{"/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hello"}`},
		{"/v1/messages", `{"to":"all","text":"hello"}`},
		{"/v1/tasks", `{"title":"Write"}`},
		{"/v1/tasks/" + string(taskID) + "/comments", `{"agent":"Sandman","text":"hello"}`},
		{"/v1/tasks/" + string(taskID) + "/offer", `{"agent":"Sandman","to":"Oracle"}`},
		{"/v1/tasks/" + string(taskID) + "/decline", `{"agent":"Sandman"}`},
		{"/v1/tasks/" + string(taskID) + "/reopen", `{}`},
		{"/v1/reopen", `{"failed_by":"Sandman"}`},
		{"/v1/pause", `{"agent":"Sandman"}`},
	}
	asks := []*api.Operation{api.OpCheck.Operation} // which is no GET, and writes nothing
	for _, op := range api.Operations() {
		if writes := (op.Method != http.MethodGet || op.Changes) && !slices.Contains(asks, op); writes != (op.Meter != "") {
			t.Errorf("%s: that it writes is %v, and what meters it is %q", op.Pattern(), writes, op.Meter)
		}
		asked := slices.ContainsFunc(requests, func(r struct{ path, body string }) bool {
			return api.OperationOf(httptest.NewRequest(http.MethodPost, r.path, nil)) == op
		})
		if metered := op.Meter == api.ByQuota; metered != asked {
			t.Errorf("%s is metered by the user's quota: %v, and asked for here: %v", op.Pattern(), metered, asked)
		}
	}
	inBubble(t, "bounds", func(t *testing.T) {
		f := start(t)
		done := 0
		f.broker.owing = func(string, broker.Caller) error {
			done++
			return nil
		}
		for i := range 200 {
			r := requests[i%len(requests)]
			if got := f.must("POST", r.path, r.body); got.status >= 300 {
				t.Fatalf("%d, %s: answered %d %s", i, r.path, got.status, got.body)
			}
		}
		for i, r := range requests {
			key := fmt.Sprint("key", i)
			got := f.must("POST", r.path, r.body, api.KeyHeader, key)
			p := problemIn(t, got)
			if got.status != 429 || p.Code != api.Code(claim.CodeLimitReached) || p.RetryAfter != 2 || got.header.Get("Retry-After") != "2" {
				t.Errorf("%s: answered %d %v %s", r.path, got.status, got.header, got.body)
			}
			if done != 200+i {
				t.Fatalf("%s: %d were done, want %d", r.path, done, 200+i)
			}
			time.Sleep(time.Duration(p.RetryAfter) * time.Second)
			if got := f.must("POST", r.path, r.body, api.KeyHeader, key); got.status >= 300 {
				t.Errorf("%s, after the wait: answered %d %s", r.path, got.status, got.body)
			}
		}
		// An answer that was given is given again at any time, and counts for nothing.
		if got := f.must("POST", requests[0].path, requests[0].body, api.KeyHeader, "key0"); got.header.Get(api.ReplayedHeader) != "true" {
			t.Errorf("a repetition was answered %d %s", got.status, got.body)
		}
		// Nothing else is held up.
		if got := f.must("POST", "/v1/claims/"+string(claimID)+"/release", ""); got.status >= 300 {
			t.Errorf("a release was answered %d %s", got.status, got.body)
		}
	})
}
