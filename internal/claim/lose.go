package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// bearWith reports whether a suspected late write over the claim should be
// given time to be withdrawn, and notes since when it is there.
func (c *Claimer) bearWith(cl *Hold, detail string) bool {
	now := c.store.Now()
	if cl.Suspect.IsZero() {
		cl.Suspect = now
	}
	// It is looked at often enough to see the void mark before the task is
	// reopened, a grace after the mark was made.
	until := cl.Suspect.Add(c.policy.Grace)
	cl.Due, cl.Detail = now.Add(c.policy.Grace/3), detail
	return now.Before(until)
}

// lose closes a claim that somebody else ended, and returns a *Lost. Work that
// was finished meanwhile is not forgotten: the task log gets it as orphaned. page is how
// the task was found; zero if it was not.
func (c *Claimer) lose(ctx context.Context, cl Hold, page task.Task, holder, detail string) (Hold, error) {
	now := c.store.Now()
	e := cl.fact(KindLost, now)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	if c.ranOut(cl, page) {
		e.Tried = TriedAgain
	}
	cl.LostTo = holder
	facts := []Fact{e}
	if f := cl.Finish; f != nil && f.isWork() {
		facts = append(facts, cl.orphaned(*f, now, holder, detail))
	}
	cl, err := c.end(ctx, cl, EndLost, detail, facts...)
	if err != nil {
		return Hold{}, err
	}
	if err := c.owe(ctx, cl); err != nil {
		return Hold{}, err
	}
	return Hold{}, &Lost{Claim: cl, Holder: holder, Detail: detail}
}

// ranOut reports whether the lost claim cl was stale when another daemon swept its task,
// which is as page, or took it over: it is off the page, and the task still to be done.
func (c *Claimer) ranOut(cl Hold, page task.Task) bool {
	for _, mark := range c.book.on(cl.Task.ID) {
		if mark.Sweep != nil && (mark.State == Clearing || c.onPage(mark, page)) {
			return false // it is this daemon that sweeps it, and tells of it then
		}
	}
	return (page.Status == task.Open || page.Status == task.InProgress) && !page.Trashed &&
		!c.policy.NoToken && !c.onPage(cl, page) && cl.Finish == nil && c.store.Now().After(cl.StaleAt)
}

// isWork reports whether f tells of work that was done, or tried.
func (f Finish) isWork() bool { return f.As == EndCompleted || f.As == EndReview || f.As == EndFailed }

// orphaned is the fact of work that was finished for a claim that had been lost.
func (c Hold) orphaned(f Finish, at time.Time, holder, detail string) Fact {
	e := c.fact(KindOrphaned, at)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	e.Started, e.Finished, e.Summary = c.Started, f.At, f.Summary
	return e
}
