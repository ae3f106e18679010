package sim

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

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

// Kind is the purpose of a request.
type Kind string

// The kinds of requests.
const (
	Reads       Kind = "read"
	Claims      Kind = "claim" // also a claim written back by its holder
	Renewals    Kind = "renewal"
	Completions Kind = "completion"
	Reviews     Kind = "review"
	Openings    Kind = "opening"  // a release, a sweep, the second step of a withdrawal
	Blockings   Kind = "blocking" // also a failure
	Voidings    Kind = "voiding"
)

// KindOf returns the kind of a write; nil stands for a read.
func KindOf(w *claim.Write) Kind {
	switch {
	case w == nil:
		return Reads
	case w.Status == nil && w.Token == nil:
		return Renewals
	case w.Token != nil && strings.HasPrefix(*w.Token, "void "):
		return Voidings
	case w.Status == nil:
		return Openings // a withdrawal from a task whose status a person set
	case *w.Status == task.InProgress:
		return Claims
	case *w.Status == task.Completed:
		return Completions
	case *w.Status == task.Review:
		return Reviews
	case *w.Status == task.Blocked, *w.Status == task.Failed:
		return Blockings
	}
	return Openings
}

// Pick selects requests by their task and their write; nil is a read.
type Pick func(task.ID, *claim.Write) bool

// Every selects the requests of the given kinds.
func Every(kinds ...Kind) Pick {
	return func(_ task.ID, w *claim.Write) bool { return slices.Contains(kinds, KindOf(w)) }
}

// On applies a fault to the requests that pick selects.
func On(pick Pick, f Fault) Fault {
	return func(s claim.Store) claim.Store {
		return picky{s, func(id task.ID, w *claim.Write) claim.Store {
			if pick(id, w) {
				return f(s)
			}
			return s
		}}
	}
}

// InTurn applies the first of the faults to the first request of a kind, the second to the
// second, and so on; nil spares a request.
func InTurn(kind Kind, faults ...Fault) Fault {
	var mu sync.Mutex
	return func(s claim.Store) claim.Store {
		return picky{s, func(_ task.ID, w *claim.Write) claim.Store {
			mu.Lock()
			defer mu.Unlock()
			if KindOf(w) != kind || len(faults) == 0 {
				return s
			}
			f := faults[0]
			faults = faults[1:]
			if f == nil {
				return s
			}
			return f(s)
		}}
	}
}

// Sometimes applies one of the faults, drawn at random, with the given probability to a request
// that pick selects. The seed decides. Each task has its own sequence of draws.
func Sometimes(seed uint64, probability float64, pick Pick, faults ...Fault) Fault {
	var mu sync.Mutex
	draws := make(map[task.ID]*rand.Rand)
	return func(s claim.Store) claim.Store {
		return picky{s, func(id task.ID, w *claim.Write) claim.Store {
			if !pick(id, w) {
				return s
			}
			mu.Lock()
			defer mu.Unlock()
			if draws[id] == nil {
				h := fnv.New64a()
				h.Write([]byte(id))
				draws[id] = rand.New(rand.NewPCG(seed, h.Sum64()))
			}
			if draws[id].Float64() >= probability {
				return s
			}
			return faults[draws[id].IntN(len(faults))](s)
		}}
	}
}

// picky is a store that chooses another store for each request.
type picky struct {
	claim.Store
	choose func(task.ID, *claim.Write) claim.Store
}

func (p picky) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return p.choose(id, nil).Get(ctx, id)
}

func (p picky) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return p.choose(id, &w).Write(ctx, id, w)
}
