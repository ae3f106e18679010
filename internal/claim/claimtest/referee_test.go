package claimtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/anishathalye/porcupine"
)

// books are the referee's notes on a race.
type books struct {
	told     map[claim.ID]bool         // claims that an agent was told it was granted
	accepted map[claim.ID]claim.Ending // the ending that each agent was told was accepted
	keys     [][]claim.ID              // the claims bound to each idempotency key
	freed    map[task.ID]time.Time     // when a person last took a claim off the page, or cut its lease short
	left     map[claim.ID]time.Time    // since when a page shows a claim that has ended for its daemon
}

func newBooks() *books {
	return &books{
		told: make(map[claim.ID]bool), accepted: make(map[claim.ID]claim.Ending),
		freed: make(map[task.ID]time.Time), left: make(map[claim.ID]time.Time),
	}
}

// check looks for two live claims on one task, which must never happen.
func (r *race) check(when string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(map[task.ID][]claim.Hold)
	for _, n := range r.daemons {
		for _, c := range n.Load().Claims("") {
			if c.State == claim.Held && c.ExpiresAt().After(time.Now()) {
				held[c.Task.ID] = append(held[c.Task.ID], c)
			}
		}
	}
	for id, claims := range held {
		if len(claims) < 2 {
			continue
		}
		first := slices.MinFunc(claims, func(a, b claim.Hold) int { return a.Started.Compare(b.Started) })
		freed := func(at time.Time) bool { return at.After(first.Started.Add(-onItsWay)) && time.Since(at) < r.untold() }
		if r.Outside || freed(r.books.freed[id]) || freed(r.openedUndated(id)) || r.keptAway(first) {
			r.Apart++
			continue
		}
		r.wrong("%s: %s (%s) and %s (%s) both hold the task", when, claims[0].Agent, claims[0].ID, claims[1].Agent, claims[1].ID)
	}
}

// onItsWay is how long a write may be on its way that rests on a reading from before a person's
// change.
const onItsWay = 30 * time.Second

// keptAway reports whether a claim was covered on its page for a whole grace, in a race whose
// daemons may be kept from Notion for so long. The protocol requires a holder to repair its
// claim in time.
func (r *race) keptAway(c claim.Hold) bool {
	if !r.away && !r.still && !r.full && r.lag <= sim.SyncInterval {
		return false
	}
	history := r.register.History(c.Task.ID)
	for i, v := range slices.Backward(history) {
		if v.Task.Token == string(c.ID) {
			over := history[min(i+1, len(history)-1)]
			return over.Task.Token != "" && time.Since(over.From) > r.Policy.Grace-time.Second
		}
	}
	return false
}

// untold returns how long it may take until a holder learns that a person ended its claim.
func (r *race) untold() time.Duration {
	d := 2*time.Minute + r.lag
	for _, delays := range []bool{r.away, r.still, r.full} {
		if delays {
			d += 2 * time.Minute
		}
	}
	return d
}

// checkPages looks for live claims on pages whose daemon has closed them: nobody would ever
// take them off.
func (r *race) checkPages() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.pages {
		history := r.register.History(id)
		t := history[len(history)-1].Task
		tok := claim.ParseToken(t.Token)
		if tok.ID == "" || tok.Void || tok.Done || t.Status != task.InProgress || r.Policy.Over(t, time.Now()) || !r.closed(tok.ID) {
			continue
		}
		person := false
		for _, v := range slices.Backward(history) {
			person = person || v.By == ""
			if claim.ParseToken(v.Task.Token).ID != tok.ID {
				break
			}
		}
		since, ok := r.books.left[tok.ID]
		if !ok {
			r.books.left[tok.ID] = time.Now()
		} else if time.Since(since) > 20*time.Second && !person && !r.Outside {
			r.wrong("the page shows %s of %s, which has ended for its daemon since %v", tok.ID, t.ClaimedBy, since.Sub(r.began))
		}
	}
}

// closed reports whether a claim has ended for the daemon that made it, and no mark is left to
// take it off its page.
func (r *race) closed(id claim.ID) bool {
	for _, n := range r.daemons {
		l := n.Load().Ledger
		if m, err := l.Mark(context.Background(), id); err == nil && m.State != claim.Gone {
			return false
		}
		if h, err := l.Hold(context.Background(), id); err == nil {
			return h.State == claim.Ended
		}
	}
	return false
}

// over reports whether a claim has ended for its daemon, or was abandoned there.
func (r *race) over(id claim.ID) bool {
	for _, n := range r.daemons {
		if h, err := n.Load().Ledger.Hold(context.Background(), id); err == nil {
			return h.State == claim.Ended
		}
	}
	return false
}

// wrong records a violation. r.mu is held.
func (r *race) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf("seed %d, after %v: ", r.Seed, time.Since(r.began))+fmt.Sprintf(format, args...))
}

// quiet reports whether no daemon has anything left to do.
func (r *race) quiet(ctx context.Context) bool {
	for _, n := range r.daemons {
		holds, marks, _ := n.Load().Ledger.Live(ctx)
		if len(holds) > 0 {
			return false
		}
		for _, m := range marks {
			if !watched(m) {
				return false
			}
		}
	}
	for _, id := range r.pages {
		if t := r.register.Page(id); t.ClaimedBy != "" && !t.Status.Finished() && t.Status != task.Review {
			return false
		}
	}
	return true
}

// watched reports whether m may still reach its page.
func watched(m claim.Mark) bool { return m.State == claim.Unseen }

// finalCheck checks the end state, once everything had time to fall into place.
func (r *race) finalCheck(ctx context.Context) {
	r.check("end")
	r.checkLedgers(ctx)
	r.checkTold()
	o := sim.DaemonOptions{Policy: r.Policy, StoreOptions: sim.StoreOptions{Name: "late"}}
	late := r.register.Daemon(o)
	defer late.Close()
	for _, id := range r.pages {
		t := r.register.Page(id)
		if t.Status != task.Open && t.Status != task.InProgress || t.Trashed {
			continue
		}
		if _, err := late.Claim(ctx, claim.Request{Agent: cmp.Or(claim.Assignee(t), "Latecomer"), Task: t}); err != nil {
			r.mu.Lock() // only now: nobody may wait for a lock while time passes
			r.wrong("the task cannot be had any more: %v (%+v)", err, t)
			r.mu.Unlock()
		}
	}
}

// checkTold checks that the record agrees with what agents were told.
func (r *race) checkTold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := make(map[claim.ID]map[claim.Kind]int)
	for _, n := range r.daemons {
		for _, e := range n.Load().Ledger.Events() {
			if kinds[e.Claim] == nil {
				kinds[e.Claim] = make(map[claim.Kind]int)
			}
			kinds[e.Claim][e.Kind]++
		}
	}
	for id := range r.books.told {
		if kinds[id][claim.KindGranted] != 1 {
			r.wrong("claim %s was granted, and %d events say so", id, kinds[id][claim.KindGranted])
		}
	}
	for _, bound := range r.books.keys {
		granted := 0
		for _, id := range bound {
			granted += kinds[id][claim.KindGranted]
		}
		if granted > 1 {
			r.wrong("%d claims were granted under one key: %v", granted, bound)
		}
	}
	for id, as := range r.books.accepted {
		delivered, lost := kinds[id][claim.Kind(as)], kinds[id][claim.KindLost]
		if as == claim.EndLost {
			delivered = 0
		}
		if delivered+lost != 1 {
			r.wrong("claim %s was finished as %s: %d events say so, and %d that it was lost", id, as, delivered, lost)
		}
		if work := as == claim.EndCompleted || as == claim.EndReview || as == claim.EndFailed; work && delivered+kinds[id][claim.KindOrphaned] != 1 {
			r.wrong("the work of claim %s, finished as %s, is on record %d times", id, as, delivered+kinds[id][claim.KindOrphaned])
		}
	}
}

// checkLedgers checks the holds and marks of the daemons.
func (r *race) checkLedgers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range r.daemons {
		d := n.Load()
		holds, marks, _ := d.Ledger.Live(ctx)
		for _, h := range holds {
			if h.State == claim.Held {
				r.wrong("daemon %d: claim %s of %s is still held, although its lease ended at %v", i, h.ID, h.Agent, h.ExpiresAt())
				continue
			}
			r.wrong("daemon %d: claim %s of %s is stuck: %s, due at %v", i, h.ID, h.Agent, h.State, h.Due)
		}
		for _, m := range marks {
			if !watched(m) {
				r.wrong("daemon %d: mark %s (%s) beside %s is stuck: %s, due at %v", i, m.ID, m.Why, m.Agent, m.State, m.Due)
			}
		}
		r.checkEvents(i, d)
		for k, call := range d.Store.Calls() {
			if call.Unpermitted {
				r.wrong("daemon %d: request %d (%s) was sent without a permit", i, k, sim.KindOf(call.Write))
			}
		}
	}
}

// checkEvents checks the facts of the i-th daemon: each granted claim ended once, and as its
// record says.
func (r *race) checkEvents(i int, d *sim.Daemon) {
	granted, denied, ends := make(map[claim.ID]bool), make(map[claim.ID]bool), make(map[claim.ID][]claim.Kind)
	for _, e := range d.Ledger.Events() {
		switch e.Kind {
		case claim.KindGranted:
			if granted[e.Claim] {
				r.wrong("daemon %d: claim %s was granted twice", i, e.Claim)
			}
			granted[e.Claim] = true
		case claim.KindDenied:
			if denied[e.Claim] || granted[e.Claim] {
				r.wrong("daemon %d: claim %s was denied, and denied or granted before", i, e.Claim)
			}
			denied[e.Claim] = true
		case claim.KindCompleted, claim.KindFailed, claim.KindBlocked, claim.KindReview, claim.KindReleased, claim.KindLost:
			ends[e.Claim] = append(ends[e.Claim], e.Kind)
		}
	}
	for id := range granted {
		c, err := d.Ledger.Hold(context.Background(), id)
		if err != nil {
			r.wrong("daemon %d: %v", i, err)
			continue
		}
		want := 1
		if c.Ending == claim.EndOverridden || c.Ending == claim.EndSwept {
			want = 0 // those facts belong to the overriding claim and to the sweep
		}
		if len(ends[id]) != want || want == 1 && string(ends[id][0]) != string(c.Ending) {
			r.wrong("daemon %d: claim %s ended as %s, events %v", i, id, c.Ending, ends[id])
		}
		if want == 1 && c.Ending != claim.EndLost && !r.ended(c) {
			r.wrong("daemon %d: claim %s ended as %s, and its page never showed that", i, id, c.Ending)
		}
	}
	for id := range ends {
		if !granted[id] {
			r.wrong("daemon %d: claim %s ended as %v without having been granted", i, id, ends[id])
		}
	}
}

// ended reports whether the page of a claim ever showed its end. A page without a claim, in the
// status that the agent asked for, counts as the effect of its finish. So does a late claim
// over one that was to be given back, because its writer gives the task back as well. A task that was
// assigned is again the agent's if its caller did not hear of the claim.
func (r *race) ended(c claim.Hold) bool {
	history := r.register.History(c.Task.ID)
	for i, v := range history {
		tok := claim.ParseToken(v.Task.Token)
		if c.Ending == claim.EndCompleted || c.Ending == claim.EndReview {
			if tok.ID == c.ID && tok.Done {
				return true
			}
			continue
		}
		if i == 0 || v.From.Before(c.Started.Add(-time.Second)) {
			continue
		}
		was := history[i-1].Task
		covered := claim.ParseToken(was.Token).ID == c.ID && v.From.Before(r.Policy.LeaseEnd(was))
		back := c.Assigned && c.Finish != nil && c.Finish.Unheard && v.Task.ClaimedBy == c.Agent
		if (v.Task.ClaimedBy == "" || back) && tok.ID == "" || covered && tok.ID != c.ID {
			return true
		}
	}
	return false
}

// OpKind is the kind of an operation.
type OpKind string

// The kinds of operations.
const (
	OpClaim  OpKind = "claim"
	OpFinish OpKind = "finish" // with any ending
	// OpExpire is the end of the lease that the agent was last told. It takes effect at that
	// moment or later, unseen.
	OpExpire OpKind = "expire"
	// OpLose is the daemon's discovery that the claim is lost. The agent is told from then on.
	OpLose OpKind = "lose"
)

// Operation is one operation of an agent, from its call to its return.
type Operation struct {
	Agent int // its number in the race
	Kind  OpKind
	Claim claim.ID // empty for a claim that was denied
	Task  task.ID  // of a claim that was granted
	// OK is set if a claim was granted or a finish accepted.
	OK bool
	// Call and Return count from the beginning of the race. Return is 0 if the effect may come
	// later than the return.
	Call, Return time.Duration
}

// losses returns the claims that the daemons found lost, according to their facts, whose times
// are cut to the second.
func losses(events []claim.Fact, began time.Time) []Operation {
	var out []Operation
	for _, e := range events {
		if e.Kind == claim.KindLost {
			out = append(out, Operation{Kind: OpLose, Claim: e.Claim, OK: true, Call: e.At.Sub(began)})
		}
	}
	return out
}

// call starts an operation of the agent.
func (a *agent) call(op Operation) Operation {
	op.Agent, op.Call = a.number, time.Since(a.began)
	return op
}

// returned ends an operation of the agent and stores it.
func (a *agent) returned(op Operation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op.Return = time.Since(a.began); op.Kind == OpFinish {
		op.Return = 0 // it may be delivered later
	}
	a.Operations = append(a.Operations, op)
}

// expires records when the agent stops trusting its claim.
func (a *agent) expires(c claim.Hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end := c.ExpiresAt().Sub(a.began)
	for i, op := range a.Operations {
		if op.Kind == OpExpire && op.Claim == c.ID {
			a.Operations[i].Call = max(op.Call, end)
			return
		}
	}
	a.Operations = append(a.Operations, Operation{Agent: a.number, Kind: OpExpire, Claim: c.ID, OK: true, Call: end})
}

// lease is a lock with a lease, as its holders see it. Its state is the claim
// that has it, empty if none. It can be taken while nobody has it; and whoever
// has it has it until he says that he is done, or is told that he has lost it, or
// the lease that he was told of has ended, or somewhat longer.
var lease = porcupine.Model{
	Init: func() any { return claim.ID("") },
	Step: func(state, input, _ any) (bool, any) {
		holder, op := state.(claim.ID), input.(leaseOp)
		if op.ends {
			return holder == op.claim, claim.ID("")
		}
		return holder == "", op.claim
	},
}

// leaseOp takes the lock, or gives it up.
type leaseOp struct {
	claim claim.ID
	ends  bool
}

// leaseHistory is what the agents did, in the terms of the lock. An attempt that
// was denied may have been for any reason, and says nothing.
func leaseHistory(operations []Operation) []porcupine.Operation {
	granted := make(map[claim.ID]Operation)
	ends := make(map[claim.ID]time.Duration)
	for _, op := range operations {
		if op.Kind == OpClaim {
			if op.OK {
				granted[op.Claim] = op
			}
			continue
		}
		if end, ok := ends[op.Claim]; !ok || op.Call < end {
			ends[op.Claim] = op.Call
		}
	}
	var history []porcupine.Operation
	for id, op := range granted {
		history = append(history,
			porcupine.Operation{ClientId: op.Agent, Input: leaseOp{claim: id}, Call: int64(op.Call), Return: int64(op.Return)},
			porcupine.Operation{ClientId: op.Agent, Input: leaseOp{claim: id, ends: true}, Call: int64(max(ends[id], op.Return)), Return: math.MaxInt64})
	}
	return history
}

// linearizable reports whether what the agents did in a race can have been done
// with a lock with a lease.
func linearizable(r Race) bool {
	tasks := make(map[task.ID][]claim.ID)
	for _, op := range r.Operations {
		if op.Kind == OpClaim && op.OK {
			tasks[op.Task] = append(tasks[op.Task], op.Claim)
		}
	}
	for _, claims := range tasks {
		ofTask := slices.DeleteFunc(slices.Clone(r.Operations), func(op Operation) bool { return !slices.Contains(claims, op.Claim) })
		if !porcupine.CheckOperations(lease, leaseHistory(ofTask)) {
			return false
		}
	}
	return true
}

// What agents do with a broken protocol cannot be done with a lock. That what
// they do with ours can, is part of TestRaces.
func TestHistoriesOfMutants(t *testing.T) {
	for _, name := range []string{"no settle wait", "the agent's name as token", "stale without the minute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutants[name].options()
			for o.Seed = 1; o.Seed <= 2_000; o.Seed++ {
				if !linearizable(run(t, o)) {
					t.Logf("caught by seed %d", o.Seed)
					return
				}
			}
			t.Error("survived")
		})
	}
}
