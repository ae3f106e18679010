package sim

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"dibs/internal/claim"
	"dibs/internal/task"
)

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
