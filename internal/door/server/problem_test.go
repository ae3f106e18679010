package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// problemIn reads a problem document, and checks that it looks like one.
func problemIn(t *testing.T, a answer) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("the body is no problem: %v: %q", err, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if p.Status != a.status || p.Type != "urn:dibs:problem:"+string(p.Code) || p.Title == "" || p.Detail == "" || strings.Contains(p.Detail, "\n") {
		t.Errorf("answer with status %d is no proper problem: %s", a.status, a.body)
	}
	return p
}

// TestRefused says why nothing is done, and when to ask again.
func TestRefused(t *testing.T) {
	lost := &claim.Lost{Claim: claim.Hold{ID: claimID, Agent: "Sandman"}, Holder: "Oracle", Detail: "taken over"}
	for name, tt := range map[string]struct {
		err    error
		status int
		code   api.Code
		retry  string
	}{
		"denied":         {fmt.Errorf("claiming: %w", denial(claim.CodeHeld)), 409, api.Code(claim.CodeHeld), ""},
		"Notion away":    {denial(claim.CodeNotionUnavailable), 503, api.Code(claim.CodeNotionUnavailable), "5"},
		"too often":      {&reserve.Full{Detail: "too much", RetryAfter: 4 * time.Second}, 429, api.Code(claim.CodeLimitReached), "4"},
		"lost":           {lost, 409, api.CodeClaimLost, ""},
		"the daemon's":   {broker.ErrStopping, 503, api.CodeStopping, "1"},
		"a problem":      {api.NewProblem(api.CodeOtherMachine, "x"), 422, api.CodeOtherMachine, ""},
		"anything else":  {errors.New("disk full\n\tof logs"), 500, api.CodeInternal, ""},
		"the journal's":  {&claim.JournalError{RetryAfter: 7 * time.Second, Err: errors.New("away")}, 503, api.Code(claim.CodeJournalUnavailable), "7"},
		"the protocol's": {claim.ErrStopped, 503, api.CodeStopping, "1"},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := start(t)
			f.broker.claim = refused(tt.err)
			got := f.must("POST", "/v1/claims", claimBody)
			if p := problemIn(t, got); got.status != tt.status || p.Code != tt.code || got.header.Get("Retry-After") != tt.retry {
				t.Errorf("answered %d %s, Retry-After %q; want %d %s, %q", got.status, got.body, got.header.Get("Retry-After"), tt.status, tt.code, tt.retry)
			}
			if logged := strings.Contains(f.logged(), "level=ERROR"); logged != (tt.status == 500) {
				t.Errorf("logged as an error: %v: %s", logged, f.logged())
			}
		})
	}
}

// TestNotMeant has an agent that names no claim lose one: the refusal names what it holds beside.
func TestNotMeant(t *testing.T) {
	for n, want := range []string{"", "; nothing was done to \"Write the <README>\", which Sandman holds too: name it if you mean it", "; nothing was done to the 2 tasks that Sandman holds too: name the one you mean"} {
		inBubble(t, fmt.Sprint(n), func(t *testing.T) {
			f := start(t)
			f.broker.claims = slices.Repeat([]api.Claim{held()}, n)
			f.broker.act = func(string, string, any) (api.Claim, error) {
				return api.Claim{}, &claim.Lost{Claim: claim.Hold{ID: claimID, Agent: "Sandman"}, Detail: "taken over"}
			}
			p := problemIn(t, f.must("POST", "/v1/claims/mine/complete", claimBody))
			if p.Code != api.CodeClaimLost || len(p.Claims) != n || !strings.HasSuffix(p.Detail, "taken over"+want) {
				t.Errorf("answered %+v", p)
			}
		})
	}
}

// TestWhoMayAct checks that nothing is done in a name that may not be used.
func TestWhoMayAct(t *testing.T) {
	for _, tt := range []struct{ name, path, body, may string }{
		{"claim", "/v1/claims", `{"agent":"Oracle"}`, "Sandman"},
		{"somebody's claim", "/v1/claims/" + string(claimID) + "/complete", "", "Oracle"},
		{"in somebody's name", "/v1/claims/" + string(claimID) + "/renew", `{"agent":"Oracle"}`, "Sandman"},
		{"somebody's claim, in one's own name", "/v1/claims/" + string(claimID) + "/fail", `{"agent":"Oracle"}`, "Oracle"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.only(tt.may)
			f.broker.act = func(what, _ string, _ any) (api.Claim, error) {
				t.Errorf("%s was done", what)
				return held(), nil
			}
			got := f.must("POST", tt.path, tt.body)
			if p := problemIn(t, got); got.status != 403 || p.Code != api.CodeForbiddenAgent || f.broker.claimed.Load() > 0 {
				t.Errorf("answered %d %s, want 403 forbidden_agent", got.status, got.body)
			}
		})
	}
}

// TestLookupFails checks that nothing is done to a claim that was not found.
func TestLookupFails(t *testing.T) {
	inBubble(t, "unknown", func(t *testing.T) {
		f := start(t)
		f.broker.lookup = func(string, string) (api.Claim, error) { return api.Claim{}, claim.ErrUnknownClaim }
		f.broker.act = func(what, _ string, _ any) (api.Claim, error) {
			t.Errorf("%s was done", what)
			return held(), nil
		}
		if got := f.must("POST", "/v1/claims/"+string(taskID)+"/release", ""); got.status != 404 {
			t.Errorf("answered %d %s, want 404", got.status, got.body)
		}
	})
}

func TestQuestionsFail(t *testing.T) {
	inBubble(t, "status", func(t *testing.T) {
		f := start(t)
		f.broker.status = func() (api.Status, error) { return api.Status{}, errors.New("disk full") }
		got := f.must("GET", "/v1/status", "")
		if p := problemIn(t, got); got.status != 500 || p.Code != api.CodeInternal {
			t.Errorf("answered %d %s, want 500 internal", got.status, got.body)
		}
	})
}

func TestPanic(t *testing.T) {
	inBubble(t, "panic", func(t *testing.T) {
		f := start(t)
		f.broker.status = func() (api.Status, error) { panic("conversion") }
		got := f.must("GET", "/v1/status", "")
		if p := problemIn(t, got); got.status != 500 || p.Code != api.CodeInternal || strings.Contains(got.body, "conversion") {
			t.Errorf("answered %d %s, want 500 internal and no insides", got.status, got.body)
		}
		if !strings.Contains(f.logged(), "level=ERROR") || !strings.Contains(f.logged(), "problem_test.go") {
			t.Errorf("the log lacks the panic: %s", f.logged())
		}
	})
}
