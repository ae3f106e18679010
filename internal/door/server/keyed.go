package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// keyed makes requests idempotent: a user who repeats a request under its idempotency key gets the
// first answer. A repetition during the first request waits for its answer. Requests that were not
// carried out, or failed in a way that may pass, are not remembered, so that a retry is a new
// attempt. The answer to a poll is not stored either: the triggers themselves record who took them,
// as somebody else may have them by then.
func (s *Server) keyed(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(api.KeyHeader)
		if r.Method != http.MethodPost || len(values) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		key := values[0]
		if err := api.ValidateKey(key); err != nil || len(values) > 1 {
			writeProblem(w, api.NewProblem(api.CodeInvalidRequest, "want one header "+api.KeyHeader+": an idempotency key is 1 to 200 printable ASCII characters"))
			return
		}
		fingerprint, err := fingerprintOf(r)
		if err != nil {
			writeProblem(w, s.problem(r.Context(), err))
			return
		}
		leave, patient, err := s.flights.enter(r.Context(), flight(caller(r.Context()), key), fingerprint)
		if err != nil {
			writeProblem(w, s.keyProblem(r.Context(), err))
			return
		}
		defer leave()
		asked := r
		r = r.WithContext(patient)

		prior, err := s.begin(r, key, fingerprint)
		if err != nil {
			writeProblem(w, s.keyProblem(r.Context(), err))
			return
		}
		if prior != nil {
			w.Header().Set(api.ReplayedHeader, "true")
			writeAnswer(w, *prior)
			return
		}
		answer := &recordedAnswer{ResponseWriter: w}
		named := r.WithContext(context.WithValue(r.Context(), keyedKey{}, key))
		func() {
			defer func() { // also after a panic
				asked.Pattern = named.Pattern // which is what observed tells of
				s.conclude(r, key, answer.Answer)
			}()
			next.ServeHTTP(answer, named)
		}()
		writeAnswer(w, answer.Answer)
	})
}

// begin begins a request. It returns the answer of an earlier one, or derives it from the claim
// that the earlier one made. An operation that makes a task finds out itself what became of it.
func (s *Server) begin(r *http.Request, key, fingerprint string) (*outbox.Answer, error) {
	ctx := r.Context()
	prior, err := s.journal.BeginRequest(ctx, caller(ctx), key, fingerprint, time.Now())
	if !errors.Is(err, outbox.ErrUnanswered) {
		return prior, err
	}
	if api.OperationOf(r).Repeat == api.Made {
		return nil, nil
	}
	prior, err = s.resume(ctx, caller(ctx), key)
	if prior != nil || err != nil {
		return prior, err
	}
	if err := s.journal.DropRequest(ctx, caller(ctx), key); err != nil {
		return nil, err
	}
	return s.journal.BeginRequest(ctx, caller(ctx), key, fingerprint, time.Now())
}

// resume derives the answer to an interrupted request from the claim made for it. It returns nil if
// no claim was granted and nothing is left of the attempt: the request can then be made again.
func (s *Server) resume(ctx context.Context, uid int, key string) (*outbox.Answer, error) {
	id, err := s.journal.RequestMade(ctx, uid, key)
	if err != nil || id == "" {
		return nil, err
	}
	c, err := s.broker.GetClaim(ctx, s.caller(ctx), &api.GetClaimInput{ID: id})
	if errors.Is(err, claim.ErrUnknownClaim) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	askAgain := func(code claim.Code, why string) (*outbox.Answer, error) {
		p := api.NewProblem(api.Code(code), why+": ask again with the same key")
		p.RetryIn(broker.RetryUnavailable)
		return nil, p
	}
	var status int
	var body any
	switch {
	case c.State == claim.Held:
		status, body = http.StatusCreated, c
	case c.State == claim.Reserved, c.State == claim.Writing:
		return askAgain(claim.CodeNotionUnavailable, "what became of the first request with this idempotency key is still being found out")
	case c.Withdrawing:
		// A new attempt would be refused because of this one's remains on the page. One that was
		// never seen there left none.
		return askAgain(claim.CodeNotionUnavailable, "the claim that the first request with this idempotency key made could not be verified and is being withdrawn")
	case c.Unheard && c.State == claim.Finishing: // the way to this member was cut: it was lost to nobody
		return askAgain(claim.CodeJournalUnavailable, "nobody heard of the claim that was granted to this request, and it is being given back")
	case c.Unheard:
		return nil, nil
	case c.State == claim.Finishing, c.State == claim.Ended && c.Outcome != claim.EndNotGranted:
		p := api.NewProblem(api.CodeClaimLost, fmt.Sprintf("the claim that was granted to this request has ended: %s", c.Outcome))
		p.Claim, p.Task = &c, &c.Task
		status, body = p.Status, p
	default:
		return nil, nil
	}
	var buf bytes.Buffer
	if err := encode(&buf, body); err != nil {
		return nil, err
	}
	answer := outbox.Answer{Status: status, Body: buf.Bytes()}
	return &answer, s.journal.FinishRequest(ctx, uid, key, answer)
}

// conclude stores the answer to a request, or forgets the request. A failed request is kept if a
// claim or a task was made for it, or if that cannot be found out: its answer is derived from them
// later.
func (s *Server) conclude(r *http.Request, key string, a outbox.Answer) {
	ctx := context.WithoutCancel(r.Context()) // a caller that went away may come back for its answer
	var err error
	if remembered(a, api.OperationOf(r).Repeat) {
		err = s.journal.FinishRequest(ctx, caller(ctx), key, a)
	} else if made, lookupErr := s.journal.RequestMade(ctx, caller(ctx), key); made != "" || lookupErr != nil {
		err = lookupErr
	} else {
		err = s.journal.DropRequest(ctx, caller(ctx), key)
	}
	if err != nil {
		s.log.Error("could not store the answer to a request", "idempotency_key", key, claim.AttrError, err)
	}
}

// remembered reports whether the answer is final and worth storing. That a claim is unknown is not:
// nothing was done, and made-up ids and keys would fill the disk. Nor is that a task is not done: it
// may be soon, under the same key. repeat says what a repetition
// gets.
func remembered(a outbox.Answer, repeat api.Repeat) bool {
	if repeat == api.Anew || repeat == api.Made && a.Status >= http.StatusBadRequest {
		return false
	}
	switch a.Status {
	case http.StatusConflict, http.StatusNotFound:
		var p api.Problem
		return json.Unmarshal(a.Body, &p) == nil && p.Code != api.CodeUnknownClaim && p.Code != api.CodeNotDone
	}
	return a.Status < http.StatusBadRequest && a.Status != 0
}

func (s *Server) keyProblem(ctx context.Context, err error) *api.Problem {
	if errors.Is(err, outbox.ErrReused) {
		return api.NewProblem(api.CodeKeyReused, outbox.ErrReused.Error())
	}
	return s.problem(ctx, err)
}

// fingerprintOf identifies a request by its user, route and what its body means.
func fingerprintOf(r *http.Request) (string, error) {
	body, err := bodyOf(r)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%d %s %s\n", caller(r.Context()), r.Method, r.URL.RequestURI())
	hash.Write(api.OperationOf(r).Canonical(body))
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// bodyOf returns the body of a request, which can still be read afterwards.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}
