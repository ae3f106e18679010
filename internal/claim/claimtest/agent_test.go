package claimtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit/referee"
)

// agent claims tasks again and again.
type agent struct {
	*race
	rand   *rand.Rand
	number int
	name   string
	daemon *node
}

// agent returns the i-th agent, which works through the daemon of n.
func (r *race) agent(i int, n *node) *agent {
	names := []string{"Sandman", "Oracle", "Hypnos", "Morpheus", "Phantasos", "Phobetor"}
	return &agent{
		race: r, rand: rand.New(rand.NewPCG(r.Seed, 1+uint64(i))), number: i,
		name: names[r.rand.IntN(len(names))], daemon: n,
	}
}

func (a *agent) run(ctx context.Context) {
	_ = sim.Sleep(ctx, sim.UpTo(a.rand, a.rush))
	if a.hasty {
		a.hurry(ctx)
		return
	}
	for ; time.Since(a.began) < raceTime; _ = sim.Sleep(ctx, sim.UpTo(a.rand, 20*time.Second)) {
		c, ok := a.claim(ctx)
		if !ok {
			_ = sim.Sleep(ctx, sim.UpTo(a.rand, 30*time.Second))
			continue
		}
		if a.work(ctx, c) {
			a.finish(ctx, c, a.outcome())
		}
	}
}

// hurry is run for quick agents: many come for a task as soon as it is free.
func (a *agent) hurry(ctx context.Context) {
	for ; time.Since(a.began) < hurryTime; _ = sim.Sleep(ctx, sim.UpTo(a.rand, 1500*time.Millisecond)) {
		if c, ok := a.claim(ctx); ok {
			_ = sim.Sleep(ctx, sim.UpTo(a.rand, 10*time.Second))
			a.finish(ctx, c, claim.Finish{As: claim.EndReleased})
		}
	}
}

// claim asks for a task; one time in ten it gives up early.
func (a *agent) claim(ctx context.Context) (claim.Hold, bool) {
	if a.rand.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sim.UpTo(a.rand, 6*time.Second))
		defer cancel()
	}
	r := claim.Request{
		Agent: a.name, Task: task.Task{ID: a.pages[a.rand.IntN(len(a.pages))]}, Keep: a.rand.IntN(3) == 0,
		Timeout: []time.Duration{0, 0, 2 * time.Minute, 150 * time.Second, 3 * time.Minute}[a.rand.IntN(5)],
	}
	how := a.rand.IntN(3)
	return a.ask(r, func() (claim.Hold, error) {
		switch {
		case how == 0:
			return a.keyed(ctx, r)
		case how == 1 && len(a.pages) > 1:
			return a.daemon.Load().Next(ctx, r)
		}
		return a.daemon.Load().Claim(ctx, r)
	})
}

// ask makes a request for a task and records it.
func (a *agent) ask(r claim.Request, claims func() (claim.Hold, error)) (claim.Hold, bool) {
	call := time.Now()
	c, err := claims()
	if err != nil {
		return claim.Hold{}, false
	}
	a.Book.Granted(referee.Hold{ID: c.ID, Task: string(c.Task.ID), Agent: a.name, Call: call, Expires: c.ExpiresAt()})
	a.check("grant to " + a.name)
	return c, true
}

// keyed asks for a task under an idempotency key, and repeats the request until there is an
// answer. The id of the claim is bound to the key before the attempt. A repeated request is
// answered with the outcome of that claim, unless it had none.
func (a *agent) keyed(ctx context.Context, r claim.Request) (claim.Hold, error) {
	var bound []claim.ID
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.keys = append(a.keys, bound)
	}()
	r.Keep = true
	var err error
	for range 2 + a.rand.IntN(4) {
		d := a.daemon.Load()
		var c claim.Hold
		if n := len(bound); n > 0 {
			c, err = d.Find(ctx, bound[n-1])
			left, marked := d.Mark(bound[n-1])
			switch {
			case errors.Is(err, claim.ErrUnknownClaim):
			case err != nil:
				return claim.Hold{}, err
			case c.State == claim.Held:
				return c, nil
			case c.State == claim.Finishing, c.State == claim.Ended && c.Ending != claim.EndNotGranted:
				return claim.Hold{}, &claim.Lost{Claim: c, Detail: "it has ended"}
			case c.State != claim.Ended, marked && left.State != claim.Unseen:
				_ = sim.Sleep(ctx, sim.UpTo(a.rand, 10*time.Second))
				continue
			}
		}
		r.ID = claim.NewID(d.Store.Now())
		bound = append(bound, r.ID)
		patient, cancel := context.WithTimeout(ctx, 2*time.Second+sim.UpTo(a.rand, 20*time.Second))
		c, err = d.Claim(patient, r)
		heard := patient.Err() == nil
		cancel()
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if heard && (err == nil || isDenied && denied.Code != claim.CodeNotionUnavailable) {
			return c, err
		}
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 5*time.Second))
	}
	if err == nil {
		err = context.DeadlineExceeded
	}
	return claim.Hold{}, err
}

// work simulates the agent's work, and reports whether the agent comes back to finish it.
func (a *agent) work(ctx context.Context, c claim.Hold) bool {
	switch a.rand.IntN(6) {
	case 0: // is quick
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 30*time.Second))
	case 1: // forgets to renew, and is late
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 5*time.Minute))
	case 2: // vanishes
		return false
	default: // shows that it is alive, now and then
		for range a.rand.IntN(10) {
			_ = sim.Sleep(ctx, 5*time.Second+sim.UpTo(a.rand, 25*time.Second))
			renewed, err := a.daemon.Load().Renew(ctx, c.ID)
			if _, ok := errors.AsType[*claim.Lost](err); ok {
				return false
			}
			if err == nil {
				a.check("renewal by " + a.name)
				a.Book.Renewed(c.ID, renewed.ExpiresAt())
			}
		}
	}
	return true
}

// outcome draws what the agent says about its work.
func (a *agent) outcome() claim.Finish {
	f := claim.Finish{
		As:     []claim.Ending{claim.EndCompleted, claim.EndFailed, claim.EndBlocked, claim.EndReleased, claim.EndReleased}[a.rand.IntN(5)],
		Reopen: a.rand.IntN(2) == 0,
	}
	switch {
	case f.As == claim.EndCompleted && f.Reopen:
		f.As = claim.EndReview
	case f.As == claim.EndReleased && f.Reopen:
		f.By = "Ada" // a person takes it back
	}
	return f
}

// finish reports that the agent is done, and repeats that while the claim has not ended.
func (a *agent) finish(ctx context.Context, c claim.Hold, f claim.Finish) {
	call := time.Now()
	a.Book.Ended(c.ID, call, "it is to be %s", f.As)
	for range 1 + a.rand.IntN(3) {
		got, err := a.daemon.Load().Finish(ctx, c.ID, f)
		if err != nil {
			return
		}
		a.Book.Finished(c.ID, claim.Kind(f.Ending()), call)
		if got.State == claim.Ended {
			if got.Ending != f.Ending() {
				a.wrong("%s finished its claim as %s, and it ended as %s", a.name, f.Ending(), got.Ending)
			}
			return
		}
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 20*time.Second))
	}
}

// gesture is a person's change to a task. frees reports whether it takes a live claim off its
// page or cuts its lease short, so that somebody else may get the task before the holder is
// told.
type gesture func(*rand.Rand, *task.Task) (frees bool)

// gestures are the changes that busy people make to any task.
var gestures = []gesture{
	func(_ *rand.Rand, t *task.Task) bool { t.ClaimedBy = "Pasithea"; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Blocked; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Cancelled; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Completed; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Trashed = true; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Token = ""; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.ClaimedAt = time.Time{}; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Open; return false },
	func(r *rand.Rand, t *task.Task) bool {
		t.Timeout = time.Duration(r.IntN(5)) * time.Minute
		return true
	},
	func(_ *rand.Rand, t *task.Task) bool { handOut(t); return true },
	func(_ *rand.Rand, t *task.Task) bool {
		if t.Status == task.Open && t.ClaimedBy == "" {
			t.ClaimedBy = "Hypnos"
		}
		return false
	},
}

// handOut makes a task available to anybody.
func handOut(t *task.Task) {
	t.Status, t.ClaimedBy, t.ClaimedAt, t.Token, t.Trashed = task.Open, "", time.Time{}, "", false
}

// person reopens finished and blocked tasks and, if people are busy, makes random changes.
// After a while it hands out tasks that nobody can claim any more.
func (r *race) person(ctx context.Context, rnd *rand.Rand) {
	patience := 0
	for sim.Sleep(ctx, 10*time.Second+sim.UpTo(rnd, 20*time.Second)) == nil {
		id := r.pages[rnd.IntN(len(r.pages))]
		t := r.register.Page(id)
		stuck := t.Trashed || waits(t.Status) ||
			claim.Assignee(t) != "" || t.ClaimedBy != "" && t.ClaimedAt.IsZero() || t.ClaimedBy == "" && t.Status == task.InProgress
		switch acts := r.faulty.Load(); {
		case acts && waits(t.Status) && rnd.IntN(2) == 0:
			r.edit(id, func(t *task.Task) bool { t.Status = task.Open; return false })
		case acts && t.Trashed && rnd.IntN(2) == 0:
			r.edit(id, func(t *task.Task) bool { t.Trashed = false; return false })
		case acts && r.busy && rnd.IntN(2) == 0:
			g := gestures[rnd.IntN(len(gestures))]
			r.edit(id, func(t *task.Task) bool { return g(rnd, t) })
		case r.busy && stuck:
			if patience++; patience%3 == 0 {
				r.edit(id, func(t *task.Task) bool { handOut(t); return true })
			}
		}
	}
}

// waits reports whether a task in this status must be opened before anybody can claim it.
func waits(s task.Status) bool { return s != task.Open && s != task.InProgress && s != task.Unknown }

// reopen makes daemons reopen tasks in any status, until acting ends.
func (r *race) reopen(ctx, acting context.Context, rnd *rand.Rand) {
	for sim.Sleep(acting, sim.UpTo(rnd, 20*time.Second)) == nil {
		d := r.daemons[rnd.IntN(len(r.daemons))].Load()
		id := r.pages[rnd.IntN(len(r.pages))]
		if _, _, err := d.Reopen(ctx, claim.Reopening{Task: task.Task{ID: id}, Agent: "Nyx", Was: r.register.Page(id).Status, Holder: r.register.Page(id).ClaimedBy}); err == nil {
			r.check("reopening")
		}
	}
}

// edit applies a person's change.
func (r *race) edit(id task.ID, change func(*task.Task) bool) {
	freed := false
	r.register.Edit(id, func(t *task.Task) {
		was := *t
		frees := change(t)
		freed = frees || handsOn(was, *t)
	})
	if freed { // not under the register's lock, which others take while they hold ours
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Freed = true
		r.freed[id] = time.Now()
	}
}

// handsOn reports whether a change of was to is makes a claim an assignment to any session of its
// name. It does if a person clears the date of the claim and then its token, or the other way
// round, or if the task is set to OPEN after the date was cleared.
func handsOn(was, is task.Task) bool {
	return was.ClaimedBy != "" && was.ClaimedBy == is.ClaimedBy && claim.Assignee(was) == "" && claim.Assignee(is) != ""
}

// openedUndated returns when a reopening last set a task to OPEN under a claim whose date a person
// had cleared; zero if none did. The reopening rests on a reading from before the claim, and
// changes the status alone.
func (r *race) openedUndated(id task.ID) time.Time {
	history := r.register.History(id)
	for i := len(history) - 1; i > 0; i-- {
		v, was := history[i], history[i-1]
		only := was.Task
		only.Status, only.Note = v.Task.Status, v.Task.Note
		if v.By != "" && was.By == "" && was.Task.ClaimedAt.IsZero() && handsOn(was.Task, v.Task) && reflect.DeepEqual(only, v.Task) {
			return v.From
		}
	}
	return time.Time{}
}
