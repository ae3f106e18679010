package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/reserve"
	"dibs/internal/server/servertest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
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

const denialJSON = `{"type":"urn:dibs:problem:held","title":"The task is held","status":409,"detail":"held by Oracle","code":"held",` +
	`"holder":"Oracle","expires_at":"2026-11-20T12:58:30.000Z","retry_after":91,` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"}}`

func TestDenial(t *testing.T) {
	inBubble(t, "held", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(allowed("Sandman"), servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}}, Err: &claim.Denied{
			Code: claim.CodeHeld, Task: held().Task, Holder: "Oracle", ExpiresAt: noon.Add(time.Hour),
			RetryAfter: 90*time.Second + time.Millisecond, Detail: "held\nby Oracle",
		}})
		got := f.must("POST", "/v1/claims", `{"agent":"Sandman"}`)
		problemIn(t, got)
		if header := got.header.Get("Retry-After"); header != "" {
			t.Errorf("Retry-After = %q on a conflict", header)
		}
		if diff := cmp.Diff(denialJSON+"\n", got.body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	})
	inBubble(t, "limit reached, with what is held", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(allowed("Sandman"), servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}}, Err: &claim.Denied{
			Code: claim.CodeLimitReached, Detail: "too many", Has: []claim.Claim{held()},
		}})
		got := f.must("POST", "/v1/claims", `{"agent":"Sandman"}`)
		if p := problemIn(t, got); p.Code != "limit_reached" || len(p.Claims) != 1 || p.Claims[0].ID != claimID {
			t.Errorf("answered %s, want the claim that is held", got.body)
		}
	})
	inBubble(t, "nothing ready", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(allowed("Sandman"), servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}}, Err: &broker.NothingError{
			Denied:  &claim.Denied{Code: claim.CodeNothingReady, Detail: "no task is ready"},
			Summary: api.Summary{Held: 3, Blocked: 2, NextLeaseEndsAt: api.Time{Time: noon.Add(time.Hour)}},
		}})
		got := f.must("POST", "/v1/claims", `{"agent":"Sandman"}`)
		problemIn(t, got)
		const want = `"code":"nothing_ready","summary":{"held":3,"blocked":2,"dependencies":0,"assigned":0,"cooling_off":0,"filtered":0,"other":0,"next_lease_ends_at":"2026-11-20T12:58:30.000Z"}}`
		if !strings.HasSuffix(got.body, want+"\n") {
			t.Errorf("body %s, want %s at its end", got.body, want)
		}
	})
	for code, status := range map[claim.Code]int{
		claim.CodeHeld:                409,
		claim.CodeNotOpen:             409,
		claim.CodeLostRace:            409,
		claim.CodeBlockedByDependency: 409,
		claim.CodeReserved:            409,
		claim.CodeNothingReady:        409,
		claim.CodeLimitReached:        409,
		claim.CodeNotFound:            404,
		claim.CodeNotionUnavailable:   503,
	} {
		inBubble(t, string(code), func(t *testing.T) {
			f := start(t)
			f.broker.Expect(allowed("Sandman"), servertest.Call{
				Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}},
				Err: fmt.Errorf("claiming: %w", &claim.Denied{Code: code, Detail: "because"}),
			})
			got := f.must("POST", "/v1/claims", `{"agent":"Sandman"}`)
			if p := problemIn(t, got); got.status != status || p.Code != api.Code(code) || p.Detail != "because" {
				t.Errorf("answered %d %s, want %d", got.status, got.body, status)
			}
			if retry := got.header.Get("Retry-After"); (retry == "5") != (status == 503) {
				t.Errorf("Retry-After = %q", retry)
			}
		})
	}
}

// TestErrors gives every error of the broker its answer.
func TestErrors(t *testing.T) {
	lost := held()
	lost.State, lost.Ending = claim.Ended, claim.EndLost
	storeError := func(kind claim.StoreErrorKind, retry time.Duration) error {
		e := claim.Errorf(kind, claim.LandedUnknown, "Notion said so")
		e.RetryAfter = retry
		return fmt.Errorf("renewing: %w", e)
	}
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   api.Problem // Type, Title and Status are not compared
		retry  string
	}{
		{
			name: "lost", err: &claim.Lost{Claim: lost, Holder: "Oracle", Detail: "taken over"}, status: 409,
			want: api.Problem{
				Code: api.CodeClaimLost, Detail: `"Write the <README>" is no longer Sandman's: taken over`,
				Holder: "Oracle",
			},
		},
		{name: "unknown claim", err: fmt.Errorf("%w: X", claim.ErrUnknownClaim), status: 404, want: api.Problem{Code: api.CodeUnknownClaim, Detail: "no claim with that id: X"}},
		{name: "no claim", err: &broker.AmbiguousError{Agent: "Sandman"}, status: 404, want: api.Problem{Code: api.CodeUnknownClaim, Detail: "Sandman holds no claim"}},
		{
			name: "several claims", err: &broker.AmbiguousError{Agent: "Sandman", Claims: []claim.Claim{held(), held()}}, status: 409,
			want: api.Problem{Code: api.CodeAmbiguousClaim, Detail: "Sandman holds 2 tasks, say which one: “Write the <README>”, “Write the <README>”"},
		},
		{name: "invalid", err: &broker.InvalidError{Detail: "no"}, status: 422, want: api.Problem{Code: api.CodeInvalidRequest, Detail: "no"}},
		{name: "forbidden", err: &broker.ForbiddenError{Agent: "Sandman", Detail: "not you"}, status: 403, want: api.Problem{Code: api.CodeForbiddenAgent, Detail: "not you"}},
		{
			name: "reserved", err: &reserve.Taken{Asked: "a.go", Pattern: "*.go", By: reserve.Reservation{ID: "R", Agent: "Oracle"}, Until: noon}, status: 409,
			want: api.Problem{
				Code: api.Code(claim.CodeReserved), Detail: "a.go is reserved by Oracle, by the pattern *.go: work on something else, or ask Oracle to give it back",
				Holder: "Oracle", ExpiresAt: api.Time{Time: noon.Add(-skew)}, Pattern: "*.go", Path: "a.go", Reservation: "R",
			},
		},
		{
			name: "too much reserved", err: &reserve.Full{Detail: "too much", RetryAfter: 4 * time.Second}, status: 429, retry: "4",
			want: api.Problem{Code: api.Code(claim.CodeLimitReached), Detail: "too much", RetryAfter: 4},
		},
		{
			name: "another's reservation", err: &reserve.OthersError{ID: "R", Agent: "Oracle"}, status: 403,
			want: api.Problem{
				Code: api.CodeForbiddenAgent, Detail: "reservation R is Oracle's: ask Oracle to give it back, or wait for its end", Holder: "Oracle", Reservation: "R",
			},
		},
		{
			name: "no such reservation", err: &reserve.UnknownError{ID: "R"}, status: 404,
			want: api.Problem{
				Code:   api.CodeUnknownReservation,
				Detail: "there is no reservation R, or none any longer: somebody else may have what it was for; see dibs reservations",
			},
		},
		{name: "a pattern that cannot be", err: &reserve.InvalidError{Detail: "no"}, status: 422, want: api.Problem{Code: api.CodeInvalidRequest, Detail: "no"}},
		{name: "no such task", err: broker.ErrNoTask, status: 404, want: api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "the daemon knows no such task"}},
		{
			name: "Notion away", err: storeError(claim.Unavailable, 0), status: 503, retry: "5",
			want: api.Problem{Code: api.Code(claim.CodeNotionUnavailable), Detail: "renewing: Notion said so", RetryAfter: 5},
		},
		{
			name: "Notion busy", err: storeError(claim.Unavailable, 61*time.Second), status: 503, retry: "61",
			want: api.Problem{Code: api.Code(claim.CodeNotionUnavailable), Detail: "renewing: Notion said so", RetryAfter: 61},
		},
		{name: "Notion refused", err: storeError(claim.Refused, 0), status: 502, want: api.Problem{Code: api.CodeNotionRefused, Detail: "renewing: Notion said so"}},
		{name: "page gone", err: storeError(claim.NotFound, 0), status: 404, want: api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "renewing: Notion said so"}},
		{name: "page in the trash", err: storeError(claim.Trashed, 0), status: 404, want: api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "renewing: Notion said so"}},
		{
			name: "the journal away", err: fmt.Errorf("renewing: %w", &claim.JournalError{RetryAfter: 5 * time.Second, Err: errors.New("disk full:\tmake room")}), status: 503, retry: "5",
			want: api.Problem{Code: api.Code(claim.CodeJournalUnavailable), Detail: "renewing: disk full: make room", RetryAfter: 5},
		},
		{name: "anything else", err: errors.New("disk full\n\tof logs"), status: 500, want: api.Problem{Code: api.CodeInternal, Detail: "disk full; of logs"}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			byID := broker.Ref{Claim: string(claimID)}
			f.broker.Expect(found(byID), allowed("Sandman"), servertest.Call{Method: "Renew", Args: []any{byID}, Err: tt.err})
			got := f.must("POST", "/v1/claims/"+string(claimID)+"/renew", "")
			p := problemIn(t, got)
			if got.status != tt.status || got.header.Get("Retry-After") != tt.retry {
				t.Errorf("status %d, Retry-After %q; want %d, %q", got.status, got.header.Get("Retry-After"), tt.status, tt.retry)
			}
			if (p.Claim != nil) != (tt.name == "lost") || (p.Task != nil) != (tt.name == "lost") || (len(p.Claims) == 2) != (tt.name == "several claims") {
				t.Errorf("the claims it speaks of: %s", got.body)
			}
			p.Type, p.Title, p.Status, p.Claim, p.Task, p.Claims = "", "", 0, nil, nil, nil
			if diff := cmp.Diff(tt.want, p); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if logged := strings.Contains(f.logged(), "level=ERROR"); logged != (tt.status == 500) {
				t.Errorf("logged as an error: %v: %s", logged, f.logged())
			}
		})
	}
}

// TestWhoMayAct checks that nothing is done in a name that may not be used.
func TestWhoMayAct(t *testing.T) {
	refused := func(agent string) servertest.Call {
		c := allowed(agent)
		c.Err = &broker.ForbiddenError{Agent: agent, Detail: "not for you"}
		return c
	}
	byID := broker.Ref{Claim: string(claimID)}
	for _, tt := range []struct {
		name, path, body string
		calls            []servertest.Call
	}{
		{"claim", "/v1/claims", `{"agent":"Oracle"}`, []servertest.Call{refused("Oracle")}},
		{"somebody's claim", "/v1/claims/" + string(claimID) + "/complete", "", []servertest.Call{found(byID), refused("Sandman")}},
		{"in somebody's name", "/v1/claims/" + string(claimID) + "/renew", `{"agent":"Oracle"}`, []servertest.Call{refused("Oracle")}},
		{
			"somebody's claim, in one's own name", "/v1/claims/" + string(claimID) + "/fail", `{"agent":"Oracle"}`,
			[]servertest.Call{allowed("Oracle"), found(broker.Ref{Claim: string(claimID), Agent: "Oracle"}), refused("Sandman")},
		},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(tt.calls...)
			got := f.must("POST", tt.path, tt.body)
			if p := problemIn(t, got); got.status != 403 || p.Code != api.CodeForbiddenAgent {
				t.Errorf("answered %d %s, want 403 forbidden_agent", got.status, got.body)
			}
		})
	}
}

// TestLookupFails checks that nothing is done to a claim that was not found.
func TestLookupFails(t *testing.T) {
	inBubble(t, "unknown", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(servertest.Call{Method: "Lookup", Args: []any{broker.Ref{Claim: string(taskID)}}, Err: claim.ErrUnknownClaim})
		if got := f.must("POST", "/v1/claims/"+string(taskID)+"/release", ""); got.status != 404 {
			t.Errorf("answered %d %s, want 404", got.status, got.body)
		}
	})
}

func TestQuestionsFail(t *testing.T) {
	for path, call := range map[string]servertest.Call{
		"/v1/claims":                    {Method: "Claims", Args: []any{""}},
		"/v1/claims/" + string(claimID): {Method: "Lookup", Args: []any{broker.Ref{Claim: string(claimID)}}},
		"/v1/tasks":                     {Method: "Tasks", Args: []any{api.TaskFilter{}}},
		"/v1/tasks/" + string(taskID):   {Method: "Task", Args: []any{task.ID(taskID)}},
		"/v1/status":                    {Method: "Status"},
		"/v1/log":                       {Method: "Log", Args: []any{api.LogFilter{}}},
	} {
		inBubble(t, path, func(t *testing.T) {
			f := start(t)
			call.Err = errors.New("disk full")
			f.broker.Expect(call)
			got := f.must("GET", path, "")
			if p := problemIn(t, got); got.status != 500 || p.Code != api.CodeInternal {
				t.Errorf("answered %d %s, want 500 internal", got.status, got.body)
			}
		})
	}
}

// TestSeveralFailures answers in one line with everything that went wrong.
func TestSeveralFailures(t *testing.T) {
	refused := claim.Errorf(claim.Refused, claim.LandedNo, "400 validation_error")
	for _, tt := range []struct {
		name   string
		err    error
		detail string
	}{
		{"one", fmt.Errorf("task %q could not be swept: %w", "a", refused), `task "a" could not be swept: 400 validation_error`},
		{
			"two", errors.Join(fmt.Errorf("task %q could not be swept: %w", "a", refused), fmt.Errorf("task %q could not be swept: disk full", "b")),
			`task "a" could not be swept: 400 validation_error; task "b" could not be swept: disk full`,
		},
		{
			"two of them inside", fmt.Errorf("a sweep: %w", errors.Join(refused, errors.Join(errors.New("disk full"), errors.New("no memory")))),
			"a sweep: 400 validation_error; disk full; no memory",
		},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(servertest.Call{Method: "Sweep", Err: tt.err})
			if p := problemIn(t, f.must("POST", "/v1/sweep", "")); p.Detail != tt.detail || p.Code != api.CodeNotionRefused {
				t.Errorf("%s: %s, want notion_refused: %s", p.Code, p.Detail, tt.detail)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	inBubble(t, "panic", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(servertest.Call{Method: "Status", Result: "not a status"})
		got := f.must("GET", "/v1/status", "")
		if p := problemIn(t, got); got.status != 500 || p.Code != api.CodeInternal || strings.Contains(got.body, "conversion") {
			t.Errorf("answered %d %s, want 500 internal and no insides", got.status, got.body)
		}
		if !strings.Contains(f.logged(), "level=ERROR") || !strings.Contains(f.logged(), "problem_test.go") && !strings.Contains(f.logged(), "servertest") {
			t.Errorf("the log lacks the panic: %s", f.logged())
		}
	})
}
