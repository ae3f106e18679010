package claimtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

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
		if r.Outside || freed(r.freed[id]) || freed(r.openedUndated(id)) || r.keptAway(first) {
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
		since, ok := r.left[tok.ID]
		if !ok {
			r.left[tok.ID] = time.Now()
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

// wrong records a violation.
func (r *race) wrong(format string, args ...any) {
	r.Book.Complain(fmt.Sprintf("seed %d: ", r.Seed)+format, args...)
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
			r.wrong("the task cannot be had any more: %v (%+v)", err, t)
		}
	}
}

// checkTold checks that the record agrees with what agents were told.
func (r *race) checkTold() {
	var facts []claim.Fact
	for _, n := range r.daemons {
		facts = append(facts, n.Load().Ledger.Events()...)
	}
	r.Book.CheckRecord(facts)
	for _, bound := range r.keys {
		granted := 0
		for _, f := range facts {
			if f.Kind == claim.KindGranted && slices.Contains(bound, f.Claim) {
				granted++
			}
		}
		if granted > 1 {
			r.wrong("%d claims were granted under one key: %v", granted, bound)
		}
	}
}

// checkLedgers checks the holds and marks of the daemons.
func (r *race) checkLedgers(ctx context.Context) {
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

// lose notes which claims the daemons found lost: their agents are told from then on.
func (r *race) lose(facts []claim.Fact) {
	for _, f := range facts {
		if f.Kind == claim.KindLost {
			r.Book.Ended(f.Claim, f.At, "its daemon found it lost")
		}
	}
}

// doubles tells of tasks that two agents trusted to have at once; empty if there are none.
func (r Race) doubles() string {
	stories, _ := r.Book.Doubles()
	return strings.Join(slices.Collect(maps.Values(stories)), "\n")
}

// What agents do with a broken protocol cannot be done with a lock. That what
// they do with ours can, is part of TestRaces.
func TestHistoriesOfMutants(t *testing.T) {
	for _, name := range []string{"no settle wait", "the agent's name as token", "stale without the minute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutants[name].options()
			for o.Seed = 1; o.Seed <= 2_000; o.Seed++ {
				if run(t, o).doubles() != "" {
					t.Logf("caught by seed %d", o.Seed)
					return
				}
			}
			t.Error("survived")
		})
	}
}
