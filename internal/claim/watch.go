package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// hear records the time of a reading, if it is confirmed.
func (c *Claimer) hear(r Reading) {
	for !r.Unsure {
		last := c.latest.Load()
		if last != nil && !last.Before(r.At) || c.latest.CompareAndSwap(last, &r.At) {
			return
		}
	}
}

// heard returns the latest confirmed time of a reading; zero if there is none.
func (c *Claimer) heard() time.Time {
	if at := c.latest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Sighted is called with a claim token that the mirror saw on a task. If the token belongs to a
// mark in state Unseen, its write has arrived after all: the mark becomes Abandoned and due at
// once, and Sighted returns true.
func (c *Claimer) Sighted(ctx context.Context, token string) (bool, error) {
	m, ok := c.unseen(token)
	if !ok {
		return false, nil
	}
	unlock, err := c.locks.Lock(ctx, m.Task.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	m.Task.Token = token
	return c.sighted(ctx, m.Task)
}

// sighted is Sighted for a locked task, as a page shows it.
func (c *Claimer) sighted(ctx context.Context, t task.Task) (bool, error) {
	m, ok := c.unseen(t.Token)
	if !ok || m.Task.ID != t.ID {
		return false, nil
	}
	m.State, m.Due = Abandoned, c.store.Now()
	return true, c.saveMark(ctx, m)
}

// unseen returns the mark of that token, if it is in state Unseen.
func (c *Claimer) unseen(token string) (Mark, bool) {
	tok := ParseToken(token)
	if tok.Done {
		return Mark{}, false
	}
	m, ok := c.book.mark(tok.ID)
	return m, ok && m.State == Unseen
}

// late returns the mark of the claim that t shows, if that claim was abandoned here and is not
// void yet.
func (c *Claimer) late(t task.Task) (Mark, bool) {
	m, ok := c.book.mark(ParseToken(t.Token).ID)
	return m, ok && (m.State == Abandoned || m.State == Unseen) && m.Task.ID == t.ID
}

// held returns the claim on t if an agent here has it; otherwise a zero Hold.
func (c *Claimer) held(t task.Task) Hold {
	for _, h := range c.book.on(t.ID) {
		if (h.State == Held || h.State == Finishing) && ParseToken(t.Token).ID == h.ID {
			return h
		}
	}
	return Hold{}
}

// known returns the ledger's record of an id: a mark, or a claim in the form of the mark that
// it would leave, without a state. over says whether the record has ended. The error is
// ErrUnknownClaim if there is no record.
func (c *Claimer) known(ctx context.Context, id ID) (m Mark, over bool, err error) {
	if m, live := c.book.mark(id); live {
		return m, false, nil
	}
	h, err := c.Find(ctx, id)
	if err == nil {
		m := h.mark("", time.Time{}, "")
		m.Assigned = h.Assigned && h.Started.IsZero() // a granted claim uses the assignment up
		return m, h.State == Ended, nil
	}
	if errors.Is(err, ErrUnknownClaim) {
		m, err = c.ledger.Mark(ctx, id)
	}
	return m, err == nil, err
}

// remains returns the mark that takes off t a claim shown without right: one of this ledger
// that is over, or one that was made on another page; the mark's task is that of the claim. ok
// is false if there is none, if the lease does not matter, or if the page shows no name.
func (c *Claimer) remains(ctx context.Context, t task.Task) (m Mark, ok bool, err error) {
	tok := ParseToken(t.Token)
	switch {
	case tok.ID == "", t.Trashed, t.ClaimedBy == "", t.ClaimedAt.IsZero() && !undated(t),
		t.Status != task.Open && t.Status != task.InProgress, t.Status == task.Open && tok.Done:
		return Mark{}, false, nil
	}
	of, over, err := c.known(ctx, tok.ID)
	if errors.Is(err, ErrUnknownClaim) {
		return Mark{}, false, nil
	}
	now := c.store.Now()
	return Mark{
		ID: NewID(now), Why: Leftover, Of: tok.ID, Agent: of.Agent, Task: of.Task, Made: now,
		Assigned: of.Assigned,
		Reason:   "the card showed this claim although it was over",
	}, err == nil && (over || of.Task.ID != t.ID), err
}

// seeStale adds what a sweep must know about a page.
func (c *Claimer) seeStale(ctx context.Context, s *Sight) (err error) {
	t, m := s.Task, &s.Mark
	if t.Trashed || t.Status != task.InProgress || !c.policy.Stale(t, s.judged()) {
		return nil
	}
	s.Local = c.held(t)
	m.Agent = t.ClaimedBy
	reason := "its lease ran out at " + c.policy.LeaseEnd(t).UTC().Format("15:04 UTC on Jan 2")
	if m.Reason != "" {
		reason += "; " + m.Reason
	}
	m.Reason = reason
	m.History, err = c.exhausted(ctx, t.ID, c.staleTry(t))
	return err
}

// seeCopy finds out whether a page marked by a sweep is a copy that shows the claim of another
// page.
func (c *Claimer) seeCopy(ctx context.Context, s *Sight) error {
	id := s.Local.ID
	if id == "" {
		id = ParseToken(s.Mark.Task.Token).ID
	}
	of, _, err := c.known(ctx, id)
	if errors.Is(err, ErrUnknownClaim) {
		return nil
	}
	s.Copied = err == nil && of.Task.ID != s.Mark.Task.ID
	return err
}

// staleTry returns the try that ended when the claim on t went stale.
func (c *Claimer) staleTry(t task.Task) Try {
	return Try{Agent: t.ClaimedBy, At: c.policy.LeaseEnd(t)}
}

// exhausted returns the history of a task if last uses up its tries (Policy.MaxAttempts): then
// it is a person's turn. Otherwise it returns an empty history.
func (c *Claimer) exhausted(ctx context.Context, id task.ID, last Try) (history string, err error) {
	if c.policy.MaxAttempts == 0 {
		return "", nil
	}
	tries, err := c.ledger.Tries(context.WithoutCancel(ctx), id)
	if err != nil {
		return "", fmt.Errorf("task %s: how often it was tried could not be read: %w", id, err)
	}
	if tries = append(tries, last); len(tries) < c.policy.MaxAttempts {
		return "", nil
	}
	return historyOf(tries), nil
}
