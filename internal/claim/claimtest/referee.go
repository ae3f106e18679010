package claimtest

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// check looks for two live claims at once, which is what must never be. With
// zombies it cannot be ruled out, and is not looked for.
func (r *race) check(when string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var held []claim.Claim
	for _, n := range r.daemons {
		d := n.Load()
		live, err := d.Ledger.Live(context.Background())
		if err != nil {
			r.wrong("%v", err)
		}
		for _, c := range live {
			if c.State == claim.Held && c.ExpiresAt().After(time.Now()) {
				held = append(held, c)
			}
		}
	}
	if len(held) > 1 && !r.Zombies {
		r.wrong("%s: %s (%s) and %s (%s) both hold the task", when, held[0].Agent, held[0].ID, held[1].Agent, held[1].ID)
	}
}

// wrong notes what must not have happened. r.mu is held.
func (r *race) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf("seed %d, after %v: ", r.Seed, time.Since(r.began))+fmt.Sprintf(format, args...))
}

// quiet reports whether no daemon has anything left to do.
func (r *race) quiet(ctx context.Context) bool {
	t := r.register.Page(r.page)
	for _, n := range r.daemons {
		d := n.Load()
		live, _ := d.Ledger.Live(ctx)
		for _, c := range live {
			if !watched(c) || owed(c) && t.Status == task.Open {
				return false
			}
		}
	}
	return t.ClaimedBy == "" || t.Status.Finished()
}

// watched reports whether c is an attempt whose write may come yet.
func watched(c claim.Claim) bool { return c.State == claim.Unseen }

// owed reports whether c is a lease length that a daemon will put back on the task, which
// takes a moment in which nobody can claim it.
func owed(c claim.Claim) bool { return c.Sweep != nil && c.Sweep.Lease }

// finalCheck looks at what is left once everything had time to fall into place.
func (r *race) finalCheck(ctx context.Context) {
	r.check("end")
	r.checkLedgers(ctx)
	t := r.register.Page(r.page)
	if t.Status != task.Open && t.Status != task.InProgress {
		return
	}
	late := r.register.Daemon(claimsim.DaemonOptions{Policy: r.Policy, StoreOptions: claimsim.StoreOptions{Name: "late"}})
	defer late.Close()
	if _, err := late.Claim(ctx, claim.Request{Agent: "Latecomer", Task: t}); err != nil {
		r.mu.Lock() // not before: nobody may wait for a lock while time passes
		defer r.mu.Unlock()
		r.wrong("the task cannot be had any more: %v (%+v)", err, t)
	}
}

// checkLedgers looks at what the daemons have on their books.
func (r *race) checkLedgers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range r.daemons {
		d := n.Load()
		live, _ := d.Ledger.Live(ctx)
		for _, c := range live {
			if !watched(c) && c.State != claim.Held {
				r.wrong("daemon %d: claim %s of %s is stuck: %s, due at %v", i, c.ID, c.Agent, c.State, c.Due)
			}
			if c.State == claim.Held {
				r.wrong("daemon %d: claim %s of %s is still held, although its lease ended at %v", i, c.ID, c.Agent, c.ExpiresAt())
			}
		}
		r.checkEvents(i, d)
		for k, call := range d.Store.Calls() {
			if call.Unpermitted {
				r.wrong("daemon %d: request %d (%s) was sent without a permit", i, k, claimsim.KindOf(call.Write))
			}
		}
	}
}

// checkEvents looks at what the i-th daemon wrote down: each claim that was
// granted ended once, and as its record says.
func (r *race) checkEvents(i int, d *claimsim.Daemon) {
	granted, ends := make(map[claim.ID]bool), make(map[claim.ID][]claim.Kind)
	for _, e := range d.Ledger.Events() {
		switch e.Kind {
		case claim.KindGranted:
			if granted[e.Claim] {
				r.wrong("daemon %d: claim %s was granted twice", i, e.Claim)
			}
			granted[e.Claim] = true
		case claim.KindCompleted, claim.KindFailed, claim.KindBlocked, claim.KindReleased, claim.KindLost:
			ends[e.Claim] = append(ends[e.Claim], e.Kind)
		}
	}
	for id := range granted {
		c, err := d.Ledger.Claim(context.Background(), id)
		if err != nil {
			r.wrong("daemon %d: %v", i, err)
			continue
		}
		want := 1
		if c.Ending == claim.EndOverridden || c.Ending == claim.EndSwept {
			want = 0 // those events are the overriding claim's and the sweep's
		}
		if len(ends[id]) != want || want == 1 && string(ends[id][0]) != string(c.Ending) {
			r.wrong("daemon %d: claim %s ended as %s, events %v", i, id, c.Ending, ends[id])
		}
	}
	for id := range ends {
		if !granted[id] {
			r.wrong("daemon %d: claim %s ended as %v without having been granted", i, id, ends[id])
		}
	}
}
