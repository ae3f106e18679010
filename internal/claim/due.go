package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/task"
)

// RunDue takes the next due step of every hold and mark: it ends an attempt that was cut short, makes
// a mark void, takes a mark off its page, forgets a mark that never showed, gives back a claim that is
// kept no longer, or delivers a finish. Finishes are delivered in the order in which they were accepted.
// It returns the time of the earliest remaining step; zero if there is none.
func (c *Claimer) RunDue(ctx context.Context) (next time.Time, err error) {
	now := c.store.Now()
	err = errors.Join(
		c.redate(ctx, longestWait(c.policy)),
		c.each(ctx, c.book.until(c.book.steps, now), c.cutShort, func(h Hold) error { return c.giveUp(ctx, h) }),
		c.eachMark(ctx, c.book.dueUntil(now), c.isDue, func(m Mark) error { return c.tend(ctx, m) }),
		c.each(ctx, c.book.until(c.book.steps, now), c.unkept, func(h Hold) error { return c.takeBack(ctx, h) }),
	)
	away := false // Notion cannot be asked: a later finish must not overtake the one that found out
	due := func(h Hold) bool { return h.State == Finishing && !away && !h.Due.After(c.store.Now()) }
	if slices.ContainsFunc(c.Finishing(), due) {
		// Finishes that are not due yet take part, so that none is overtaken only because it
		// was last tried at a worse moment.
		ours := func(h Hold) bool { return h.State == Finishing && !away && (due(h) || h.Suspect.IsZero()) }
		err = errors.Join(err, c.each(ctx, c.Finishing(), ours, func(h Hold) error {
			err := c.run(ctx, &errand{kind: Delivery, hold: h, sent: true})
			if away = !Asked(err); away || isLost(err) { // an outcome, not a failure; the fact says so
				return nil
			}
			return err
		}))
	}
	next = c.book.first(c.book.steps, time.Time{}, func(h Hold) bool {
		return !h.attempting() && !(away && !h.Due.After(c.store.Now()))
	})
	if at := c.book.firstDue(); next.IsZero() || !at.IsZero() && at.Before(next) {
		next = at
	}
	return next, err
}

func (c *Claimer) isDue(m Mark) bool {
	at, owed := m.step()
	return owed && !at.After(c.store.Now())
}

// tend takes the next step of a mark. The task is locked. A mark that never showed is forgotten
// only once an answer of Notion's confirms that its time is over: the clock here may have
// jumped ahead since the last answer.
func (c *Claimer) tend(ctx context.Context, m Mark) error {
	if m.State == Unseen && !c.heard().Before(m.watchEnd()) {
		return c.saveMark(ctx, m.gone(c.store.Now(), m.Reason))
	}
	return c.run(ctx, &errand{kind: Cleanup, mark: m})
}

// Hasten makes the first waiting finish due, now that Notion is back. RunDue delivers the
// others with it.
func (c *Claimer) Hasten(ctx context.Context) error {
	waits := func(h Hold) bool {
		return h.State == Finishing && h.Suspect.IsZero() && h.Due.After(c.store.Now())
	}
	owed := c.Finishing()
	first := slices.IndexFunc(owed, waits)
	if first < 0 {
		return nil
	}
	return c.each(ctx, owed[first:first+1], waits, func(h Hold) error {
		h.Due = c.store.Now()
		return c.save(ctx, h)
	})
}

// each calls do, under the task's lock, for the holds that pick chooses both before and after
// the wait for the lock. It does not wait for holds that pick rejects. It goes on after an
// error and returns the errors joined.
func (c *Claimer) each(ctx context.Context, holds []Hold, pick func(Hold) bool, do func(Hold) error) error {
	return each(c, ctx, holds, func(h Hold) (ID, Change) { return h.ID, holding(h) }, c.book.get, pick, do)
}

// eachMark is each for marks.
func (c *Claimer) eachMark(ctx context.Context, marks []Mark, pick func(Mark) bool, do func(Mark) error) error {
	return each(c, ctx, marks, func(m Mark) (ID, Change) { return m.ID, marking(m) }, c.book.mark, pick, do)
}

func each[R any](c *Claimer, ctx context.Context, all []R, of func(R) (ID, Change), now func(ID) (R, bool), pick func(R) bool, do func(R) error) error {
	var errs []error
	for _, r := range all {
		if !pick(r) {
			continue
		}
		id, ch := of(r)
		_, on := ch.subject()
		unlock, err := c.locks.Lock(ctx, on)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r, live := now(id); live && pick(r) {
			errs = append(errs, do(r))
		}
		unlock()
	}
	return errors.Join(errs...)
}

// redate makes due what a clock that was ahead has put off: finishes that are put off for longer than
// far, and marks that are put off for longer than far and than a grace. A void mark is looked at again
// first, so that its grace is counted from an answer of Notion's.
func (c *Claimer) redate(ctx context.Context, far time.Duration) error {
	off := func(due time.Time, far time.Duration) bool { return due.After(c.store.Now().Add(far)) }
	finish := func(h Hold) bool { return h.State == Finishing && off(h.Due, far) }
	mark := func(m Mark) bool { return m.State != Unseen && off(m.Due, max(far, c.policy.Grace)) }
	return errors.Join(
		c.each(ctx, c.Finishing(), finish, func(h Hold) error {
			h.Due = c.store.Now()
			return c.save(ctx, h)
		}),
		c.eachMark(ctx, c.book.dueFrom(c.store.Now().Add(far)), mark, func(m Mark) error {
			if m.Due = c.store.Now(); m.State == Voided {
				m.State = Abandoned
			}
			return c.saveMark(ctx, m)
		}),
	)
}

// Recover loads, once at the start, what an earlier run of the daemon left. The next RunDue
// withdraws claims that were written but not granted, and delivers finishes.
func (c *Claimer) Recover(ctx context.Context) error {
	holds, marks, err := c.ledger.Live(ctx)
	if err != nil {
		return err
	}
	c.keep(Change{Holds: holds, Marks: marks})
	// What an earlier run was to send, it may have sent just before its end.
	for _, m := range marks {
		if m.State == Clearing {
			c.fly(m.ID)
		}
	}
	for _, h := range holds {
		if h.State == Finishing {
			c.fly(h.ID)
		}
	}
	return errors.Join(
		c.carryOver(ctx, holds, marks),
		c.each(ctx, holds, c.cutShort, func(h Hold) error { return c.giveUp(ctx, h) }),
		c.redate(ctx, 0),
	)
}

// carryOver records the holds and marks of an older version as ones of this version, with what each
// owes its page as a mark of its own.
func (c *Claimer) carryOver(ctx context.Context, holds []Hold, marks []Mark) error {
	debt := func(m Mark) Mark {
		m.ID, m.Why, m.State, m.Made = c.NewID(), Debt, Unseen, c.store.Now()
		return m
	}
	owes := func(m Mark) bool { return m.Asked > 0 && (m.Why != Debt || m.State != Unseen) }
	return errors.Join(
		c.each(ctx, holds, func(h Hold) bool { return h.Asked > 0 }, func(h Hold) error {
			d := debt(h.mark(Unseen, time.Time{}, ""))
			h.Requested, h.Borrowed = h.Asked, Borrowed{}
			return c.commit(ctx, Change{Holds: []Hold{h}, Marks: []Mark{d}})
		}),
		c.eachMark(ctx, marks, owes, func(m Mark) error {
			d := debt(m)
			m.Borrowed = Borrowed{}
			return c.commit(ctx, Change{Marks: []Mark{m, d}})
		}),
	)
}

// cutShort reports whether h is an attempt that nobody is making any more: it belongs to an
// earlier run of the daemon, or the ledger failed in the middle of it.
func (c *Claimer) cutShort(h Hold) bool {
	_, underway := c.underway.Load(h.ID)
	return h.attempting() && !underway
}

// unkept reports whether h is to be given back, because nothing was heard of its agent for as long
// as it had asked for. Like a lease, it lasts longer for others than for its holder.
func (c *Claimer) unkept(h Hold) bool {
	now := c.store.Now()
	return c.unkeptAt(h, now) && !h.Due.After(now) && h.Suspect.IsZero()
}

func (c *Claimer) unkeptAt(h Hold, now time.Time) bool {
	over := h.KeptUntil().Add(c.policy.WriteWindow + c.policy.Settle + clockAllowance)
	return h.State == Held && h.Requested > 0 && now.After(over) && !c.kept(h.ID)
}

// takeBack gives back a claim that is kept no longer, once an answer of Notion's confirms that its
// time is over: the clock here may have jumped ahead since the last answer.
func (c *Claimer) takeBack(ctx context.Context, h Hold) error {
	r, err := c.read(ctx, h.Task.ID)
	if err != nil && storeKind(err) != NotFound || err == nil && (r.Unsure || !c.unkeptAt(h, r.At)) {
		h.Due = laterThan(c.store.Now(), h.KeptUntil(), err)
		return errors.Join(err, c.save(ctx, h))
	}
	if s, _, _ := c.policy.standing(h, r.Task, r.At, nil); err != nil || s != isMine {
		err = c.run(ctx, &errand{kind: Guard, hold: h}) // somebody may have been first
		if h, live := c.book.get(h.ID); live && h.State == Held {
			h.Due = laterThan(c.store.Now(), h.KeptUntil(), err)
			err = errors.Join(err, c.save(ctx, h))
		}
	} else {
		_, err = c.finish(ctx, h, Finish{
			As: EndReleased, By: Sweeper, At: c.store.Now(),
			Summary: fmt.Sprintf("nothing was heard of %s for %s, as long as it had asked for", h.Agent, h.Requested),
		})
	}
	if isLost(err) {
		return nil // an outcome, not a failure
	}
	return err
}

// giveUp ends an attempt that was cut short. If its claim may be in Notion, a mark is left to
// withdraw it.
func (c *Claimer) giveUp(ctx context.Context, h Hold) error {
	now := c.store.Now()
	f := h.fact(KindDenied, now)
	f.Code, f.Detail, f.Remote = CodeNotionUnavailable, "the attempt was cut short before the claim was verified", true
	ch := holding(h.ended(EndNotGranted, now, f.Detail), f)
	if h.State != Reserved {
		ch.Marks = []Mark{h.mark(Abandoned, now, f.Detail)}
	}
	return c.commit(ctx, ch)
}

// onPage returns the length that the agent asked for as the page shows it.
func (b Borrowed) onPage() time.Duration {
	return (b.Asked + time.Minute - 1).Truncate(time.Minute)
}

// Repay puts back the lease lengths that older versions borrowed, once nobody has the task. mirror
// returns a task as it was last seen: Notion is asked only if nobody seems to have it. Repay goes on
// after an error and returns the errors joined.
func (c *Claimer) Repay(ctx context.Context, mirror func(task.ID) (task.Task, bool)) error {
	free := func(t task.Task) bool {
		return !t.Trashed && t.Status != task.InProgress && (t.Status != task.Open || !dated(t))
	}
	due := func(m Mark) bool {
		t, ok := mirror(m.Task.ID)
		return m.Why == Debt && m.State == Unseen && ok && free(t)
	}
	return c.eachMark(ctx, c.book.allMarks(), due, func(m Mark) error {
		v, err := c.visit(ctx, m.Task.ID, 0)
		if err != nil {
			return err
		}
		defer v.Close()
		if v.Task.Timeout == m.onPage() && m.Own != m.onPage() {
			if !free(v.Task) {
				return nil
			}
			if _, f, err := v.write(Write{Timeout: new(m.Own)}); f != confirmed {
				return err // it may be repeated
			}
		}
		return c.saveMark(ctx, m.gone(c.store.Now(), "claim_timeout_minutes was put back to what it was before the claim"))
	})
}
