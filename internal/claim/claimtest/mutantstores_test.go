package claimtest_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// looking is a store whose readings are changed on the way to the claimer.
type looking struct {
	claim.Store
	read  func(claim.Reading) claim.Reading
	write func(task.ID, claim.Write) claim.Write
}

func (l looking) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := l.Store.Get(ctx, id)
	return l.read(r), err
}

func (l looking) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	r, err := l.Store.Write(ctx, id, l.write(id, w))
	return l.read(r), err
}

// nameAsToken writes the agent's name where the claim's id would be, and takes
// the name for the id of the claim that the agent made last.
func nameAsToken(_ *sim.Register, s claim.Store) claim.Store {
	var mu sync.Mutex
	names, last := make(map[string]string), make(map[string]string)
	return looking{s,
		func(r claim.Reading) claim.Reading {
			mu.Lock()
			defer mu.Unlock()
			for name, id := range last {
				r.Task.Token = strings.ReplaceAll(r.Task.Token, name, id)
			}
			return r
		},
		func(_ task.ID, w claim.Write) claim.Write {
			mu.Lock()
			defer mu.Unlock()
			if sim.KindOf(&w) == sim.Claims {
				names[*w.Token], last[*w.ClaimedBy] = *w.ClaimedBy, *w.Token
			}
			if w.Token != nil {
				token := *w.Token
				for id, name := range names {
					token = strings.ReplaceAll(token, id, name)
				}
				w.Token = &token
			}
			return w
		},
	}
}

// verifyByQuery reads back what was claimed by a query, which lags behind.
func verifyByQuery(reg *sim.Register, s claim.Store) claim.Store {
	var mu sync.Mutex
	wrote := make(map[task.ID]time.Time)
	lag := rand.New(rand.NewPCG(1, 1))
	return looking{s,
		func(r claim.Reading) claim.Reading {
			mu.Lock()
			defer mu.Unlock()
			at, ok := wrote[r.Task.ID]
			if !ok || time.Since(at) < 2*time.Second {
				return r
			}
			delete(wrote, r.Task.ID)
			seen := time.Now().Add(-time.Duration(lag.Int64N(int64(3 * time.Second))))
			for _, v := range reg.History(r.Task.ID) {
				if !v.From.After(seen) {
					r.Task = v.Task
				}
			}
			return r
		},
		func(id task.ID, w claim.Write) claim.Write {
			mu.Lock()
			defer mu.Unlock()
			if sim.KindOf(&w) == sim.Claims {
				wrote[id] = time.Now()
			}
			return w
		},
	}
}

// staleAMinuteEarly takes what the page says was claimed at 12:00 for a claim
// that was made at 12:00:00, although it may have been at 12:00:59.
func staleAMinuteEarly(_ *sim.Register, s claim.Store) claim.Store {
	return looking{s,
		func(r claim.Reading) claim.Reading {
			r.At = r.At.Add(time.Minute)
			return r
		},
		func(_ task.ID, w claim.Write) claim.Write { return w },
	}
}

// anyDate takes a moment that nobody has confirmed for the time.
func anyDate(_ *sim.Register, s claim.Store) claim.Store {
	return looking{s,
		func(r claim.Reading) claim.Reading {
			if r.Unsure {
				r.At, r.Unsure = r.At.Add(time.Hour), false
			}
			return r
		},
		func(_ task.ID, w claim.Write) claim.Write { return w },
	}
}
