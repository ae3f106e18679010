package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// visit is one read of a task's page, and at most one write that rests on it. It holds the
// permits for both, so that nothing waits between them, and measures the write window from the
// moment the read was sent.
type visit struct {
	Reading
	claimer *Claimer
	id      task.ID
	permits context.Context
	giveUp  context.CancelFunc
	leave   func()
	watch   stopwatch
	saved   bool // the ledger accepted a transaction since the read

	took    time.Duration // from the read to the end of the write
	failure error         // of the write's request; nil if it was answered with the page
	stood   bool          // by Notion's clock, this machine's clocks stood still meanwhile
}

// visit reads the page of a task, with permits for the read and a write. The caller must close
// the visit. If patience is not zero and too many others visit pages for that long, the error
// is errCrowded. An unsure reading is repeated once: the second answer tells whether the first
// had a wrong time. The task is locked.
func (c *Claimer) visit(ctx context.Context, id task.ID, patience time.Duration) (*visit, error) {
	v, err := c.visitOnce(ctx, id, patience)
	if err == nil && v.Unsure {
		v.Close()
		v, err = c.visitOnce(ctx, id, patience)
	}
	return v, err
}

func (c *Claimer) visitOnce(ctx context.Context, id task.ID, patience time.Duration) (_ *visit, err error) {
	ctx, giveUp := context.WithCancel(ctx)
	// The gate comes first: a holder of permits must not wait for anything.
	if err := c.gate.enter(ctx, patience); err != nil {
		giveUp()
		return nil, unasked{err}
	}
	v := &visit{claimer: c, id: id, giveUp: giveUp, leave: sync.OnceFunc(c.gate.leave)}
	if v.permits, err = c.store.Permit(ctx, 2); err != nil {
		v.Close()
		return nil, unasked{err}
	}
	v.leave = sync.OnceFunc(c.gate.start())
	v.watch = newStopwatch(c.clocks)
	if v.Reading, err = c.get(v.permits, id); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Close returns the unused permits. It may be called again.
func (v *visit) Close() {
	v.giveUp()
	v.leave()
}

// read reads the page of a task with its own permit.
func (c *Claimer) read(ctx context.Context, id task.ID) (Reading, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	permit, err := c.store.Permit(ctx, 1)
	if err != nil {
		return Reading{}, unasked{err}
	}
	return c.get(permit, id)
}

// get fetches the page of a task with a permit of ctx. The task is locked.
func (c *Claimer) get(ctx context.Context, id task.ID) (Reading, error) {
	r, err := c.store.Get(ctx, id)
	if err != nil {
		return Reading{}, err
	}
	c.hear(r)
	c.watcher.Observe(r)
	if _, err := c.sighted(ctx, r.Task); err != nil {
		c.log.Error("what a page shows of an abandoned claim could not be journalled", AttrTask, id, AttrError, err)
	}
	return r, nil
}

// late reports whether the write window is over.
func (v *visit) late() bool { return v.watch.elapsed() >= v.claimer.policy.WriteWindow }

// within reports whether r, a later answer, came within the write window, by both clocks of
// this machine and by Notion's. The time between two Dates cannot exceed the time that passed
// here by more than the second to which Dates are cut. If it does, the clocks here stood still,
// as in a paused virtual machine, and do not tell how much time passed. An unsure answer does
// not count: its Date may be the only sign that they stood still.
func (v *visit) within(r Reading) bool {
	if r.Unsure {
		return false
	}
	elapsed := v.watch.elapsed()
	v.stood = v.stood || r.At.Sub(v.At) > elapsed+time.Second
	return !v.stood && elapsed <= v.claimer.policy.WriteWindow
}

// commit stores the step that is about to be written.
func (v *visit) commit(ctx context.Context, ch Change) error {
	err := v.claimer.commit(ctx, ch)
	v.saved = err == nil
	return err
}

// assert makes sure, between the read and the write, that the ledger still accepts our
// transactions: a deposed leader must not begin anything. If the step itself stored nothing, an
// empty transaction decides.
func (v *visit) assert() error {
	if v.saved {
		return nil
	}
	if err := v.claimer.ledger.Save(context.WithoutCancel(v.permits), Change{}); err != nil {
		return unsaved{fmt.Errorf("task %s: nothing was written to its page, as nothing can be journalled: %w", v.id, err)}
	}
	v.saved = true
	return nil
}

// write sends w, unless the window is over or the ledger accepts nothing, and returns the page
// as the answer showed it. The error is nil if the write was seen. A write is completed even if
// the caller goes away.
func (v *visit) write(w Write) (Reading, fate, error) {
	c := v.claimer
	if err := v.assert(); err != nil {
		v.leave()
		return Reading{}, notLanded, err
	}
	if v.late() {
		c.gate.heed(v.watch.elapsed(), c.policy.WriteWindow)
		v.leave()
		return Reading{}, notLanded, Errorf(Unavailable, LandedNo, "%w than claim.write_window (%v) allows, and nothing was written; try again", errSlow, c.policy.WriteWindow)
	}
	work, cancel := c.detached(v.permits)
	defer cancel()
	r, err := c.store.Write(work, v.id, w)
	v.took, v.failure = v.watch.elapsed(), err
	c.gate.heed(v.took, c.policy.WriteWindow)
	v.leave()
	switch {
	case err == nil:
		c.watcher.Observe(r)
		if w.shows(r.Task) {
			return r, confirmed, nil
		}
		return r, unknown, errNoEffect
	case landed(err) == LandedNo:
		return r, notLanded, err
	}
	return r, unknown, fmt.Errorf("failed: %w", err)
}

// compete is write for a write with which others may compete for the task: it counts as seen
// only if it was answered within the window.
func (v *visit) compete(w Write) (Reading, fate, error) {
	r, f, err := v.write(w)
	switch {
	case f != confirmed || v.within(r):
		return r, f, err
	case r.Unsure:
		return r, unknown, errors.New("was answered without a date that is known to be right")
	case v.stood:
		return r, unknown, fmt.Errorf("was answered %v after the read by Notion's clock, and %v after it by this machine's, which stood still", r.At.Sub(v.At), v.took.Round(time.Millisecond))
	}
	return r, unknown, fmt.Errorf("was answered after %v, later than claim.write_window (%v)", v.watch.elapsed().Round(time.Millisecond), v.claimer.policy.WriteWindow)
}

// stopwatch measures the write window by both clocks of the machine: the monotonic clock stands
// still while the machine is suspended, and the wall clock may be set back.
type stopwatch struct {
	clocks func() clock.Instant
	start  clock.Instant
}

func newStopwatch(clocks func() clock.Instant) stopwatch { return stopwatch{clocks, clocks()} }

func (s stopwatch) elapsed() time.Duration { return s.clocks().Since(s.start) }
