package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/door/server"
	"dibs/internal/kit/clock"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// TestRequestsRefused sends requests of which nothing is done.
func TestRequestsRefused(t *testing.T) {
	const claims = "/v1/claims"
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     api.Code
		want                     string // in the detail
		location                 string // of the only fault, if it has one
	}{
		{name: "another machine", method: "POST", path: "/v1/sweep", header: []string{"Host", "192.168.1.2"}, status: 421, code: api.CodeWrongHost, want: "192.168.1.2"},
		{name: "a name that begins like ours", method: "POST", path: "/v1/sweep", header: []string{"Host", "localhost.evil.example"}, status: 421, code: api.CodeWrongHost, want: "localhost.evil.example"},
		{name: "no body", method: "POST", path: claims, status: 400, code: api.CodeInvalidRequest, want: "body is required"},
		{name: "two documents", method: "POST", path: claims, body: `{"agent":"Sandman"}{}`, status: 400, code: api.CodeInvalidRequest, want: "invalid character", location: "body"},
		{name: "null", method: "POST", path: claims, body: `null`, status: 422, code: api.CodeInvalidRequest, want: "expected object", location: "body"},
		{name: "no agent", method: "POST", path: claims, body: `{}`, status: 422, code: api.CodeInvalidRequest, want: "agent", location: "body"},
		{name: "empty agent", method: "POST", path: claims, body: `{"agent":""}`, status: 422, code: api.CodeInvalidRequest, want: "body.agent: ", location: "body.agent"},
		{name: "unknown field", method: "POST", path: claims, body: `{"agent":"Sandman","taks":"x"}`, status: 422, code: api.CodeInvalidRequest, want: "body.taks: unexpected property", location: "body.taks"},
		{name: "unknown field of a change", method: "POST", path: claims + "/mine/complete", body: `{"agent":"Sandman","reason":"x"}`, status: 422, code: api.CodeInvalidRequest, want: "body.reason: unexpected property", location: "body.reason"},
		{name: "wrong type", method: "POST", path: claims, body: `{"agent":"Sandman","timeout_minutes":"five"}`, status: 422, code: api.CodeInvalidRequest, want: "body.timeout_minutes: expected integer", location: "body.timeout_minutes"},
		{name: "too large a number", method: "POST", path: claims, body: `{"agent":"Sandman","pid":1e300}`, status: 422, code: api.CodeInvalidRequest, want: "body: pid: the number 1e300 does not fit", location: "body"},
		{name: "no time at all", method: "POST", path: claims, body: `{"agent":"Sandman","timeout_minutes":0}`, status: 422, code: api.CodeInvalidRequest, want: "body.timeout_minutes", location: "body.timeout_minutes"},
		{name: "too long a wait", method: "POST", path: claims, body: `{"agent":"Sandman","wait_seconds":3600.1}`, status: 422, code: api.CodeInvalidRequest, want: "body.wait_seconds: expected number <= 3600", location: "body.wait_seconds"},
		{name: "no task to claim", method: "POST", path: claims, body: `{"agent":"Sandman","task":"nonsense"}`, status: 422, code: api.CodeInvalidRequest, want: `body.task: "nonsense" is not a Notion id`, location: "body.task"},
		{name: "no task to leave out", method: "POST", path: claims, body: `{"agent":"Sandman","except":["nonsense"]}`, status: 422, code: api.CodeInvalidRequest, want: `"nonsense" is not a Notion id`, location: "body.except[0]"},
		{name: "a task, and others left out", method: "POST", path: claims, body: `{"agent":"Sandman","task":"11111111-1111-1111-1111-111111111111","except":["11111111-1111-1111-1111-111111111111"]}`, status: 422, code: api.CodeInvalidRequest, want: "except", location: "body.except"},
		{name: "no claim id", method: "POST", path: claims + "/nonsense/renew", status: 422, code: api.CodeInvalidRequest, want: `path.id: "nonsense" is neither the id of a claim nor of a task`, location: "path.id"},
		{name: "whose only claim", method: "POST", path: claims + "/mine/renew", status: 422, code: api.CodeInvalidRequest, want: "which agent's only claim?", location: "agent"},
		{name: "no task id", method: "GET", path: "/v1/tasks/nonsense", status: 422, code: api.CodeInvalidRequest, want: `path.id: "nonsense" is not a Notion id`, location: "path.id"},
		{name: "ready", method: "GET", path: "/v1/tasks?ready=maybe", status: 422, code: api.CodeInvalidRequest, want: "query.ready: invalid boolean", location: "query.ready"},
		{name: "unknown query", method: "GET", path: "/v1/tasks?state=OPEN", status: 422, code: api.CodeInvalidRequest, want: "query.state: unknown query parameter", location: "query.state"},
		{name: "log of no task", method: "GET", path: "/v1/log?task=x", status: 422, code: api.CodeInvalidRequest, want: "query.task", location: "query.task"},
		{name: "log after no entry", method: "GET", path: "/v1/log?after=zz", status: 422, code: api.CodeInvalidRequest, want: `query.after: "zz" is not the id of an entry`, location: "query.after"},
		{name: "log of no claim", method: "GET", path: "/v1/log?claim=x", status: 422, code: api.CodeInvalidRequest, want: "query.claim", location: "query.claim"},

		{name: "no process", method: "POST", path: claims, body: `{"agent":"Sandman","pid":4194305}`, status: 422, code: api.CodeInvalidRequest, want: "body.pid: ", location: "body.pid"},
		{name: "no process of that number", method: "POST", path: claims, body: `{"agent":"Sandman","pid":0}`, status: 422, code: api.CodeInvalidRequest, want: "body.pid: ", location: "body.pid"},
		{name: "a grace alone", method: "POST", path: claims, body: `{"agent":"Sandman","grace_seconds":5}`, status: 422, code: api.CodeInvalidRequest, want: "body.grace_seconds: ", location: "body.grace_seconds"},
		{name: "a renewal for no process", method: "POST", path: claims + "/mine/renew", body: `{"agent":"Sandman","pid":4194305}`, status: 422, code: api.CodeInvalidRequest, want: "body.pid: ", location: "body.pid"},
		{name: "nobody to adopt", method: "POST", path: claims + "/mine/renew", body: `{"agent":"Sandman","orphaned":true}`, status: 422, code: api.CodeInvalidRequest, want: "body.orphaned: ", location: "body.orphaned"},
		{name: "a grace that is no time", method: "GET", path: claims + "/mine/alive?agent=Sandman&grace=soon", status: 422, code: api.CodeInvalidRequest, want: "query.grace: ", location: "query.grace"},
		{name: "events after no id", method: "GET", path: "/v1/events?after=x", status: 422, code: api.CodeInvalidRequest, want: "query.after", location: "query.after"},
		{name: "events after less than all", method: "GET", path: "/v1/events?after=-2", status: 422, code: api.CodeInvalidRequest, want: "query.after", location: "query.after"},
		{name: "a last id below zero", method: "GET", path: "/v1/events", header: []string{"Last-Event-ID", "-1"}, status: 422, code: api.CodeInvalidRequest, want: "header.Last-Event-ID", location: "header.Last-Event-ID"},
		{name: "events of no task", method: "GET", path: "/v1/events?task=x", status: 422, code: api.CodeInvalidRequest, want: "query.task", location: "query.task"},
		{name: "a wait below zero", method: "GET", path: claims + "/" + string(claimID) + "?wait=-1s", status: 422, code: api.CodeInvalidRequest, want: "query.wait", location: "query.wait"},
		{name: "a wait too long", method: "GET", path: claims + "/" + string(claimID) + "?wait=61m", status: 422, code: api.CodeInvalidRequest, want: "query.wait", location: "query.wait"},

		{name: "agents of no day", method: "GET", path: "/v1/agents?days=0", status: 422, code: api.CodeInvalidRequest, want: "query.days: expected number >= 1", location: "query.days"},

		{name: "form", method: "POST", path: claims, body: `{"agent":"Sandman"}`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: api.CodeWrongMediaType, want: "sent as application/x-www-form-urlencoded: send JSON, and say so with the header Content-Type: application/json"},
		{name: "no media type", method: "POST", path: claims, body: `{"agent":"Sandman"}`, header: []string{"Content-Type", "-"}, status: 415, code: api.CodeWrongMediaType, want: "without a Content-Type"},
		{name: "too large", method: "POST", path: claims, body: `{"agent":"` + strings.Repeat("S", 64<<10) + `"}`, status: 413, code: api.CodeTooLarge, want: "more than 64 KiB"},

		{name: "another host", method: "GET", path: "/v1/status", header: []string{"Host", "evil.example"}, status: 421, code: api.CodeWrongHost, want: `the request is for the host "evil.example"`},
		{name: "another host, no such address", method: "GET", path: "/", header: []string{"Host", "evil.example:80"}, status: 421, code: api.CodeWrongHost, want: "ask for http://dibs"},
		{name: "another site", method: "POST", path: "/v1/sweep", header: []string{"Host", "localhost:8080", "Sec-Fetch-Site", "cross-site"}, status: 403, code: api.CodeCrossOrigin, want: "web page"},
		{name: "another origin", method: "POST", path: claims + "/11111111-1111-1111-1111-111111111111/complete", header: []string{"Host", "localhost:8080", "Origin", "https://evil.example"}, status: 403, code: api.CodeCrossOrigin, want: "web page"},
		{name: "wrong method", method: "DELETE", path: claims, status: 405, code: api.CodeWrongMethod, want: "does not answer DELETE: use GET, HEAD, POST"},
		{name: "no such address", method: "GET", path: "/v2/claims", status: 404, code: api.CodeNoRoute, want: "there is no /v2/claims here"},

		{name: "long key", method: "POST", path: "/v1/sweep", header: []string{"Idempotency-Key", strings.Repeat("k", 201)}, status: 422, code: api.CodeInvalidRequest, want: "1 to 200 printable"},
		{name: "key with other characters", method: "POST", path: "/v1/sweep", header: []string{"Idempotency-Key", "é"}, status: 422, code: api.CodeInvalidRequest, want: "1 to 200 printable"},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			f.broker.real = true
			got := f.must(tt.method, tt.path, tt.body, tt.header...)
			p := problemIn(t, got)
			testkit.Check(t, got.status == tt.status && p.Code == tt.code && strings.Contains(p.Detail, tt.want),
				"answered %d %s %q, want %d %s %q", got.status, p.Code, p.Detail, tt.status, tt.code, tt.want)
			location := ""
			if len(p.Errors) > 0 {
				location = p.Errors[0].Location
			}
			testkit.Check(t, location == tt.location && len(p.Errors) <= 1, "the faults are %+v, want one at %q", p.Errors, tt.location)
			allow := got.header.Get("Allow")
			testkit.Check(t, (allow != "") == (tt.status == 405), "Allow = %q", allow)
		})
	}
}

func TestSeveralFaults(t *testing.T) {
	served(t, "several", func(t *testing.T, f *fixture) {
		p := problemIn(t, f.must("POST", "/v1/claims", `{"wait_seconds":"x","timeout_minutes":0}`))
		testkit.Check(t, len(p.Errors) == 3 && strings.Count(p.Detail, "; ") == 2, "want all three faults: %q, %+v", p.Detail, p.Errors)
	})
}

// TestAccepted is the counterpart of the bodies and hosts that are refused.
func TestAccepted(t *testing.T) {
	served(t, "accepted", func(t *testing.T, f *fixture) {
		for _, tt := range []struct {
			path, body, name, value string
			status                  int
		}{
			{"/v1/claims", claimBody, "Content-Type", "application/json; charset=utf-8", 201},
			{"/v1/claims", claimBody + strings.Repeat(" ", 64<<10-19), "Accept", "*/*", 201}, // the largest
			{"/v1/sweep", "", "Content-Type", "application/x-www-form-urlencoded", 200},      // none, of whatever type
			{"/v1/sweep", "", "Host", "LOCALHOST:8080", 200}, {"/v1/sweep", "", "Host", "127.0.0.1", 200},
			{"/v1/sweep", "", "Host", "127.0.0.1:80", 200}, {"/v1/sweep", "", "Host", "[::1]", 200}, {"/v1/sweep", "", "Host", "[::1]:80", 200},
		} {
			got := f.must("POST", tt.path, tt.body, tt.name, tt.value)
			testkit.Check(t, got.status == tt.status, "%s: %s: answered %d %s", tt.name, tt.value, got.status, got.body)
		}
	})
}

// TestLongWait waits for a claim as long as a request may.
func TestLongWait(t *testing.T) {
	for _, key := range []string{"", "k"} {
		served(t, "key "+key, func(t *testing.T, f *fixture) {
			begin := time.Now()
			f.broker.claim = func(ctx context.Context, who broker.Caller, r api.ClaimRequest) (api.Claim, error) {
				if r.WaitSeconds != 3600 || who.Key != key || who.UID != -1 { // who is at the other end of a pipe is not known
					t.Errorf("%+v asks the broker for %+v", who, r)
				}
				select {
				case <-time.After(time.Hour):
					return held(), nil
				case <-ctx.Done():
					return api.Claim{}, ctx.Err()
				}
			}
			header := []string{}
			if key != "" {
				header = []string{"Idempotency-Key", key}
			}
			got := f.must("POST", "/v1/claims", `{"agent":"Sandman","wait_seconds":3600}`, header...)
			took := time.Since(begin)
			testkit.Check(t, got.status == 201 && took == time.Hour, "answered %d after %v: %s", got.status, took, got.body)
		})
	}
}

// TestCallerGone ends the work for a caller that went away.
func TestCallerGone(t *testing.T) {
	served(t, "gone", func(t *testing.T, f *fixture) {
		var ended error
		f.broker.claim = func(ctx context.Context, _ broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
			<-ctx.Done()
			ended = ctx.Err()
			return api.Claim{}, ended
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.ask(ctx, "POST", "/v1/claims", `{"agent":"Sandman"}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller got %v, want its own deadline", err)
		}
		synctest.Wait()
		testkit.Check(t, errors.Is(ended, context.Canceled), "the broker's context ended with %v, want canceled", ended)
		testkit.Check(t, !strings.Contains(f.logged(), "level=ERROR"), "a caller that goes away is an error in the log: %s", f.logged())
	})
}

// TestShutdown ends while a request of a minute is worked on, with time for it, and without.
func TestShutdown(t *testing.T) {
	for _, tt := range []struct {
		grace, took time.Duration
		status      int
		err         error
	}{
		{2 * time.Minute, time.Minute, 201, nil}, {10 * time.Second, 10 * time.Second, 503, context.DeadlineExceeded},
	} {
		served(t, tt.took.String(), func(t *testing.T, f *fixture) {
			f.broker.claim = func(ctx context.Context, _ caller, _ api.ClaimRequest) (api.Claim, error) {
				return held(), clock.Pause(ctx, time.Minute)
			}
			answers := make(chan answer, 1)
			go func() { answers <- f.must("POST", "/v1/claims", claimBody) }()
			synctest.Wait()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
			defer cancel()
			err := f.server.Shutdown(ctx)
			took, got := time.Since(begin), <-answers
			testkit.Check(t, errors.Is(err, tt.err) && took >= tt.took && took <= tt.took+2*time.Second, "Shutdown = %v after %v", err, took)
			testkit.Check(t, got.status == tt.status, "the request was answered %d %s, want %d", got.status, got.body, tt.status)
			if tt.err != nil {
				p := problemIn(t, got)
				testkit.Check(t, p.Code == api.CodeStopping && got.header.Get("Retry-After") == "1", "answered %s", got.body)
			}
			testkit.Refused(f.ask(t.Context(), "GET", "/v1/status", ""))(t)
		})
	}
}

// TestRequestsFit sends what means only one thing, and is not as the description has it.
func TestRequestsFit(t *testing.T) {
	served(t, "fit", func(t *testing.T, f *fixture) {
		f.broker.claim = func(_ context.Context, _ broker.Caller, r api.ClaimRequest) (api.Claim, error) {
			testkit.Check(t, r.Agent == "Sandman" && r.TimeoutMinutes == 45 && len(r.Filter.Where) == 1, "it is taken for %+v", r)
			return api.Claim{}, denial(claim.CodeNothingReady)
		}
		got := f.must("POST", "/v1/claims", `{"agent":" Sandman ","timeout_minutes":"45.0","where":"[\"a=b\"]","task":"","pid":null,"wait_seconds":"","except":null}`)
		testkit.Check(t, got.status == 409, "answered %d %s", got.status, got.body)
		f.logs("method=POST path=/v1/claims status=409 uid=-1 took=")
	})
}

// raw sends what it is given and returns all that comes back.
func (f *fixture) raw(request string) string {
	f.t.Helper()
	conn := f.dial(f.pipe)
	go io.WriteString(conn, request)
	reply, err := io.ReadAll(conn)
	testkit.Check(f.t, err == nil, "after %q: %v", reply, err)
	return string(reply)
}

// TestBytes sends what no client would: of a form that is not, or slowly.
func TestBytes(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: dibs\r\n"
	for name, tt := range map[string]struct {
		sent, want string
		took       time.Duration
	}{
		"no host":              {"GET /v1/status HTTP/1.0\r\n\r\n", "HTTP/1.0 200 ", 0},
		"two keys":             {"POST /v1/sweep" + head + "Idempotency-Key: a\r\nIdempotency-Key: b\r\nConnection: close\r\n\r\n", "HTTP/1.1 422 ", 0},
		"a large header":       {"GET /v1/status" + head + "X: " + strings.Repeat("x", 24<<10) + "\r\n\r\n", "HTTP/1.1 431 ", 500 * time.Millisecond},
		"no end of the header": {"GET /v1/status" + head, "", 5 * time.Second},
		"no end of the body":   {"POST /v1/sweep" + head + "Content-Length: 9\r\n\r\n{", "HTTP/1.1 422 ", 10 * time.Second},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			begin := time.Now()
			got := f.raw(tt.sent)
			took := time.Since(begin)
			testkit.Check(t, strings.HasPrefix(got, tt.want) && took == tt.took, "answered %.100q after %v, want %q, %v", got, took, tt.want, tt.took)
		})
	}
}

// TestSlowReader never reads its answer.
func TestSlowReader(t *testing.T) {
	served(t, "slow", func(t *testing.T, f *fixture) {
		conn := f.dial(f.pipe)
		testkit.Got(io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: dibs\r\n\r\n"))(t)
		time.Sleep(time.Minute)
		reply, err := io.ReadAll(conn)
		testkit.Check(t, len(reply) == 0, "read %q, %v after a minute: want a closed connection", reply, err)
	})
}

// problemIn reads a problem document, and checks that it looks like one.
func problemIn(t *testing.T, a answer) api.Problem {
	t.Helper()
	var p api.Problem
	err := json.Unmarshal([]byte(a.body), &p)
	testkit.Require(t, err == nil, "the body is no problem: %v: %q", err, a.body)
	got := a.header.Get("Content-Type")
	testkit.Check(t, got == "application/problem+json", "Content-Type = %q, want application/problem+json", got)
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
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.claim = refused(tt.err)
			got := f.must("POST", "/v1/claims", claimBody)
			p, retry, logged := problemIn(t, got), got.header.Get("Retry-After"), strings.Contains(f.logged(), "level=ERROR")
			testkit.Check(t, got.status == tt.status && p.Code == tt.code && retry == tt.retry, "answered %d %s, Retry-After %q", got.status, got.body, retry)
			testkit.Check(t, logged == (tt.status == 500), "logged as an error: %v", logged)
		})
	}
}

// TestNotMeant has an agent that names no claim lose one: the refusal names what it holds beside.
func TestNotMeant(t *testing.T) {
	for n, want := range []string{"", "; nothing was done to \"Write the <README>\", which Sandman holds too: name it if you mean it", "; nothing was done to the 2 tasks that Sandman holds too: name the one you mean"} {
		served(t, fmt.Sprint(n), func(t *testing.T, f *fixture) {
			f.broker.claims = slices.Repeat([]api.Claim{held()}, n)
			f.broker.act = func(string, string, any) (api.Claim, error) {
				return api.Claim{}, &claim.Lost{Claim: claim.Hold{ID: claimID, Agent: "Sandman"}, Detail: "taken over"}
			}
			p := problemIn(t, f.must("POST", "/v1/claims/mine/complete", claimBody))
			testkit.Check(t, p.Code == api.CodeClaimLost && len(p.Claims) == n && strings.HasSuffix(p.Detail, "taken over"+want),
				"answered %+v", p)
		})
	}
}

// TestWhoMayAct checks that nothing is done in a name that may not be used, or to a claim that is not found.
func TestWhoMayAct(t *testing.T) {
	for _, tt := range []struct{ name, path, body, may string }{
		{"claim", "/v1/claims", `{"agent":"Oracle"}`, "Sandman"},
		{"somebody's claim", "/v1/claims/" + string(claimID) + "/complete", "", "Oracle"},
		{"in somebody's name", "/v1/claims/" + string(claimID) + "/renew", `{"agent":"Oracle"}`, "Sandman"},
		{"somebody's claim, in one's own name", "/v1/claims/" + string(claimID) + "/fail", `{"agent":"Oracle"}`, "Oracle"},
		{"no claim", "/v1/claims/" + string(taskID) + "/release", "", ""},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			status, code := 403, api.CodeForbiddenAgent
			if f.broker.only(tt.may); tt.may == "" {
				f.broker.lookup = func(string, string) (api.Claim, error) { return api.Claim{}, claim.ErrUnknownClaim }
				status, code = 404, api.CodeUnknownClaim
			}
			f.broker.act = func(what, _ string, _ any) (api.Claim, error) {
				t.Errorf("%s was done", what)
				return held(), nil
			}
			got := f.must("POST", tt.path, tt.body)
			p := problemIn(t, got)
			testkit.Check(t, got.status == status && p.Code == code && f.broker.claimed.Load() == 0, "answered %d %s", got.status, got.body)
		})
	}
}

func TestPanic(t *testing.T) {
	served(t, "panic", func(t *testing.T, f *fixture) {
		f.broker.status = func() (api.Status, error) { panic("conversion") }
		got := f.must("GET", "/v1/status", "")
		p := problemIn(t, got)
		testkit.Check(t, got.status == 500 && p.Code == api.CodeInternal && !strings.Contains(got.body, "conversion"),
			"answered %d %s, want 500 internal and no insides", got.status, got.body)
		f.logs("level=ERROR", "_test.go")
	})
}

func TestMetricsOnTheSocket(t *testing.T) {
	served(t, "metrics", func(t *testing.T, f *fixture) {
		got := f.must("GET", "/metrics", "")
		testkit.Check(t, got.status == 200 && got.body == "up 1\n", "answered %d %q", got.status, got.body)
		f.must("POST", "/v1/sweep", "")
		f.must("POST", "/v1/sync", "", api.KeyHeader, "key")
		f.must("GET", "/nowhere", "")
		synctest.Wait()
		testkit.Same(t, []string{"GET /metrics 200", "POST /v1/sweep 200", "POST /v1/sync 200", " 404"}, f.routes, "told of the answers")
	})
}

// TestMetricsOnly asks for more than metrics where nothing else is to be had.
func TestMetricsOnly(t *testing.T) {
	served(t, "metrics", func(t *testing.T, f *fixture) {
		open := server.NewPipe()
		served := make(chan error, 1)
		go func() { served <- f.server.ServeMetrics(open) }()
		for _, tt := range []struct {
			method, path string
			header       []string
			status       int
			want         string
		}{
			{"GET", "/metrics", nil, 200, "up 1"},
			{"GET", "/metrics", []string{"Host", "127.0.0.1:9464"}, 200, "up 1"},
			{"GET", "/metrics", []string{"Host", "evil.example:9464"}, 421, string(api.CodeWrongHost)},
			{"POST", "/metrics", nil, 405, string(api.CodeWrongMethod)},
			{"POST", "/v1/sweep", nil, 404, string(api.CodeNoRoute)},
			{"GET", "/v1/status", nil, 404, string(api.CodeNoRoute)},
			{"GET", "/openapi.json", nil, 404, string(api.CodeNoRoute)},
		} {
			got, err := exchange(t.Context(), open.Dial, tt.method, tt.path, "", tt.header...)
			testkit.Check(t, err == nil && got.status == tt.status && strings.Contains(got.body, tt.want),
				"%s %s %v: answered %d %q, %v; want %d %q", tt.method, tt.path, tt.header, got.status, got.body, err, tt.status, tt.want)
		}
		for range 600 { // shut nobody out, see TestSlowStrangersGiveWay
			conn := testkit.Got(open.Dial(t.Context()))(t)
			defer conn.Close()
		}
		got, err := exchange(t.Context(), open.Dial, "GET", "/metrics", "")
		testkit.Check(t, err == nil && got.status == 200, "beside many that say nothing: answered %d %q, %v", got.status, got.body, err)
		testkit.OK(t, f.server.Shutdown(t.Context()))
		testkit.OK(t, <-served)
	})
}

// lost is an event, and lostJSON the same on the socket.
var lost = api.Event{
	ID: 17, At: api.Time{Time: noon}, Kind: api.ClaimLost, Agent: "Sandman", Holder: "Oracle", Claim: claimID,
	Task:   &api.TaskRef{ID: taskID, Title: "Write the <README>", URL: "https://notion.example/1", Status: task.Cancelled, Priority: "high"},
	Detail: "its status was set to CANCELLED",
}

const lostJSON = `{"id":17,"at":"2026-11-20T12:00:00.000Z","kind":"claim_lost",` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"CANCELLED","priority":"high"},` +
	`"agent":"Sandman","holder":"Oracle","claim":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","detail":"its status was set to CANCELLED"}`

// read is a question for events, and its answer.
type read struct {
	filter api.EventsInput
	wait   time.Duration
	events []api.Event
	next   int64
	err    error
}

func reading(f api.EventsInput, wait time.Duration, next int64, events ...api.Event) read {
	return read{f, wait, events, next, nil}
}

func stopped(f api.EventsInput) read { return read{f, 15 * time.Second, nil, 0, broker.ErrStopping} }

// reads answers these questions, in their order, and no other.
func reads(t *testing.T, expected ...read) func(context.Context, api.EventsInput, time.Duration) ([]api.Event, int64, error) {
	t.Cleanup(func() { testkit.Check(t, len(expected) == 0, "the broker was not asked for %v", expected) })
	return func(_ context.Context, f api.EventsInput, wait time.Duration) ([]api.Event, int64, error) {
		if len(expected) == 0 || f != expected[0].filter || wait != expected[0].wait {
			t.Errorf("the broker was asked for %v within %v, want %v", f, wait, expected)
			return nil, 0, broker.ErrStopping
		}
		next := expected[0]
		expected = expected[1:]
		return next.events, next.next, next.err
	}
}

func TestStream(t *testing.T) {
	const beat = 15 * time.Second
	edited := api.Event{ID: 18, At: api.Time{Time: noon}, Kind: claim.KindEdited, Task: &api.TaskRef{ID: "b", Priority: "none"}, Changed: []string{"title"}}
	gap := api.Event{ID: 9, At: api.Time{Time: noon}, Kind: api.Gap, Detail: "gone"}
	for name, tt := range map[string]struct {
		path   string
		header []string
		calls  []read
		want   string
	}{
		"from now on": {
			path: "/v1/events",
			calls: []read{
				reading(api.EventsInput{After: -1}, 0, 16),
				reading(api.EventsInput{After: 16}, beat, 17, lost),
				reading(api.EventsInput{After: 17}, beat, 30),
				stopped(api.EventsInput{After: 30}),
			},
			want: ": alive\nid: 16\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n: alive\nid: 30\n\n",
		},
		"selected": {
			path: "/v1/events?after=5&agent=Oracle&task=11111111222233334444555555555555&follow=true",
			calls: []read{
				reading(api.EventsInput{After: 5, Agent: "Oracle", Task: string(taskID)}, beat, 18, gap, lost, edited),
				stopped(api.EventsInput{After: 18, Agent: "Oracle", Task: string(taskID)}),
			},
			want: ": alive\nid: 5\n\n" +
				"id: 9\nevent: gap\ndata: {\"id\":9,\"at\":\"2026-11-20T12:00:00.000Z\",\"kind\":\"gap\",\"detail\":\"gone\"}\n\n" +
				"id: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n" +
				"id: 18\nevent: edited\ndata: {\"id\":18,\"at\":\"2026-11-20T12:00:00.000Z\",\"kind\":\"edited\"," +
				"\"task\":{\"id\":\"b\",\"title\":\"\",\"status\":\"\",\"priority\":\"none\"},\"changed\":[\"title\"]}\n\n",
		},
		"once more": {
			path: "/v1/events?after=5", header: []string{"Last-Event-ID", "12"},
			calls: []read{stopped(api.EventsInput{After: 12})},
			want:  ": alive\nid: 12\n\n",
		},
		"what is there": {
			path:  "/v1/events?after=0&follow=false",
			calls: []read{reading(api.EventsInput{}, 0, 17, lost), reading(api.EventsInput{After: 17}, 0, 17)},
			want:  ": alive\nid: 0\n\nid: 17\nevent: claim_lost\ndata: " + lostJSON + "\n\n",
		},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.events = reads(t, tt.calls...)
			got := f.must("GET", tt.path, "", tt.header...)
			if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("answer %d, %v", got.status, got.header)
			}
			body := strings.TrimSuffix(got.body, ": alive\nid: 17\n\n") // how far it is, at the end
			testkit.Same(t, tt.want, body, "stream")
		})
	}
}

// TestStreamBreaks fails in the middle, when it is too late for a problem.
func TestStreamBreaks(t *testing.T) {
	served(t, "", func(t *testing.T, f *fixture) {
		f.broker.real = true
		f.broker.events = reads(t,
			reading(api.EventsInput{}, 15*time.Second, 17, lost),
			read{filter: api.EventsInput{After: 17}, wait: 15 * time.Second, err: errors.New("disk full")},
		)
		got := f.must("GET", "/v1/events?after=0", "")
		testkit.Check(t, strings.HasSuffix(got.body, lostJSON+"\n\n"), "stream %s, want it to end after what was sent", got.body)
		testkit.Check(t, strings.Contains(f.log.String(), "disk full"), "the log does not say what happened: %s", f.log)
	})
}

func TestWatch(t *testing.T) {
	ended := held()
	ended.State, ended.Outcome, ended.Event = claim.Ended, claim.EndLost, &lost
	asked := func(id, wait string, after int64) api.GetClaimInput {
		return api.GetClaimInput{ID: id, Agent: "Sandman", Wait: wait, After: after}
	}
	for name, tt := range map[string]struct {
		path   string
		asked  api.GetClaimInput
		claim  api.Claim
		err    error
		status int
		want   []string
	}{
		"something happened": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman", asked(string(claimID), "60s", -1), ended, nil,
			http.StatusOK, []string{`"state":"ended"`, `"outcome":"lost"`, `"event":` + lostJSON},
		},
		"nothing happened": {
			"/v1/claims/mine?agent=Sandman&wait=1m30s&after=4", asked(api.OnlyClaim, "1m30s", 4), held(), nil,
			http.StatusOK, []string{heldJSON},
		},
		"no such claim": {
			"/v1/claims/" + string(claimID) + "?wait=0s&agent=Sandman", asked(string(claimID), "0s", -1), api.Claim{}, claim.ErrUnknownClaim,
			http.StatusNotFound, []string{`"code":"unknown_claim"`},
		},
		"the daemon stops": {
			"/v1/claims/" + string(claimID) + "?wait=60s&agent=Sandman", asked(string(claimID), "60s", -1), api.Claim{}, broker.ErrStopping,
			http.StatusServiceUnavailable, []string{`"code":"stopping"`, `"retry_after":1`},
		},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.watch = func(in api.GetClaimInput) (api.Claim, error) {
				testkit.Check(t, in == tt.asked, "the broker was asked to watch %+v", in)
				return tt.claim, tt.err
			}
			got := f.must("GET", tt.path, "")
			testkit.Check(t, got.status == tt.status, "status %d, want %d", got.status, tt.status)
			testkit.Says(t, "answer", got.body, tt.want...)
		})
	}
}

// TestConnectionKeepsAClaim follows a claim on a connection, to its end.
func TestConnectionKeepsAClaim(t *testing.T) {
	served(t, "", func(t *testing.T, f *fixture) {
		f.broker.act = func(what, id string, with any) (api.Claim, error) {
			testkit.Check(t, what == "connect" && id == string(claimID) && with == "60s",
				"the broker was asked to %s %v, %v", what, id, with)
			return held(), nil
		}
		f.broker.events = reads(t, reading(api.EventsInput{After: -1}, 0, 16))
		looks := 0
		f.broker.watch = func(in api.GetClaimInput) (api.Claim, error) {
			c := held()
			if looks++; looks == 2 {
				c.State, c.Outcome, c.Event = claim.Ended, claim.EndLost, &lost
			}
			testkit.Check(t, in.ID == string(claimID) && in.After == 16 && in.Wait == "15s", "the broker was asked to watch %+v", in)
			return c, nil
		}
		got := f.must("GET", "/v1/claims/"+string(claimID)+"/alive?agent=Sandman&grace=60s", "")
		testkit.Check(t, got.status == 200 && got.header.Get("Content-Type") == "text/event-stream",
			"answer %d, %v", got.status, got.header)
		if n := strings.Count(got.body, "event: claim\ndata: {"); n != 2 || !strings.Contains(got.body, ": alive\n\n") ||
			!strings.Contains(got.body, `"state":"ended"`) || !strings.Contains(got.body, lostJSON) {
			t.Errorf("stream:\n%s\nwant the claim, a sign of life, and the claim as it ended", got.body)
		}
		if synctest.Wait(); !f.broker.left.Load() {
			t.Error("the connection is still said to be there")
		}
	})
}

// TestProcessKeepsAClaim names this process.
func TestProcessKeepsAClaim(t *testing.T) {
	me := testkit.Got(keepers.Of(os.Getpid()))(t)
	body := `{"agent":"Sandman","pid":` + strconv.Itoa(os.Getpid()) + `,"grace_seconds":60}`
	for _, path := range []string{"/v1/claims", "/v1/claims/mine/renew"} {
		served(t, path, func(t *testing.T, f *fixture) {
			var by broker.Caller
			f.broker.claim = func(_ context.Context, who broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
				by = who
				return held(), nil
			}
			f.broker.act = func(_, _ string, with any) (api.Claim, error) {
				by = with.(broker.Caller)
				return held(), nil
			}
			got := f.must("POST", path, body)
			testkit.Check(t, got.status < 300 && by.Process == me, "answered %d %s, to be kept by %v", got.status, got.body, by.Process)
		})
	}
}
