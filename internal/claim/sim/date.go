package sim

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// dateKey is the context key of a function that changes the Date of an answer: func(time.Time)
// (_ time.Time, ok bool). ok is false if the answer has no Date.
type dateKey struct{}

// misdated is a store whose answers have wrong Dates.
type misdated struct {
	claim.Store
	date func(time.Time) (time.Time, bool)
}

func (m misdated) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, dateKey{}, m.date)
}

func (m misdated) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return m.Store.Get(m.in(ctx), id)
}

func (m misdated) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return m.Store.Write(m.in(ctx), id, w)
}

// WrongDate moves the Date of an answer by the given time.
func WrongDate(by time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return misdated{s, func(date time.Time) (time.Time, bool) { return date.Add(by), true }}
	}
}

// NoDate leaves the Date out of an answer.
func NoDate(s claim.Store) claim.Store {
	return misdated{s, func(time.Time) (time.Time, bool) { return time.Time{}, false }}
}
