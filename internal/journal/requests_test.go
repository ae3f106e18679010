package journal_test

import (
	"errors"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/outbox"

	"github.com/google/go-cmp/cmp"
)

// wantBegin checks what beginning the request with that key and fingerprint gives.
func wantBegin(t testing.TB, j *journal.Journal, key, fingerprint string, want *outbox.Answer, wantErr error) {
	t.Helper()
	got, err := j.BeginRequest(t.Context(), 1000, key, fingerprint, t0)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Errorf("BeginRequest(%s, %s) error = %v, want %v", key, fingerprint, err, wantErr)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("BeginRequest(%s, %s) (-want +got):\n%s", key, fingerprint, diff)
	}
}

func TestRequests(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	wantBegin(t, j, "k", "claim a", nil, nil)
	wantBegin(t, j, "k", "claim a", nil, outbox.ErrUnanswered)
	wantBegin(t, j, "k", "claim b", nil, outbox.ErrReused)
	wantBegin(t, j, "other", "claim a", nil, nil)

	answer := outbox.Answer{Status: 409, Body: []byte(`{"code":"held"}`)}
	do(t, j.FinishRequest(ctx, 1000, "k", answer))
	do(t, j.FinishRequest(ctx, 1000, "other", outbox.Answer{Status: 204}))
	j = reopen(t, j)
	wantBegin(t, j, "k", "claim a", &answer, nil)
	wantBegin(t, j, "k", "claim b", nil, outbox.ErrReused)
	wantBegin(t, j, "other", "claim a", &outbox.Answer{Status: 204}, nil)

	// An answer, once given, stays.
	if err := j.FinishRequest(ctx, 1000, "k", outbox.Answer{Status: 500}); err == nil {
		t.Error("an answer was replaced")
	}
	do(t, j.DropRequest(ctx, 1000, "k"))
	wantBegin(t, j, "k", "claim a", &answer, nil)
}

func TestDroppedRequestIsForgotten(t *testing.T) {
	j := newJournal(t)
	wantBegin(t, j, "k", "claim a", nil, nil)
	do(t, j.BindRequest(t.Context(), 1000, "k", claim.NewID(t0)))
	do(t, j.DropRequest(t.Context(), 1000, "k"))
	do(t, j.DropRequest(t.Context(), 1000, "k"))
	if err := j.FinishRequest(t.Context(), 1000, "k", outbox.Answer{Status: 200}); err == nil {
		t.Error("a request that was dropped was answered")
	}
	if err := j.BindRequest(t.Context(), 1000, "k", claim.NewID(t0)); err == nil {
		t.Error("a claim was bound to a request that was dropped")
	}
	wantBegin(t, j, "k", "claim b", nil, nil)
	if id, err := j.RequestMade(t.Context(), 1000, "k"); id != "" || err != nil {
		t.Errorf("RequestMade = %v, %v, want none", id, err)
	}
}

func TestOneOwnerOfAKey(t *testing.T) {
	j := newJournal(t)
	var errs [20]error
	race(len(errs), func(i int) { _, errs[i] = j.BeginRequest(t.Context(), 1000, "k", "f", t0) })
	owners := 0
	for _, err := range errs {
		switch {
		case err == nil:
			owners++
		case !errors.Is(err, outbox.ErrUnanswered):
			t.Error(err)
		}
	}
	if owners != 1 {
		t.Errorf("%d own the key, want 1", owners)
	}
}

func TestOpenEndsRequestsInFlight(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	granted := grant(t, j, attempt("Sandman", "a", t0), t0)
	over := grant(t, j, attempt("Sandman", "b", t0), t0)
	save(t, j, ended(over, claim.EndReleased, t0))
	reserved := attempt("Sandman", "c", t0)
	reserve(t, j, reserved, t0)

	for key, id := range map[string]claim.ID{
		"granted": granted.ID, "over": over.ID, "reserved": reserved.ID, "unbound": "",
	} {
		wantBegin(t, j, key, "f", nil, nil)
		if id == "" {
			continue
		}
		do(t, j.BindRequest(ctx, 1000, key, claim.NewID(t0))) // of an earlier attempt
		do(t, j.BindRequest(ctx, 1000, key, id))
	}
	j = reopen(t, j)
	if id, err := j.RequestMade(ctx, 1000, "unbound"); id != "" || err != nil {
		t.Errorf("RequestMade(unbound) = %v, %v, want none", id, err)
	}
	wantBegin(t, j, "unbound", "f", nil, nil)
	// What has become of a claim is the answer, however late it is asked for.
	save(t, j, ended(granted, claim.EndReleased, t0))
	for range 2 {
		j = reopen(t, j)
		for key, id := range map[string]claim.ID{"granted": granted.ID, "over": over.ID, "reserved": reserved.ID} {
			wantBegin(t, j, key, "f", nil, outbox.ErrUnanswered)
			wantBegin(t, j, key, "g", nil, outbox.ErrReused)
			if made, err := j.RequestMade(ctx, 1000, key); made != string(id) || err != nil {
				t.Errorf("RequestMade(%s) = %v, %v, want %v", key, made, err, id)
			}
		}
	}
	answer := outbox.Answer{Status: 201, Body: []byte("{}")}
	do(t, j.FinishRequest(ctx, 1000, "granted", answer))
	wantBegin(t, j, "granted", "f", &answer, nil)
}

// A request that has made a task keeps its key until it is known that the task is there.
func TestKeysOfTasksThatAreMade(t *testing.T) {
	ctx := t.Context()
	j := newJournal(t)
	wantBegin(t, j, "k", "f", nil, nil)
	in, err := j.Owe(ctx, outbox.Intent{ID: "c", Kind: outbox.Creation, At: t0, UID: 1000, Key: "k"})
	do(t, err)
	j = reopen(t, j)
	wantBegin(t, j, "k", "f", nil, outbox.ErrUnanswered)
	wantBegin(t, j, "k", "g", nil, outbox.ErrReused)
	if id, err := j.RequestMade(ctx, 1000, "k"); id != "c" || err != nil {
		t.Errorf("RequestMade = %q, %v", id, err)
	}
	do(t, j.Drop(ctx, in)) // it came to nothing
	if id, err := j.RequestMade(ctx, 1000, "k"); id != "" || err != nil {
		t.Errorf("RequestMade = %q, %v", id, err)
	}
	j = reopen(t, j)
	wantBegin(t, j, "k", "g", nil, nil)
}
