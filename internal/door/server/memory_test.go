package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// memory is a memory for idempotency keys. It fails the test when it is used
// against its contract, and does nothing once a context has ended.
type memory struct {
	t    testing.TB
	mu   sync.Mutex
	rows map[ownKey]*row
	// lost is why the claims of requests cannot be looked up, nil if they can.
	lost error
}

type row struct {
	fingerprint string
	interrupted bool
	answer      *outbox.Answer
	claim       claim.ID
}

// ownKey is a user's key.
type ownKey struct {
	uid int
	key string
}

// unknown is the user of a pipe, of whom nothing is known.
const unknown = -1

// newMemory returns an empty memory.
func newMemory(t testing.TB) *memory {
	return &memory{t: t, rows: make(map[ownKey]*row)}
}

// BeginRequest begins a request.
func (k *memory) BeginRequest(ctx context.Context, uid int, key, fingerprint string, _ time.Time) (*outbox.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.rows[ownKey{uid, key}]
	switch {
	case !ok:
		k.rows[ownKey{uid, key}] = &row{fingerprint: fingerprint}
		return nil, nil
	case r.fingerprint != fingerprint:
		return nil, outbox.ErrReused
	case r.answer == nil && !r.interrupted && r.claim == "":
		k.t.Errorf("key %q is begun while its first request is in flight", key)
		return nil, outbox.ErrUnanswered
	case r.answer == nil:
		return nil, outbox.ErrUnanswered
	}
	return r.answer, nil
}

// FinishRequest stores the answer.
func (k *memory) FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.rows[ownKey{uid, key}]; !ok || r.answer != nil {
		k.t.Errorf("key %q gets an answer, and needs none", key)
	} else {
		r.answer = &a
	}
	return nil
}

// DropRequest forgets the request.
func (k *memory) DropRequest(ctx context.Context, uid int, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.rows[ownKey{uid, key}]; !ok || r.answer != nil {
		k.t.Errorf("key %q is dropped, and has nothing to drop", key)
	}
	delete(k.rows, ownKey{uid, key})
	return nil
}

// RequestMade returns what was made for the request.
func (k *memory) RequestMade(ctx context.Context, uid int, key string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.rows[ownKey{uid, key}]; ok && k.lost == nil {
		return string(r.claim), nil
	}
	return "", k.lost
}

// Bind notes that the claim was made for the request of that key.
func (k *memory) Bind(key string, id claim.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[ownKey{unknown, key}].claim = id
}

// Lose has looking up claims fail for that reason; nil ends it.
func (k *memory) Lose(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = err
}

// Interrupt turns a request that was answered into one that was cut off before.
func (k *memory) Interrupt(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[ownKey{unknown, key}].answer, k.rows[ownKey{unknown, key}].interrupted = nil, true
}

// Has reports whether the key stands for a request.
func (k *memory) Has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.rows[ownKey{unknown, key}]
	return ok
}

func (k *memory) Away() error { return nil }

func (k *memory) Over() <-chan struct{} { return nil }
