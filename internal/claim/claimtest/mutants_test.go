package claimtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// A mutant is the protocol with one of its parts taken out: by a policy that no
// configuration allows, or by a store, a ledger or clocks that tell the claimer what it
// would see, and write what it would write, without that part.
type mutant struct {
	policy func(*claim.Policy)
	store  func(*sim.Register, claim.Store) claim.Store
	// daemon changes what a daemon is made of, where a store is not enough.
	daemon func(*sim.DaemonOptions)
	// scene is the kind of race in which it shows soonest, and seed that of the race with
	// which to begin; 0 for the first.
	scene Scene
	seed  uint64
}

// options are those of the races of a mutant.
func (m mutant) options() RaceOptions {
	o := RaceOptions{Policy: RacePolicy(), Scene: m.scene}
	if m.policy != nil {
		m.policy(&o.Policy)
	}
	switch {
	case m.store != nil:
		o.Mutate = func(reg *sim.Register, d *sim.DaemonOptions) {
			rest := d.Fault
			d.Fault = func(s claim.Store) claim.Store { return m.store(reg, rest(s)) }
		}
	case m.daemon != nil:
		o.Mutate = func(_ *sim.Register, d *sim.DaemonOptions) { m.daemon(d) }
	}
	return o
}

// only lifts the rule that the settle wait has to be longer than the window.
func only(change func(*claim.Policy)) func(*claim.Policy) {
	return func(p *claim.Policy) {
		p.Exclusive = true
		change(p)
	}
}

var mutants = map[string]mutant{
	"no settle wait":               {policy: only(func(p *claim.Policy) { p.Settle = 0 })},
	"settle wait below the window": {policy: only(func(p *claim.Policy) { p.Settle = p.WriteWindow / 2 })},
	"no window check":              {policy: only(func(p *claim.Policy) { p.WriteWindow = time.Minute })},
	"the agent's name as token":    {store: nameAsToken},
	"verifying by query":           {store: verifyByQuery, seed: 36},
	"stale without the minute":     {store: staleAMinuteEarly},
	"any Date believed":            {store: anyDate},

	"window by the monotonic clock alone":     {daemon: monotonicAlone, scene: Standing, seed: 32},
	"done by another claim":                   {store: anyDone, scene: AtLeaseEnd, seed: 938},
	"sweep reopens although its mark is gone": {store: markNotLookedFor, scene: AtLeaseEnd},
	"sweep without a mark":                    {store: noMark, scene: AtLeaseEnd},
	"sweep without a settle wait":             {store: noSettleOfMark, scene: AtLeaseEnd, seed: 346},
	"renewal without a settle wait":           {store: noSettleOfRenewal, scene: AtLeaseEnd, seed: 879},
	"finish past the lease, not renewed":      {daemon: finishNotRenewed, scene: AtLeaseEnd, seed: 433},
	"stale without the clock allowance":       {daemon: staleAtOnce, scene: AtLeaseEnd, seed: 2751},
	"written before it is journalled":         {daemon: notJournalled, seed: 750},
	"freed twice":                             {daemon: freedTwice},
	"a ledger without epochs":                 {daemon: noEpoch, seed: 42},
	"a case left out":                         {daemon: caseLeftOut, scene: AtLeaseEnd, seed: 433},
	"two cases swapped":                       {daemon: casesSwapped, scene: AtLeaseEnd},
}

// The suite finds each mutant out. That it finds nothing wrong with the protocol
// itself is what TestEverySchedule and TestRaces are about.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught := firstWrong(t, m.options(), max(1, m.seed))
			if caught == "" {
				t.Error("survived")
			}
			t.Logf("caught: %s", caught)
		})
	}
}

// races is how many races have to find a mutant out.
const races = 2_000

// firstWrong runs the explorer, where the policy alone is changed, and races from a seed
// on, and returns the first thing that went wrong.
func firstWrong(t *testing.T, o RaceOptions, from uint64) string {
	t.Helper()
	if o.Mutate == nil {
		if _, failures := explored(t, 2, o.Policy); len(failures) > 0 {
			return failures[0]
		}
	}
	for o.Seed = from; o.Seed < from+races; o.Seed++ {
		if wrong := run(t, o).Book.Wrong(); len(wrong) > 0 {
			return wrong[0]
		}
	}
	return ""
}

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

// lens is a store seen through changes: of what is read, of what is sent, and of what a write was answered.
type lens struct {
	claim.Store
	got   func(*claim.Reading)
	sends func(task.ID, *claim.Write)
	wrote func(context.Context, claim.Write, *claim.Reading)
}

func (l lens) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := l.Store.Get(ctx, id)
	if err == nil && l.got != nil {
		l.got(&r)
	}
	return r, err
}

func (l lens) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if l.sends != nil {
		l.sends(id, &w)
	}
	r, err := l.Store.Write(ctx, id, w)
	if err == nil && l.wrote != nil {
		l.wrote(ctx, w, &r)
	}
	return r, err
}

// claims notes which claim was written last.
func (m *memory) claims(id task.ID, w *claim.Write) {
	m.of(id, func(of *remembered) {
		if sim.KindOf(w) == sim.Claims {
			of.own = claim.ID(*w.Token)
		}
	})
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
	return lens{Store: s, sends: m.claims, got: func(r *claim.Reading) {
		m.of(r.Task.ID, func(of *remembered) {
			if claim.ParseToken(r.Task.Token).Done && of.own != "" {
				r.Task.Token = "done " + string(of.own)
			}
		})
	}}
}

// markNotLookedFor takes for granted that the mark of a sweep is still there when it has
// settled.
func markNotLookedFor(_ *sim.Register, s claim.Store) claim.Store {
	m := newMemory()
	return lens{
		Store: s,
		got: func(r *claim.Reading) {
			m.of(r.Task.ID, func(of *remembered) {
				if of.mark != "" {
					r.Task.Token, of.mark = of.mark, ""
				}
			})
		},
		wrote: func(_ context.Context, w claim.Write, r *claim.Reading) {
			if isMark(w) {
				m.of(r.Task.ID, func(of *remembered) { of.mark = *w.Token })
			}
		},
	}
}

// noMark reopens a task whose claim is stale without having marked it.
func noMark(_ *sim.Register, s claim.Store) claim.Store {
	m := newMemory()
	return unmarked{lens{Store: s, got: func(r *claim.Reading) {
		m.of(r.Task.ID, func(of *remembered) {
			if of.mark != "" && r.Task.Token == of.last.Token {
				r.Task = marked(r.Task, of.mark)
			} else {
				of.last = r.Task
			}
			of.mark = ""
		})
	}}, m}
}

// unmarked does not write the marks of sweeps.
type unmarked struct {
	lens
	*memory
}

func (u unmarked) Write(ctx context.Context, id task.ID, w claim.Write) (r claim.Reading, err error) {
	if !isMark(w) {
		return u.lens.Write(ctx, id, w)
	}
	u.of(id, func(of *remembered) {
		of.mark = *w.Token
		r = claim.Reading{Task: marked(of.last, of.mark), At: u.Now().Truncate(time.Second)}
	})
	return r, nil
}

func marked(t task.Task, mark string) task.Task {
	t.Token, t.ClaimedAt = mark, time.Now().Truncate(time.Minute).UTC()
	return t
}

// noSettleOfMark reopens a task as soon as it was marked.
func noSettleOfMark(_ *sim.Register, s claim.Store) claim.Store {
	return lens{Store: s, wrote: func(ctx context.Context, w claim.Write, r *claim.Reading) {
		if !isMark(w) {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		id := r.Task.ID
		if two, err := s.Permit(ctx, 2); err == nil {
			if now, err := s.Get(two, id); err == nil && now.Task.Token == *w.Token {
				_, _ = s.Write(two, id, claim.Write{Status: new(task.Open), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new("")})
			}
		}
	}}
}

// noSettleOfRenewal takes every renewal for one that came in good time.
func noSettleOfRenewal(_ *sim.Register, s claim.Store) claim.Store {
	return lens{Store: s, wrote: func(_ context.Context, w claim.Write, r *claim.Reading) {
		if sim.KindOf(&w) == sim.Renewals {
			r.At = r.At.Add(-time.Hour)
		}
	}}
}

// finishNotRenewed does not see that the lease of a claim that is to be ended is over.
func finishNotRenewed(d *sim.DaemonOptions) {
	m, rest := newMemory(), d.Fault
	d.Fault = func(s claim.Store) claim.Store {
		return lens{Store: rest(s), got: func(r *claim.Reading) {
			m.of(r.Task.ID, func(of *remembered) {
				if of.own != "" && r.Task.Token == string(of.own) {
					r.At = r.At.Add(-time.Hour)
				}
			})
		}}
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
		return lens{Store: rest(s), sends: m.claims, got: func(r *claim.Reading) {
			m.of(r.Task.ID, func(of *remembered) {
				if r.Task.Token != string(of.own) {
					r.At = r.At.Add(early)
				}
			})
		}}
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

// looking is a lens for every reading, also for what a write was answered.
func looking(s claim.Store, look func(*claim.Reading), sends func(task.ID, *claim.Write)) claim.Store {
	return lens{s, look, sends, func(_ context.Context, _ claim.Write, r *claim.Reading) { look(r) }}
}

// nameAsToken writes the agent's name where the claim's id would be, and takes
// the name for the id of the claim that the agent made last.
func nameAsToken(_ *sim.Register, s claim.Store) claim.Store {
	var mu sync.Mutex
	names, last := make(map[string]string), make(map[string]string)
	return looking(s,
		func(r *claim.Reading) {
			mu.Lock()
			defer mu.Unlock()
			for name, id := range last {
				r.Task.Token = strings.ReplaceAll(r.Task.Token, name, id)
			}
		},
		func(_ task.ID, w *claim.Write) {
			mu.Lock()
			defer mu.Unlock()
			if sim.KindOf(w) == sim.Claims {
				names[*w.Token], last[*w.ClaimedBy] = *w.ClaimedBy, *w.Token
			}
			if w.Token != nil {
				token := *w.Token
				for id, name := range names {
					token = strings.ReplaceAll(token, id, name)
				}
				w.Token = &token
			}
		})
}

// verifyByQuery reads back what was claimed by a query, which lags behind.
func verifyByQuery(reg *sim.Register, s claim.Store) claim.Store {
	var mu sync.Mutex
	wrote := make(map[task.ID]time.Time)
	lag := rand.New(rand.NewPCG(1, 1))
	return looking(s,
		func(r *claim.Reading) {
			mu.Lock()
			defer mu.Unlock()
			at, ok := wrote[r.Task.ID]
			if !ok || time.Since(at) < 2*time.Second {
				return
			}
			delete(wrote, r.Task.ID)
			seen := time.Now().Add(-time.Duration(lag.Int64N(int64(3 * time.Second))))
			for _, v := range reg.History(r.Task.ID) {
				if !v.From.After(seen) {
					r.Task = v.Task
				}
			}
		},
		func(id task.ID, w *claim.Write) {
			mu.Lock()
			defer mu.Unlock()
			if sim.KindOf(w) == sim.Claims {
				wrote[id] = time.Now()
			}
		})
}

// staleAMinuteEarly takes what the page says was claimed at 12:00 for a claim
// that was made at 12:00:00, although it may have been at 12:00:59.
func staleAMinuteEarly(_ *sim.Register, s claim.Store) claim.Store {
	return looking(s, func(r *claim.Reading) { r.At = r.At.Add(time.Minute) }, nil)
}

// anyDate takes a moment that nobody has confirmed for the time.
func anyDate(_ *sim.Register, s claim.Store) claim.Store {
	return looking(s, func(r *claim.Reading) {
		if r.Unsure {
			r.At, r.Unsure = r.At.Add(time.Hour), false
		}
	}, nil)
}
