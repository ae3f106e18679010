package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// visit is one look at the page of a task, and at most one write that rests on
// what it showed. It has the permits for both, so that nothing waits between
// them, and measures the write window from the moment the page was asked for.
type visit struct {
	Reading
	claimer *Claimer
	id      task.ID
	permits context.Context
	giveUp  context.CancelFunc
	leave   func()
	watch   stopwatch
	saved   bool // the ledger stored the step that is to be written

	took    time.Duration // from the read to the end of the write
	failure error         // of the write's request; nil if it was answered with the page
	stood   bool          // this machine's clocks stood still meanwhile, by Notion's
}

// fate is what became of a write.
type fate int

const (
	// unknown: it may have landed, or may land yet.
	unknown fate = iota
	// notLanded: it did not land and never will.
	notLanded
	// seen: its answer showed all of it.
	seen
)

// unasked is the error of a visit for which there were no permits: nothing was
// asked of Notion.
type unasked struct{ error }

func (u unasked) Unwrap() error { return u.error }

// explain says of a write that was not seen what became of it. what is to be read before
// the error of a write of unknown fate.
func (f fate) explain(what string, err error) error {
	if f == notLanded {
		return err
	}
	return fmt.Errorf("%s %w", what, err)
}

// Asked reports whether what failed with err had asked Notion for a page, rather than
// been kept from it: by a pause, because Notion is down, or because it is crowded.
func Asked(err error) bool {
	_, not := errors.AsType[unasked](err)
	return !not
}

// visit reads the page of a task, with permits for the read and a write. Whoever
// gets the visit has to close it. If patience is not zero and too many others visit
// pages for that long, the error is errCrowded. A reading that is unsure is made once
// more: the second answer tells whether the first was wrong about the time. The task is
// locked.
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
	// In this order: who has permits must not wait for anything.
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
	v.watch = c.startWatch()
	if v.Reading, err = c.get(v.permits, id); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Close gives back the permits that were not used. It may be called again.
func (v *visit) Close() {
	v.giveUp()
	v.leave()
}

// read reads the page of a task, with a permit of its own.
func (c *Claimer) read(ctx context.Context, id task.ID) (Reading, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	permit, err := c.store.Permit(ctx, 1)
	if err != nil {
		return Reading{}, unasked{err}
	}
	return c.get(permit, id)
}

// confirmAfter is how long after Notion said that it does not know a page it is asked
// once more, at least: it has been seen to say so in passing.
const confirmAfter = 3 * time.Second

// askAgain reads a page once more that Notion said it does not know. Only if it says
// so twice the page is gone.
func (c *Claimer) askAgain(ctx context.Context, id task.ID) error {
	if err := clock.Pause(ctx, max(c.policy.Settle, confirmAfter)); err != nil {
		return err
	}
	_, err := c.read(ctx, id)
	return err
}

// get fetches the page of a task, which is locked, with a permit of ctx.
func (c *Claimer) get(ctx context.Context, id task.ID) (Reading, error) {
	r, err := c.store.Get(ctx, id)
	if err != nil {
		return Reading{}, err
	}
	c.hear(r)
	c.watcher.Observe(r)
	if _, err := c.sighted(ctx, r.Task); err != nil {
		c.log.Error("what a page shows of an abandoned claim could not be journalled", "task", id, "error", err)
	}
	return r, nil
}

// late reports whether the write window is over.
func (v *visit) late() bool { return v.watch.elapsed() >= v.claimer.policy.WriteWindow }

// within reports whether r, a later answer, came within the write window: by both
// clocks of this machine, and by Notion's. The time from one Date to another is no
// longer than what passed here meanwhile, but for the second to which they are cut;
// if it is, the clocks here stood still, as those of a paused virtual machine do, and
// do not tell how much time passed. An answer that is unsure does not tell either: it
// may be all that shows that they stood still.
func (v *visit) within(r Reading) bool {
	if r.Unsure {
		return false
	}
	elapsed := v.watch.elapsed()
	v.stood = v.stood || r.At.Sub(v.At) > elapsed+time.Second
	return !v.stood && elapsed <= v.claimer.policy.WriteWindow
}

// errNoEffect is the error of a write whose answer did not show it. The errors of
// writes of unknown fate say what the write did: "the write" is to precede them.
var errNoEffect = errors.New("was acknowledged without taking effect")

// errSlow is the error of a write that was not sent because the window was over.
var errSlow = errors.New("the page was read more slowly")

// commit is Claimer.commit for the step that is to be written.
func (v *visit) commit(ctx context.Context, ch Change) error {
	err := v.claimer.commit(ctx, ch)
	v.saved = err == nil
	return err
}

// unsaved is the error of a write that was not sent because the ledger stores nothing: its
// file fails, or another daemon leads it by now.
type unsaved struct{ error }

func (u unsaved) Unwrap() error { return u.error }

// notSaved reports whether that is what err says.
func notSaved(err error) bool {
	_, ok := errors.AsType[unsaved](err)
	return ok
}

// assert makes sure, after the page was read and before it is written, that the ledger still
// takes what is done here: whoever was deposed begins nothing. Where the step itself had
// nothing to store, a transaction that stores nothing tells.
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

// write sends w, unless the window is over or the ledger takes nothing, and returns the page
// as the answer showed it. The error is nil if the write is seen. A write is seen through
// even if the caller goes away meanwhile.
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
		if w.shows(r.Task, c.policy.NoToken) {
			return r, seen, nil
		}
		return r, unknown, errNoEffect
	case landed(err) == LandedNo:
		return r, notLanded, err
	}
	return r, unknown, fmt.Errorf("failed: %w", err)
}

// compete is write for a write with which others may compete for the task: it
// counts as seen only if it was answered within the window.
func (v *visit) compete(w Write) (Reading, fate, error) {
	r, f, err := v.write(w)
	switch {
	case f != seen || v.within(r):
		return r, f, err
	case r.Unsure:
		return r, unknown, errors.New("was answered without a date that is known to be right")
	case v.stood:
		return r, unknown, fmt.Errorf("was answered %v after the read by Notion's clock, and %v after it by this machine's, which stood still", r.At.Sub(v.At), v.took.Round(time.Millisecond))
	}
	return r, unknown, fmt.Errorf("was answered after %v, later than claim.write_window (%v)", v.took.Round(time.Millisecond), v.claimer.policy.WriteWindow)
}
