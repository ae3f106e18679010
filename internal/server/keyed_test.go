package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/server/servertest"
)

const claimBody = `{"agent":"Sandman"}`

var withKey = []string{"Idempotency-Key", "k 1"}

// claiming is the call that a keyed request for a claim makes.
func claiming(c claim.Claim, err error) servertest.Call {
	return servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman", Key: "k 1", UID: -1}}, Result: c, Err: err}
}

func denial(code claim.Code) error { return &claim.Denied{Code: code, Detail: "because"} }

// TestRepeated repeats requests under their key. What is remembered is answered
// alike without another call of the broker, what is not is tried again.
func TestRepeated(t *testing.T) {
	byID := broker.Ref{Claim: string(claimID)}
	finishing := held()
	finishing.State = claim.Finishing
	for _, tt := range []struct {
		name, path, body string
		calls            []servertest.Call
		status           int
		again            bool
	}{
		{name: "granted", path: "/v1/claims", body: claimBody, calls: []servertest.Call{allowed("Sandman"), claiming(held(), nil)}, status: 201},
		{name: "denied", path: "/v1/claims", body: claimBody, calls: []servertest.Call{allowed("Sandman"), claiming(held(), denial(claim.CodeHeld))}, status: 409},
		{name: "no such task", path: "/v1/claims", body: claimBody, calls: []servertest.Call{allowed("Sandman"), claiming(held(), denial(claim.CodeNotFound))}, status: 404},
		{name: "Notion away", path: "/v1/claims", body: claimBody, calls: []servertest.Call{allowed("Sandman"), claiming(held(), denial(claim.CodeNotionUnavailable))}, status: 503, again: true},
		{name: "failed", path: "/v1/claims", body: claimBody, calls: []servertest.Call{allowed("Sandman"), claiming(held(), errors.New("disk full"))}, status: 500, again: true},
		{
			name: "forbidden", path: "/v1/claims", body: claimBody,
			calls:  []servertest.Call{{Method: "Authorize", Args: []any{"Sandman", broker.Caller{UID: -1}}, Err: &broker.ForbiddenError{Detail: "not you"}}},
			status: 403, again: true,
		},
		{name: "invalid", path: "/v1/claims", body: `{"agent":"Sandman","taks":"x"}`, status: 422, again: true},
		{
			name: "accepted", path: "/v1/claims/" + string(claimID) + "/complete",
			calls:  []servertest.Call{found(byID), allowed("Sandman"), {Method: "Finish", Args: []any{byID, claim.Finish{As: claim.EndCompleted}}, Result: finishing}},
			status: 202,
		},
		{
			name: "lost", path: "/v1/claims/" + string(claimID) + "/renew",
			calls:  []servertest.Call{found(byID), allowed("Sandman"), {Method: "Renew", Args: []any{byID}, Err: &claim.Lost{Claim: held(), Detail: "gone"}}},
			status: 409,
		},
		{
			name: "no such claim", path: "/v1/claims/" + string(claimID) + "/renew",
			calls:  []servertest.Call{{Method: "Lookup", Args: []any{byID}, Err: claim.ErrUnknownClaim}},
			status: 404, again: true,
		},
		{name: "sweep", path: "/v1/sweep", calls: []servertest.Call{{Method: "Sweep"}}, status: 200},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(tt.calls...)
			if tt.again {
				f.broker.Expect(tt.calls...)
			}
			first := f.must("POST", tt.path, tt.body, withKey...)
			second := f.must("POST", tt.path, tt.body, withKey...)
			if first.status != tt.status || second.status != tt.status || first.body != second.body {
				t.Errorf("answered %d %s, then %d %s; want %d twice", first.status, first.body, second.status, second.body, tt.status)
			}
			if got, want := second.header.Get("Content-Type"), first.header.Get("Content-Type"); got != want {
				t.Errorf("the second answer has Content-Type %q, the first %q", got, want)
			}
			if got := first.header.Get("Idempotency-Replayed"); got != "" {
				t.Errorf("the first answer says Idempotency-Replayed: %s", got)
			}
			if got := second.header.Get("Idempotency-Replayed"); (got == "true") == tt.again {
				t.Errorf("the second answer says Idempotency-Replayed: %q", got)
			}
			if f.keys.Has("k 1") == tt.again {
				t.Errorf("the key is remembered: %v", !tt.again)
			}
		})
	}
}

func TestKeyReused(t *testing.T) {
	for _, tt := range []struct{ name, path, body string }{
		{"for another body", "/v1/claims", `{"agent":"Oracle"}`},
		{"for another operation", "/v1/sweep", claimBody},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(allowed("Sandman"), claiming(held(), nil))
			f.must("POST", "/v1/claims", claimBody, withKey...)
			got := f.must("POST", tt.path, tt.body, withKey...)
			if p := problemIn(t, got); got.status != 422 || p.Code != api.CodeKeyReused {
				t.Errorf("answered %d %s, want 422 key_reused", got.status, got.body)
			}
		})
	}
	inBubble(t, "while the first is worked on", func(t *testing.T) {
		f := start(t)
		release := make(chan struct{})
		call := claiming(held(), nil)
		call.During = func(context.Context) error { <-release; return nil }
		f.broker.Expect(allowed("Sandman"), call)
		first := make(chan answer, 1)
		go func() { first <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
		synctest.Wait()
		got := f.must("POST", "/v1/claims", `{"agent":"Oracle"}`, withKey...)
		if p := problemIn(t, got); p.Code != api.CodeKeyReused {
			t.Errorf("answered %d %s, want key_reused at once", got.status, got.body)
		}
		close(release)
		if got := <-first; got.status != 201 {
			t.Errorf("the first was answered %d", got.status)
		}
	})
}

// TestTwoHeaders sends two keys with one request.
func TestTwoHeaders(t *testing.T) {
	inBubble(t, "two", func(t *testing.T) {
		f := start(t)
		conn, err := f.pipe.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		reply := make([]byte, 64)
		go conn.Write([]byte("POST /v1/sweep HTTP/1.1\r\nHost: dibs\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n"))
		if n, _ := conn.Read(reply); !strings.HasPrefix(string(reply[:n]), "HTTP/1.1 422 ") {
			t.Errorf("answered %q, want a 422", reply[:n])
		}
	})
}

// TestKeyOnQuestions sends a key where nothing is changed.
func TestKeyOnQuestions(t *testing.T) {
	inBubble(t, "GET", func(t *testing.T) {
		f := start(t)
		f.broker.Expect(servertest.Call{Method: "Status"}, servertest.Call{Method: "Status"})
		for range 2 {
			if got := f.must("GET", "/v1/status", "", withKey...); got.status != 200 || got.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("answered %d %v", got.status, got.header)
			}
		}
	})
}

// TestRepeatedInFlight repeats a request while it is being worked on.
func TestRepeatedInFlight(t *testing.T) {
	const others = 5
	for _, tt := range []struct {
		name  string
		first error // how the first attempt ends
	}{
		{"granted", nil},
		{"failed, and tried again by the next", errors.New("disk full")},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			call := claiming(held(), tt.first)
			call.During = func(context.Context) error { time.Sleep(time.Minute); return tt.first }
			f.broker.Expect(allowed("Sandman"), call)
			if tt.first != nil {
				f.broker.Expect(allowed("Sandman"), claiming(held(), nil))
			}
			answers := make(chan answer, 1+others)
			for range 1 + others {
				go func() { answers <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
			}
			byStatus := make(map[int]int)
			replayed := 0
			for range 1 + others {
				a := <-answers
				byStatus[a.status]++
				if a.header.Get("Idempotency-Replayed") == "true" {
					replayed++
				}
			}
			wantFailed := 0
			if tt.first != nil {
				wantFailed = 1
			}
			if byStatus[500] != wantFailed || byStatus[201] != 1+others-wantFailed || replayed != others-wantFailed {
				t.Errorf("answers by status %v, %d of them replayed", byStatus, replayed)
			}
		})
	}
}

// TestWaiterGivesUp lets a repetition go away before the first is answered.
func TestWaiterGivesUp(t *testing.T) {
	inBubble(t, "gone", func(t *testing.T) {
		f := start(t)
		call := claiming(held(), nil)
		call.During = func(context.Context) error { time.Sleep(time.Hour); return nil }
		f.broker.Expect(allowed("Sandman"), call)
		first := make(chan answer, 1)
		go func() { first <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.ask(ctx, "POST", "/v1/claims", claimBody, withKey...); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second got %v, want its own deadline", err)
		}
		if n := strings.Count(f.logged(), "path=/v1/claims"); n != 1 {
			t.Errorf("%d requests have ended, want the second alone", n)
		}
		if got := <-first; got.status != 201 {
			t.Errorf("the first was answered %d", got.status)
		}
	})
}

// TestCallerComesBack grants a claim to a caller that went away meanwhile.
func TestCallerComesBack(t *testing.T) {
	inBubble(t, "back", func(t *testing.T) {
		f := start(t)
		call := claiming(held(), nil)
		call.During = func(context.Context) error { time.Sleep(time.Minute); return nil }
		f.broker.Expect(allowed("Sandman"), call)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.ask(ctx, "POST", "/v1/claims", claimBody, withKey...); err == nil {
			t.Fatal("the caller was to go away")
		}
		got := f.must("POST", "/v1/claims", claimBody, withKey...)
		if got.status != 201 || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("answered %d %v, want the 201 of the first", got.status, got.header)
		}
	})
}

// TestInterrupted repeats requests that were cut off by the daemon's end.
func TestInterrupted(t *testing.T) {
	in := func(state claim.State, ending claim.Ending) claim.Claim {
		c := held()
		c.State, c.Ending = state, ending
		return c
	}
	lookup := func(c claim.Claim, err error) servertest.Call {
		return servertest.Call{Method: "Lookup", Args: []any{broker.Ref{Claim: string(claimID)}}, Result: c, Err: err}
	}
	for _, tt := range []struct {
		name   string
		bound  bool
		calls  []servertest.Call
		status int
		code   api.Code
		anew   bool // the request is made anew
		stored bool
	}{
		{name: "held", bound: true, calls: []servertest.Call{lookup(in(claim.Held, ""), nil)}, status: 201, stored: true},
		{name: "not verified yet", bound: true, calls: []servertest.Call{lookup(in(claim.Writing, ""), nil)}, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "completed since", bound: true, calls: []servertest.Call{lookup(in(claim.Ended, claim.EndCompleted), nil)}, status: 409, code: api.CodeClaimLost, stored: true},
		{name: "completing", bound: true, calls: []servertest.Call{lookup(in(claim.Finishing, ""), nil)}, status: 409, code: api.CodeClaimLost, stored: true},
		{name: "not granted", bound: true, calls: []servertest.Call{lookup(in(claim.Ended, claim.EndNotGranted), nil)}, status: 201, anew: true, stored: true},
		{name: "being withdrawn", bound: true, calls: []servertest.Call{lookup(in(claim.Abandoned, ""), nil)}, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "marked as withdrawn", bound: true, calls: []servertest.Call{lookup(in(claim.Voided, ""), nil)}, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "written, and not seen", bound: true, calls: []servertest.Call{lookup(in(claim.Unseen, ""), nil)}, status: 201, anew: true, stored: true},
		{name: "forgotten", bound: true, calls: []servertest.Call{lookup(claim.Claim{}, claim.ErrUnknownClaim)}, status: 201, anew: true, stored: true},
		{name: "no claim was made", status: 201, anew: true, stored: true},
		{name: "journal broken", bound: true, calls: []servertest.Call{lookup(claim.Claim{}, errors.New("disk full"))}, status: 500, code: api.CodeInternal},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(allowed("Sandman"), claiming(held(), nil))
			f.must("POST", "/v1/claims", claimBody, withKey...)
			if tt.bound {
				f.keys.Bind("k 1", claimID)
			}
			f.keys.Interrupt("k 1")

			f.broker.Expect(tt.calls...)
			if tt.anew {
				f.broker.Expect(allowed("Sandman"), claiming(held(), nil))
			}
			got := f.must("POST", "/v1/claims", claimBody, withKey...)
			if got.status != tt.status {
				t.Errorf("answered %d %s, want %d", got.status, got.body, tt.status)
			}
			switch {
			case got.status == http.StatusCreated && got.body != heldJSON+"\n":
				t.Errorf("answered with %s", got.body)
			case got.status != http.StatusCreated:
				if p := problemIn(t, got); p.Code != tt.code {
					t.Errorf("answered %s, want %s", got.body, tt.code)
				}
			}
			if replayed := got.header.Get("Idempotency-Replayed") == "true"; replayed != (tt.stored && !tt.anew) {
				t.Errorf("Idempotency-Replayed: %v", replayed)
			}
			if tt.stored { // once more, from memory
				if again := f.must("POST", "/v1/claims", claimBody, withKey...); again.body != got.body {
					t.Errorf("the next answer is %s", again.body)
				}
			}
		})
	}
}

// TestFailedAfterGrant fails a request after its claim was made: the claim is
// not forgotten, and is the answer to the next attempt.
func TestFailedAfterGrant(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost error
	}{
		{name: "granted, then failed"},
		{name: "and the claim cannot be looked up at the time", lost: errors.New("database is closed")},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			call := claiming(held(), errors.New("disk full"))
			call.During = func(context.Context) error {
				f.keys.Bind("k 1", claimID)
				f.keys.Lose(tt.lost)
				return errors.New("disk full")
			}
			f.broker.Expect(allowed("Sandman"), call, found(broker.Ref{Claim: string(claimID)}))
			if got := f.must("POST", "/v1/claims", claimBody, withKey...); got.status != 500 {
				t.Errorf("answered %d, want 500", got.status)
			}
			f.keys.Lose(nil)
			if got := f.must("POST", "/v1/claims", claimBody, withKey...); got.status != 201 || got.body != heldJSON+"\n" {
				t.Errorf("answered %d %s, want the claim", got.status, got.body)
			}
		})
	}
}

// TestKeyAfterPanic works a request off anew whose first attempt panicked.
func TestKeyAfterPanic(t *testing.T) {
	inBubble(t, "panic", func(t *testing.T) {
		f := start(t)
		bad := servertest.Call{Method: "Sweep", Result: "not a sweep"}
		f.broker.Expect(bad, servertest.Call{Method: "Sweep"})
		if got := f.must("POST", "/v1/sweep", "", withKey...); got.status != 500 {
			t.Errorf("answered %d, want 500", got.status)
		}
		if got := f.must("POST", "/v1/sweep", "", withKey...); got.status != 200 {
			t.Errorf("answered %d %s, want 200", got.status, got.body)
		}
	})
}
