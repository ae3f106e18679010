package claimtest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// memory is what a mutated store remembers of a daemon's requests about each task.
type memory struct {
	mu    sync.Mutex
	tasks map[task.ID]*remembered
}

type remembered struct {
	own  claim.ID  // of the claim that was written last
	mark string    // the token of the sweep that is under way
	last task.Task // as it was read last

}

func newMemory() *memory { return &memory{tasks: make(map[task.ID]*remembered)} }

// of lets do have what is remembered of a task.
func (m *memory) of(id task.ID, do func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[id] == nil {
		m.tasks[id] = &remembered{}
	}
	do(m.tasks[id])
}

// isMark reports whether w is the mark of a sweep.
func isMark(w claim.Write) bool {
	return sim.KindOf(&w) == sim.Voidings && w.ClaimedAt != nil
}

// stepping is a store with other ways of reading and of writing.
type stepping struct {
	claim.Store
	get   func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error)
	write func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error)
}

func (s stepping) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if s.get == nil {
		return s.Store.Get(ctx, id)
	}
	return s.get(ctx, s.Store, id)
}

func (s stepping) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if s.write == nil {
		return s.Store.Write(ctx, id, w)
	}
	return s.write(ctx, s.Store, id, w)
}

// monotonicAlone measures by the clock that stands still while the machine is suspended.
func monotonicAlone(d *sim.DaemonOptions) {
	d.Clocks = func(read func() clock.Instant) func() clock.Instant {
		return func() clock.Instant {
			now := read()
			now.Wall = time.Time{}.Add(now.Mono)
			return now
		}
	}
}

// anyDone takes the completion under any claim for that of the one it wrote last.
func anyDone(_ *sim.Register, s claim.Store) claim.Store {
	m := newMemory()
	return stepping{s,
		func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
			r, err := s.Get(ctx, id)
			m.of(id, func(of *remembered) {
				if claim.ParseToken(r.Task.Token).Done && of.own != "" {
					r.Task.Token = "done " + string(of.own)
				}
			})
			return r, err
		},
		func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			m.of(id, func(of *remembered) {
				if sim.KindOf(&w) == sim.Claims {
					of.own = claim.ID(*w.Token)
				}
			})
			return s.Write(ctx, id, w)
		},
	}
}

// markNotLookedFor takes for granted that the mark of a sweep is still there when it has
// settled.
func markNotLookedFor(_ *sim.Register, s claim.Store) claim.Store {
	m := newMemory()
	return stepping{s,
		func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
			r, err := s.Get(ctx, id)
			m.of(id, func(of *remembered) {
				if err == nil && of.mark != "" {
					r.Task.Token, of.mark = of.mark, ""
				}
			})
			return r, err
		},
		func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			r, err := s.Write(ctx, id, w)
			if err == nil && isMark(w) {
				m.of(id, func(of *remembered) { of.mark = *w.Token })
			}
			return r, err
		},
	}
}

// noMark reopens a task whose claim is stale without having marked it.
func noMark(_ *sim.Register, s claim.Store) claim.Store {
	m := newMemory()
	marked := func(t task.Task, mark string) task.Task {
		t.Token, t.ClaimedAt = mark, time.Now().Truncate(time.Minute).UTC()
		return t
	}
	return stepping{s,
		func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
			r, err := s.Get(ctx, id)
			m.of(id, func(of *remembered) {
				if err != nil {
					return
				}
				if of.mark != "" && r.Task.Token == of.last.Token {
					r.Task = marked(r.Task, of.mark)
				} else {
					of.last = r.Task
				}
				of.mark = ""
			})
			return r, err
		},
		func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			if !isMark(w) {
				return s.Write(ctx, id, w)
			}
			var r claim.Reading
			m.of(id, func(of *remembered) {
				of.mark = *w.Token
				r = claim.Reading{Task: marked(of.last, of.mark), At: s.Now().Truncate(time.Second)}
			})
			return r, nil
		},
	}
}

// noSettleOfMark reopens a task as soon as it was marked.
func noSettleOfMark(_ *sim.Register, s claim.Store) claim.Store {
	return stepping{Store: s,
		write: func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			r, err := s.Write(ctx, id, w)
			if err != nil || !isMark(w) {
				return r, err
			}
			two, cancel := context.WithCancel(ctx)
			defer cancel()
			if two, perr := s.Permit(two, 2); perr == nil {
				if now, gerr := s.Get(two, id); gerr == nil && now.Task.Token == *w.Token {
					_, _ = s.Write(two, id, claim.Write{
						Status: new(task.Open), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new(""),
					})
				}
			}
			return r, err
		},
	}
}

// noSettleOfRenewal takes every renewal for one that came in good time.
func noSettleOfRenewal(_ *sim.Register, s claim.Store) claim.Store {
	return stepping{Store: s,
		write: func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
			r, err := s.Write(ctx, id, w)
			if sim.KindOf(&w) == sim.Renewals {
				r.At = r.At.Add(-time.Hour)
			}
			return r, err
		},
	}
}

// finishNotRenewed does not see that the lease of a claim that is to be ended is over.
func finishNotRenewed(d *sim.DaemonOptions) {
	m := newMemory()
	rest := d.Fault
	d.Fault = func(s claim.Store) claim.Store {
		return stepping{Store: rest(s),
			get: func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
				r, err := s.Get(ctx, id)
				m.of(id, func(of *remembered) {
					if of.own != "" && r.Task.Token == string(of.own) {
						r.At = r.At.Add(-time.Hour)
					}
				})
				return r, err
			},
		}
	}
	d.Journal = watching(d.Journal, func(c claim.Hold) bool {
		m.of(c.Task.ID, func(of *remembered) {
			switch {
			case c.State == claim.Finishing:
				of.own = c.ID
			case of.own == c.ID:
				of.own = ""
			}
		})
		return true
	})
}

// staleAtOnce overrides a claim as soon as the lease is over, when its holder is not yet out of the
// way.
func staleAtOnce(d *sim.DaemonOptions) {
	m, rest, early := newMemory(), d.Fault, d.Policy.WriteWindow+d.Policy.Settle+10*time.Second
	d.Fault = func(s claim.Store) claim.Store {
		return stepping{rest(s),
			func(ctx context.Context, s claim.Store, id task.ID) (claim.Reading, error) {
				r, err := s.Get(ctx, id)
				m.of(id, func(of *remembered) {
					if r.Task.Token != string(of.own) {
						r.At = r.At.Add(early)
					}
				})
				return r, err
			},
			func(ctx context.Context, s claim.Store, id task.ID, w claim.Write) (claim.Reading, error) {
				m.of(id, func(of *remembered) {
					if sim.KindOf(&w) == sim.Claims {
						of.own = claim.ID(*w.Token)
					}
				})
				return s.Write(ctx, id, w)
			},
		}
	}
}

// notJournalled sends a claim write of which the ledger does not know.
func notJournalled(d *sim.DaemonOptions) {
	d.Journal = watching(d.Journal, func(c claim.Hold) bool { return c.State != claim.Writing })
}

// watching asks before each change of a claim whether it is to be stored.
func watching(rest func(claim.Ledger) claim.Ledger, keep func(claim.Hold) bool) func(claim.Ledger) claim.Ledger {
	return func(l claim.Ledger) claim.Ledger {
		if rest != nil {
			l = rest(l)
		}
		return watchedLedger{l, keep}
	}
}

type watchedLedger struct {
	claim.Ledger
	keep func(claim.Hold) bool
}

func (l watchedLedger) Save(ctx context.Context, ch claim.Change) error {
	for _, h := range ch.Holds {
		if !l.keep(h) {
			return nil
		}
	}
	return l.Ledger.Save(ctx, ch)
}

// caseLeftOut has a finish written although the lease is over.
func caseLeftOut(d *sim.DaemonOptions) {
	d.Cases = slices.DeleteFunc(claim.Protocol(), func(c claim.Case) bool {
		return c.On == claim.Delivery && c.If == "the lease is over, or may be before what gives the task back must have arrived"
	})
}

// casesSwapped has a mark taken off before it is looked whether it is still there.
func casesSwapped(d *sim.DaemonOptions) {
	d.Cases = claim.Protocol()
	find := func(condition string) int {
		return slices.IndexFunc(d.Cases, func(c claim.Case) bool { return c.On == claim.Cleanup && c.If == condition })
	}
	i, j := find("the page is somebody else's by now, or in the trash, or its lease is over"), find("the mark is on the page")
	d.Cases[i], d.Cases[j] = d.Cases[j], d.Cases[i]
}
