package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
)

// Elsewhere is what the members of a cluster know of each other's requests with idempotency
// keys. Its methods are safe for concurrent use.
type Elsewhere interface {
	// Begin is called before this daemon works on a request that its own Keys do not know. It
	// returns the answer if another member has given one, and nil if it is this one's to give.
	// It fails with ErrKeyReused, *BusyError, *claim.Denied or *claim.ArbiterError.
	Begin(ctx context.Context, r SharedRequest) (*Answer, error)

	// Answer tells the others of the answer, which Keys have by now.
	Answer(ctx context.Context, r SharedRequest, a Answer)

	// Drop tells the others that the request can be made anew, here or there.
	Drop(ctx context.Context, r SharedRequest)

	// Leave says that the answer depends on what becomes of a claim: see Server.Resolve.
	Leave(ctx context.Context, r SharedRequest)
}

// SharedRequest is a request with an idempotency key, as the members of a cluster know it.
type SharedRequest struct {
	UID int
	Key string
	// Agent is in whose name it is made, who may be that of the user; empty if in nobody's.
	Agent string
	// Fingerprint tells requests apart: by what is asked for, wherever it is asked.
	Fingerprint string
	Repeating   Repeating
}

// Repeating is what may be done with a request that a member has begun that is not there any
// more.
type Repeating int

const (
	// Never: it is left to that member, which may have done it.
	Never Repeating = iota
	// Claiming: another member may go on with it, as long as no claim was made for it.
	Claiming
	// Making: another member may go on with it, and finds what was made.
	Making
	// Again: to do it twice does no harm.
	Again
	// Own: it is about a claim, which no other member can do anything with.
	Own
)

// BusyError says that another member of the cluster works on a request, or did before it went
// away.
type BusyError struct {
	Member string // what it is called
	Gone   bool
}

func (e *BusyError) Error() string {
	if e.Gone {
		return fmt.Sprintf("the request with this idempotency key was begun at member %s of the cluster, which is away, and may have done it: ask again with the same key once it is back", e.Member)
	}
	return fmt.Sprintf("the request with this idempotency key is being worked on at member %s of the cluster: ask again with the same key", e.Member)
}

// repeatings are the operations whose requests the members share, and what may be done with
// one that was begun.
var repeatings = map[string]Repeating{
	"POST /v1/claims":               Claiming,
	"POST /v1/tasks/{id}/accept":    Claiming,
	"POST /v1/claims/{id}/renew":    Own,
	"POST /v1/claims/{id}/complete": Own,
	"POST /v1/claims/{id}/review":   Own,
	"POST /v1/claims/{id}/release":  Own,
	"POST /v1/claims/{id}/block":    Own,
	"POST /v1/claims/{id}/fail":     Own,
	"POST /v1/claims/{id}/ask":      Own,
	"POST /v1/tasks":                Making,
	"POST /v1/tasks/{id}/comments":  Never,
	"POST /v1/tasks/{id}/reopen":    Never,
	"POST /v1/tasks/{id}/offer":     Never,
	"POST /v1/tasks/{id}/decline":   Never,
	"POST /v1/messages":             Never,
	"POST /v1/agents":               Again,
	"POST /v1/agents/{name}/poll":   Again,
	"POST /v1/agents/{name}/ack":    Again,
	"POST /v1/ack":                  Again,
	"POST /v1/reservations":         Again,
}

// alone are the operations that each member does by itself however often it is asked: they
// change nothing that matters twice.
var alone = map[string]bool{
	"POST /v1/sweep": true, "POST /v1/sync": true, "POST /v1/cluster/adopt": true, "POST /v1/reservations/check": true,
}

// shared returns a request as the members of the cluster know it; ok is false if they need
// not. The answers of others are for those alone who may act as the agent.
func (s *Server) shared(r *http.Request, pattern, key string) (q SharedRequest, ok bool, err error) {
	if s.elsewhere == nil {
		return q, false, nil
	}
	repeating, ok := repeatings[pattern]
	if !ok {
		return q, false, nil
	}
	body, err := bodyOf(r)
	if err != nil {
		return q, false, err
	}
	q = SharedRequest{UID: caller(r.Context()), Key: key, Repeating: repeating}
	q.Agent, q.Fingerprint = sharedPrint(r.Method, r.URL.RequestURI(), body)
	if name, of := strings.CutPrefix(r.URL.Path, "/v1/agents/"); of {
		q.Agent, _, _ = strings.Cut(name, "/")
	}
	if q.Agent != "" && s.broker.Authorize(q.Agent, broker.Caller{UID: q.UID}) != nil {
		return q, false, nil // which it will be told
	}
	return q, true, nil
}

// sharedPrint returns in which agent's name a request is made, and what tells it from others,
// also from those of other machines: where files and processes are does not.
func sharedPrint(method, uri string, body []byte) (agent, fingerprint string) {
	var said map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&said) == nil {
		for _, name := range []string{"agent", "from"} {
			if a, ok := said[name].(string); ok && a != "" {
				agent = a
			}
		}
		delete(said, "pid")
		delete(said, "folder")
		if targets, ok := said["targets"].([]any); ok {
			for _, t := range targets {
				if t, ok := t.(map[string]any); ok {
					delete(t, "at")
				}
			}
		}
		if same, err := json.Marshal(said); err == nil {
			body = same
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s\n", method, uri)
	hash.Write(body)
	return agent, hex.EncodeToString(hash.Sum(nil))
}

// beginElsewhere begins a request in the cluster that was begun here. If it is not this
// daemon's to work on, it is forgotten here, or answered as it was there.
func (s *Server) beginElsewhere(ctx context.Context, q SharedRequest) (*Answer, error) {
	prior, err := s.elsewhere.Begin(ctx, q)
	kept := context.WithoutCancel(ctx)
	switch {
	case err != nil:
		if derr := s.keys.DropRequest(kept, q.UID, q.Key); derr != nil {
			s.log.Error("the answer to a request could not be remembered", "key", q.Key, "error", derr)
		}
	case prior != nil:
		if ferr := s.keys.FinishRequest(kept, q.UID, q.Key, *prior); ferr != nil {
			s.log.Error("the answer to a request could not be remembered", "key", q.Key, "error", ferr)
		}
	}
	return prior, err
}

// Resolve finds out what a request of a user is answered that was left because of its claim,
// or was cut off. The answer is nil, and the request forgotten, if nothing came of it. It
// fails with *api.Problem as long as that cannot be said.
func (s *Server) Resolve(ctx context.Context, uid int, key string) (*Answer, error) {
	unlock, err := s.flights.locks.Lock(ctx, flight(uid, key))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if answer, err := s.keys.RequestAnswer(ctx, uid, key); answer != nil || err != nil {
		return answer, err
	}
	answer, err := s.resume(ctx, uid, key)
	if answer != nil || err != nil {
		return answer, err
	}
	return nil, s.keys.DropRequest(ctx, uid, key)
}

// busyProblem is the answer to a request that another member works on.
func busyProblem(e *BusyError) *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeNotionUnavailable), e.Error())
	p.RetryIn(retryBusy)
	return p
}

// retryBusy is when to ask again for what another member works on.
const retryBusy = 2 * time.Second
