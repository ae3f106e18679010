package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/outbox/creation"
	"dibs/internal/reserve"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

const (
	taskID  = task.ID("11111111-2222-3333-4444-555555555555")
	claimID = claim.ID("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
)

// noon is a moment by Notion's clock, which in these tests is 90 seconds ahead.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const skew = 90 * time.Second

func held() claim.Hold {
	return claim.Hold{
		ID: claimID, Agent: "Sandman", State: claim.Held,
		Task:     task.Task{ID: taskID, Title: "Write the <README>", URL: "https://notion.example/1", Status: task.InProgress, Priority: task.High},
		Reserved: noon.Add(-2 * time.Second), Started: noon.Add(3 * time.Second),
		Lease: claim.Lease{ClaimedAt: noon, Timeout: 30 * time.Minute, StaleAt: noon.Add(32 * time.Minute)},
	}
}

// problemOf is what a broker makes of an error.
func problemOf(t *testing.T, err error) (p *api.Problem) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = broker.New(broker.Config{Clock: &skewed{skew}}).Problem(err)
	})
	return p
}

const deniedJSON = `{"type":"urn:dibs:problem:held","title":"The task is held","status":409,"detail":"held by Oracle","code":"held",` +
	`"holder":"Oracle","expires_at":"2026-11-20T12:58:30.000Z","retry_after":91,` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the \u003cREADME\u003e","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"}}`

const nothingJSON = `{"type":"urn:dibs:problem:nothing_ready","title":"No task is ready","status":409,"detail":"no task is ready","code":"nothing_ready",` +
	`"summary":{"held":3,"blocked":2,"dependencies":0,"assigned":0,"cooling_off":0,"filtered":0,"other":0,"next_lease_ends_at":"2026-11-20T12:58:30.000Z"}}`

// A denial is told whole, with this machine's time.
func TestDenials(t *testing.T) {
	for want, err := range map[string]error{
		deniedJSON: &claim.Denied{
			Code: claim.CodeHeld, Task: held().Task, Holder: "Oracle", ExpiresAt: noon.Add(time.Hour),
			RetryAfter: 90*time.Second + time.Millisecond, Detail: "held\nby Oracle",
		},
		nothingJSON: &broker.NothingError{
			Denied:  &claim.Denied{Code: claim.CodeNothingReady, Detail: "no task is ready"},
			Summary: api.Summary{Held: 3, Blocked: 2, NextLeaseEndsAt: api.Time{Time: noon.Add(time.Hour)}},
		},
	} {
		got, err := json.Marshal(problemOf(t, err))
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%v, problem (-want +got):\n%s", err, diff)
		}
	}
	full := &claim.Denied{Code: claim.CodeLimitReached, Detail: "too many", Has: []claim.Hold{held()}}
	if p := problemOf(t, full); p.Code != "limit_reached" || len(p.Claims) != 1 || p.Claims[0].ID != claimID {
		t.Errorf("the problem is %+v, want the claim that is held", p)
	}
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
		p := problemOf(t, fmt.Errorf("claiming: %w", &claim.Denied{Code: code, Detail: "because"}))
		if p.Status != status || p.Code != api.Code(code) || p.Detail != "because" || (p.RetryAfter == 5) != (status == 503) {
			t.Errorf("%s is %+v, want %d", code, p, status)
		}
	}
}

// Every error of the broker has a problem.
func TestProblems(t *testing.T) {
	lost := held()
	lost.State, lost.Ending = claim.Ended, claim.EndLost
	storeError := func(kind claim.StoreErrorKind, retry time.Duration) error {
		e := claim.Errorf(kind, claim.LandedUnknown, "Notion said so")
		e.RetryAfter = retry
		return fmt.Errorf("renewing: %w", e)
	}
	refused := claim.Errorf(claim.Refused, claim.LandedNo, "400 validation_error")
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   api.Problem // Type, Title and Status are not compared, and claims are counted
	}{
		{"lost", &claim.Lost{Claim: lost, Holder: "Oracle", Detail: "taken over"}, 409,
			api.Problem{Code: api.CodeClaimLost, Detail: `"Write the <README>" is no longer Sandman's: taken over`, Holder: "Oracle"}},
		{"unknown claim", fmt.Errorf("%w: X", claim.ErrUnknownClaim), 404, api.Problem{Code: api.CodeUnknownClaim, Detail: "no claim with that id: X"}},
		{"no claim", &broker.AmbiguousError{Agent: "Sandman"}, 404, api.Problem{Code: api.CodeUnknownClaim, Detail: "Sandman holds no claim"}},
		{"several claims", &broker.AmbiguousError{Agent: "Sandman", Claims: []claim.Hold{held(), held()}}, 409,
			api.Problem{Code: api.CodeAmbiguousClaim, Detail: "Sandman holds 2 tasks, say which one: “Write the <README>”, “Write the <README>”"}},
		{"invalid", &broker.InvalidError{Detail: "no"}, 422, api.Problem{Code: api.CodeInvalidRequest, Detail: "no"}},
		{"draft", &task.DraftError{Detail: "no such\noption"}, 422, api.Problem{Code: api.CodeInvalidRequest, Detail: "no such option"}},
		{"forbidden", &broker.ForbiddenError{Agent: "Sandman", Detail: "not you"}, 403, api.Problem{Code: api.CodeForbiddenAgent, Detail: "not you"}},
		{"reserved", &reserve.Taken{Asked: "a.go", Pattern: "*.go", By: reserve.Reservation{ID: "R", Agent: "Oracle"}, Until: noon}, 409,
			api.Problem{
				Code: api.Code(claim.CodeReserved), Detail: "a.go is reserved by Oracle, by the pattern *.go: work on something else, or ask Oracle to give it back",
				Holder: "Oracle", ExpiresAt: api.Time{Time: noon.Add(-skew)}, Pattern: "*.go", Path: "a.go", Reservation: "R",
			}},
		{"too much reserved", &reserve.Full{Detail: "too much", RetryAfter: 4 * time.Second}, 429, api.Problem{Code: api.Code(claim.CodeLimitReached), Detail: "too much", RetryAfter: 4}},
		{"another's reservation", &reserve.NotOwnerError{ID: "R", Agent: "Oracle"}, 403,
			api.Problem{Code: api.CodeForbiddenAgent, Detail: "reservation R is Oracle's: ask Oracle to give it back, or wait for its end", Holder: "Oracle", Reservation: "R"}},
		{"no such reservation", &reserve.UnknownError{ID: "R"}, 404,
			api.Problem{Code: api.CodeUnknownReservation, Detail: "there is no reservation R, or none any longer: somebody else may have what it was for; see dibs reservations"}},
		{"a pattern that cannot be", &reserve.InvalidError{Detail: "no"}, 422, api.Problem{Code: api.CodeInvalidRequest, Detail: "no"}},
		{"no such task", broker.ErrNoTask, 404, api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "the daemon knows no such task"}},
		{"Notion away", storeError(claim.Unavailable, 0), 503, api.Problem{Code: api.Code(claim.CodeNotionUnavailable), Detail: "renewing: Notion said so", RetryAfter: 5}},
		{"Notion busy", storeError(claim.Unavailable, 61*time.Second), 503, api.Problem{Code: api.Code(claim.CodeNotionUnavailable), Detail: "renewing: Notion said so", RetryAfter: 61}},
		{"Notion refused", storeError(claim.Refused, 0), 502, api.Problem{Code: api.CodeNotionRefused, Detail: "renewing: Notion said so"}},
		{"page gone", storeError(claim.NotFound, 0), 404, api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "renewing: Notion said so"}},
		{"page in the trash", storeError(claim.Trashed, 0), 404, api.Problem{Code: api.Code(claim.CodeNotFound), Detail: "renewing: Notion said so"}},
		{"made, or not", &creation.UnknownError{Err: claim.Errorf(claim.Unavailable, claim.LandedUnknown, "it is not known")}, 503,
			api.Problem{Code: api.Code(claim.CodeNotionUnavailable), Detail: "it is not known", RetryAfter: 5, Unknown: true}},
		{"the journal away", fmt.Errorf("renewing: %w", &claim.JournalError{RetryAfter: 5 * time.Second, Err: errors.New("disk full:\tmake room")}), 503,
			api.Problem{Code: api.Code(claim.CodeJournalUnavailable), Detail: "renewing: disk full: make room", RetryAfter: 5}},
		// All that went wrong is told, in one line.
		{"one sweep", fmt.Errorf("task %q could not be swept: %w", "a", refused), 502, api.Problem{Code: api.CodeNotionRefused, Detail: `task "a" could not be swept: 400 validation_error`}},
		{"two sweeps", errors.Join(fmt.Errorf("task %q could not be swept: %w", "a", refused), errors.New("task b could not be swept: disk full")), 502,
			api.Problem{Code: api.CodeNotionRefused, Detail: `task "a" could not be swept: 400 validation_error; task b could not be swept: disk full`}},
		{"two inside", fmt.Errorf("a sweep: %w", errors.Join(refused, errors.Join(errors.New("disk full"), errors.New("no memory")))), 502,
			api.Problem{Code: api.CodeNotionRefused, Detail: "a sweep: 400 validation_error; disk full; no memory"}},
	} {
		p := problemOf(t, tt.err)
		if p == nil || p.Status != tt.status || p.Title == "" || p.Type != "urn:dibs:problem:"+string(p.Code) || strings.Contains(p.Detail, "\n") {
			t.Errorf("%s: no proper problem: %+v", tt.name, p)
			continue
		}
		if (p.Claim != nil) != (tt.name == "lost") || (p.Task != nil) != (tt.name == "lost") || (len(p.Claims) == 2) != (tt.name == "several claims") {
			t.Errorf("%s: the claims it speaks of: %+v", tt.name, p)
		}
		p.Type, p.Title, p.Status, p.Claim, p.Task, p.Claims = "", "", 0, nil, nil, nil
		if diff := cmp.Diff(tt.want, *p); diff != "" {
			t.Errorf("%s: problem (-want +got):\n%s", tt.name, diff)
		}
	}
	if p := problemOf(t, errors.New("disk full")); p != nil {
		t.Errorf("an error that is not known is %+v", p)
	}
}
