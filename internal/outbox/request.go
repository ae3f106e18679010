package outbox

import "errors"

// Answer is the stored answer to a request. It is given again if the request is repeated.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of a request that comes under an idempotency key.
var (
	// ErrReused: the key belongs to another request.
	ErrReused = errors.New("the idempotency key was used for another request: use a new one")
	// ErrUnanswered: a request with that key was cut off before it was answered. The answer now
	// depends on what became of the claim or task that was made for it.
	ErrUnanswered = errors.New("the request with this idempotency key was cut off")
)
