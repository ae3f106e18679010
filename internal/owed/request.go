package owed

import "errors"

// Answer is what a request was answered, to be given again if it comes again.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of a request that comes under an idempotency key.
var (
	// ErrReused: the key belongs to another request.
	ErrReused = errors.New("the idempotency key was used for another request: use a new one")
	// ErrUnanswered: a request with that key was begun, and never got to its end. The answer
	// is to be made from what has become of what was made for it.
	ErrUnanswered = errors.New("the request with this idempotency key was cut off")
)
