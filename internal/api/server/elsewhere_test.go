package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/apitest"
	"dibs/internal/api/server"
	"dibs/internal/broker"
	"dibs/internal/claim"
)

// others are the other members of a cluster.
type others struct {
	answer *server.Answer
	err    error
	told   []string
	prints []string
}

func (o *others) Begin(_ context.Context, r server.SharedRequest) (*server.Answer, error) {
	o.tell("begin", r)
	o.prints = append(o.prints, r.Fingerprint)
	return o.answer, o.err
}

func (o *others) Answer(_ context.Context, r server.SharedRequest, a server.Answer) {
	o.tell(fmt.Sprint("answer ", a.Status), r)
}
func (o *others) Drop(_ context.Context, r server.SharedRequest)  { o.tell("drop", r) }
func (o *others) Leave(_ context.Context, r server.SharedRequest) { o.tell("leave", r) }

func (o *others) tell(what string, r server.SharedRequest) {
	o.told = append(o.told, fmt.Sprintf("%s %q of %q", what, r.Key, r.Agent))
}

// What the other members of a cluster know of a request is asked for once, and they are told
// what became of it here.
func TestElsewhere(t *testing.T) {
	finished := func(o *others) { o.answer = &server.Answer{Status: 201, Body: []byte("{}\n")} }
	busy := func(o *others) { o.err = &server.BusyError{Member: "north"} }
	away := func(o *others) { o.err = &claim.ArbiterError{RetryAfter: 5e9, Err: errors.New("etcd is away")} }
	one := `"k 1" of "Sandman"`
	for _, tt := range []struct {
		name   string
		others func(*others)
		calls  []apitest.Call
		status int
		code   api.Code
		told   []string
		kept   bool
	}{
		{"granted here", nil, []apitest.Call{allowed("Sandman"), allowed("Sandman"), claiming(held(), nil)}, 201, "", []string{"begin " + one, "answer 201 " + one}, true},
		{"denied here", nil, []apitest.Call{allowed("Sandman"), allowed("Sandman"), claiming(held(), denial(claim.CodeHeld))}, 409, "held", []string{"begin " + one, "answer 409 " + one}, true},
		{"failed here", nil, []apitest.Call{allowed("Sandman"), allowed("Sandman"), claiming(held(), errors.New("disk full"))}, 500, "internal", []string{"begin " + one, "drop " + one}, false},
		{"answered there", finished, []apitest.Call{allowed("Sandman")}, 201, "", []string{"begin " + one}, true},
		{"worked on there", busy, []apitest.Call{allowed("Sandman")}, 503, "notion_unavailable", []string{"begin " + one}, false},
		{"not to be known", away, []apitest.Call{allowed("Sandman")}, 503, "arbiter_unavailable", []string{"begin " + one}, false},
		{"of an agent that the user is not", finished, []apitest.Call{
			{Method: "Authorize", Args: []any{"Sandman", broker.Caller{UID: -1}}, Err: &broker.ForbiddenError{Detail: "not you"}},
			{Method: "Authorize", Args: []any{"Sandman", broker.Caller{UID: -1}}, Err: &broker.ForbiddenError{Detail: "not you"}},
		}, 403, "forbidden_agent", nil, false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			o := new(others)
			if tt.others != nil {
				tt.others(o)
			}
			f := startIn(t, o)
			f.broker.Expect(tt.calls...)
			got := f.must("POST", "/v1/claims", claimBody, withKey...)
			if got.status != tt.status || !slices.Equal(o.told, tt.told) || f.keys.Has("k 1") != tt.kept {
				t.Errorf("answered %d %s, told %q, remembered: %v", got.status, got.body, o.told, f.keys.Has("k 1"))
			}
			if got.status >= 400 {
				if p := problemIn(t, got); p.Code != tt.code || got.status == 503 && got.header.Get("Retry-After") == "" {
					t.Errorf("answered %s, %v", got.body, got.header)
				}
			}
			if replayed := got.header.Get("Idempotency-Replayed") == "true"; replayed != (tt.name == "answered there") {
				t.Errorf("Idempotency-Replayed: %v", replayed)
			}
			if tt.kept {
				told := len(o.told)
				f.broker.Expect(slices.Repeat([]apitest.Call{allowed("Sandman")}, 1)...)
				if again := f.must("POST", "/v1/claims", claimBody, withKey...); again.body != got.body || len(o.told) != told {
					t.Errorf("once more: %s, told %q", again.body, o.told[told:])
				}
			}
		})
	}
}

// A request is the same one wherever it is made: processes and folders are those of a machine.
func TestSameElsewhere(t *testing.T) {
	inBubble(t, "prints", func(t *testing.T) {
		o := &others{answer: &server.Answer{Status: 201, Body: []byte("{}\n")}}
		f := startIn(t, o)
		print := func(path, key, body string) string {
			f.broker.Expect(allowed("Sandman"))
			f.must("POST", path, body, "Idempotency-Key", key)
			return o.prints[len(o.prints)-1]
		}
		reserve := `{"agent":"Sandman","folder":%q,"pid":%d,"targets":[{"pattern":%q,"at":[{"in":"files","path":%q}]}]}`
		a := print("/v1/reservations", "1", fmt.Sprintf(reserve, "/home/a/api", 10, "*.go", "/home/a/api/**/*.go"))
		b := print("/v1/reservations", "2", fmt.Sprintf(reserve, "/src/api", 20, "*.go", "/src/api/**/*.go"))
		c := print("/v1/reservations", "3", fmt.Sprintf(reserve, "/src/api", 20, "*.md", "/src/api/**/*.md"))
		if a != b || b == c {
			t.Errorf("prints %s, %s, %s", a, b, c)
		}
	})
}

// What a request that was cut off is answered is found out without its being asked again: from
// its claim, or from what was stored.
func TestResolve(t *testing.T) {
	lookup := func(state claim.State, ending claim.Ending) apitest.Call {
		c := held()
		c.State, c.Ending = state, ending
		return apitest.Call{Method: "Lookup", Args: []any{broker.Ref{Claim: string(claimID)}}, Result: c}
	}
	for _, tt := range []struct {
		name    string
		stored  bool
		calls   []apitest.Call
		status  int
		unknown bool
	}{
		{"answered", true, nil, 201, false},
		{"granted", false, []apitest.Call{lookup(claim.Held, "")}, 201, false},
		{"over", false, []apitest.Call{lookup(claim.Ended, claim.EndCompleted)}, 409, false},
		{"not granted", false, []apitest.Call{lookup(claim.Ended, claim.EndNotGranted)}, 0, false},
		{"not known yet", false, []apitest.Call{lookup(claim.Writing, "")}, 0, true},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := start(t)
			f.broker.Expect(allowed("Sandman"), claiming(held(), nil))
			f.must("POST", "/v1/claims", claimBody, withKey...)
			if !tt.stored {
				f.keys.Bind("k 1", claimID)
				f.keys.Interrupt("k 1")
			}
			f.broker.Expect(tt.calls...)
			a, err := f.server.Resolve(t.Context(), -1, "k 1")
			_, unknown := errors.AsType[*api.Problem](err)
			if unknown != tt.unknown || (a == nil) != (tt.status == 0) || a != nil && a.Status != tt.status {
				t.Errorf("%+v, %v", a, err)
			}
			if f.keys.Has("k 1") != (tt.status != 0 || unknown) {
				t.Errorf("remembered: %v", f.keys.Has("k 1"))
			}
		})
	}
}
