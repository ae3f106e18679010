package sim

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Fault makes a store fail in one way, in every call that it applies to. See On and Sometimes
// for choosing the calls.
type Fault func(claim.Store) claim.Store

// faultyWrite is a store with its own Write.
type faultyWrite struct {
	claim.Store
	write func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error)
}

func (f faultyWrite) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return f.write(ctx, f.Store, id, w)
}

// faultyGet is a store with its own Get.
type faultyGet struct {
	claim.Store
	get func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error)
}

func (f faultyGet) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return f.get(ctx, f.Store, id)
}

// Slow delays a write on its way there and its answer on the way back.
func Slow(before, after time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			if err := Sleep(ctx, before); err != nil {
				return claim.Reading{}, unanswered(id, err)
			}
			r, err := s.Write(ctx, id, w)
			if err := Sleep(ctx, after); err != nil {
				return claim.Reading{}, unanswered(id, err)
			}
			return r, err
		}}
	}
}

// SavedBut503 saves a write and answers 503, saying that it was saved.
func SavedBut503(s claim.Store) claim.Store {
	return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
		if _, err := s.Write(ctx, id, w); err != nil {
			return claim.Reading{}, err
		}
		return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedYes, "page %s: 503 service_unavailable: saved", id)
	}}
}

// AnswerDropped saves a write and then drops the connection.
func AnswerDropped(s claim.Store) claim.Store {
	return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
		if _, err := s.Write(ctx, id, w); err != nil {
			return claim.Reading{}, err
		}
		return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: connection reset", id)
	}}
}

// RequestDropped drops the connection before a write arrives.
func RequestDropped(s claim.Store) claim.Store {
	return faultyWrite{s, func(_ context.Context, _ claim.Store, id task.ID, _ claim.Write) (claim.Reading, error) {
		return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: connection reset", id)
	}}
}

// NotApplied acknowledges a write, shows the page as it was, and drops the write.
func NotApplied(s claim.Store) claim.Store {
	return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, _ claim.Write) (claim.Reading, error) {
		return s.Get(ctx, id)
	}}
}

// AppliedLate acknowledges a write, shows the page as it was, and applies the write after the
// given time.
func AppliedLate(by time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			landLater(ctx, s, id, w, by)
			return s.Get(ctx, id)
		}}
	}
}

// Late drops the connection, and applies the write after the given time.
func Late(by time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			landLater(ctx, s, id, w, by)
			return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: connection reset", id)
		}}
	}
}

func landLater(ctx context.Context, s claim.Store, id task.ID, w claim.Write, by time.Duration) {
	ctx = instantly(context.WithoutCancel(ctx))
	time.AfterFunc(by, func() { _, _ = s.Write(ctx, id, w) })
}

// Fails answers a write with a status that leaves open whether it was saved
// (409, 500, 502, 503, 504); saved says whether it was.
func Fails(status int, saved bool) Fault {
	return func(s claim.Store) claim.Store {
		return faultyWrite{s, func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			if saved {
				if _, err := s.Write(ctx, id, w); err != nil {
					return claim.Reading{}, err
				}
			}
			return claim.Reading{}, claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: %d", id, status)
		}}
	}
}

// TurnedAway answers a write with 429 or 529 and asks for a pause.
func TurnedAway(status int, retryAfter time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return faultyWrite{s, func(_ context.Context, _ claim.Store, id task.ID, _ claim.Write) (claim.Reading, error) {
			err := claim.Errorf(claim.Unavailable, claim.LandedNo, "page %s: %d", id, status)
			err.RetryAfter = retryAfter
			return claim.Reading{}, err
		}}
	}
}

// WriteRefused refuses a write for good.
func WriteRefused(s claim.Store) claim.Store {
	return faultyWrite{s, func(_ context.Context, _ claim.Store, id task.ID, _ claim.Write) (claim.Reading, error) {
		return claim.Reading{}, claim.Errorf(claim.Refused, claim.LandedNo, "page %s: 400 validation_error", id)
	}}
}

// ReadFails answers a read with an error of the given kind.
func ReadFails(kind claim.StoreErrorKind) Fault {
	return func(s claim.Store) claim.Store {
		return faultyGet{s, func(_ context.Context, _ claim.Store, id task.ID) (claim.Reading, error) {
			return claim.Reading{}, claim.Errorf(kind, claim.LandedNo, "page %s: cannot be read", id)
		}}
	}
}

// SlowRead delays the answer to a read.
func SlowRead(after time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return faultyGet{s, func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
			r, err := s.Get(ctx, id)
			if err := Sleep(ctx, after); err != nil {
				return claim.Reading{}, unanswered(id, err)
			}
			return r, err
		}}
	}
}

// Outage makes every request fail while away returns true. None arrives.
func Outage(away func() bool) Fault {
	none := claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503 service_unavailable")
	return func(s claim.Store) claim.Store {
		down := faultyGet{faultyWrite{s, func(context.Context, claim.Store, task.ID, claim.Write) (claim.Reading, error) {
			return claim.Reading{}, none
		}}, func(context.Context, claim.Store, task.ID) (claim.Reading, error) {
			return claim.Reading{}, none
		}}
		return picky{s, func(task.ID, *claim.Write) claim.Store {
			if away() {
				return down
			}
			return s
		}}
	}
}
