package claim

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/task"
)

// standing is how a claim fares on a page.
type standing int

const (
	// mine: the page shows the claim, whole.
	mine standing = iota
	// done: the page shows that the task was completed by this claim, whatever
	// became of it since.
	done
	// covered: a claim being withdrawn lies over this live one; its writer
	// abandoned it and means no harm.
	covered
	// suspect: another live token lies over this live claim. A follower of the
	// protocol would have skipped the task, so it is probably a late write,
	// which its writer is about to withdraw.
	suspect
	// gone: the claim is over, whoever ended it.
	gone
)

// look compares a claim with a page read at now. For gone and suspect it says
// who has the task and what happened.
func (c *Claimer) look(ctx context.Context, cl Claim, t task.Task, now time.Time) (s standing, holder, detail string) {
	if t.Trashed {
		return gone, "", "the task was moved to the trash"
	}
	tok := c.token(cl, t)
	if tok.ID == cl.ID && tok.Done {
		return done, cl.Agent, "the task was completed under it"
	}
	if t.Status != task.InProgress {
		holder = t.ClaimedBy
		if holder == cl.Agent {
			holder = "" // what is left of the claim's own name
		}
		return gone, holder, "its status was set to " + said(t.Status)
	}
	switch {
	case tok.ID == cl.ID && !tok.Void && !tok.Done:
		switch t.ClaimedBy {
		case cl.Agent:
			return mine, cl.Agent, ""
		case "":
			return gone, "", "its claimed_by was cleared"
		}
		return gone, t.ClaimedBy, fmt.Sprintf("its claimed_by was set to %s", t.ClaimedBy)
	case t.ClaimedBy == "":
		return gone, "", "its claim was cleared"
	case tok.Void && tok.ID != cl.ID && now.Before(cl.StaleAt):
		return covered, t.ClaimedBy, abandonedOver(t.ClaimedBy)
	case tok.ID != "" && tok.ID != cl.ID && !tok.Done && now.Before(cl.StaleAt):
		if late, ok := c.late(ctx, t); ok {
			return covered, late.Agent, abandonedOver(late.Agent) // it is known whose write came late
		}
		return suspect, t.ClaimedBy, fmt.Sprintf("%s claimed the task over a live claim", t.ClaimedBy)
	case tok.Void && tok.ID != cl.ID:
		return gone, "", "it was marked to be reopened"
	case t.ClaimedBy != cl.Agent:
		return gone, t.ClaimedBy, fmt.Sprintf("%s has it now", t.ClaimedBy)
	}
	return gone, t.ClaimedBy, "its claim token was changed"
}

// late returns the claim that t shows, if it is one that was abandoned here. A
// ledger that fails is left to fail when something is to be saved.
func (c *Claimer) late(ctx context.Context, t task.Task) (Claim, bool) {
	cl, err := c.ledger.Claim(ctx, ParseToken(t.Token).ID)
	return cl, err == nil && cl.State == Abandoned && cl.Task.ID == t.ID
}

// said is a status as people know it.
func said(s task.Status) string {
	if s == task.Unknown {
		return "one that tasks.statuses does not name"
	}
	return string(s)
}

func abandonedOver(agent string) string {
	return fmt.Sprintf("an abandoned claim of %s lies over it", agent)
}

// token tells what a page's claim token says, as far as it matters to cl. Where
// there are no tokens, the name and the minute stand in for one; the minute of
// a claim that is renewed may lie later than is known here.
func (c *Claimer) token(cl Claim, t task.Task) Token {
	if !c.policy.NoToken {
		return ParseToken(t.Token)
	}
	if t.ClaimedBy != cl.Agent {
		return Token{}
	}
	minute := cl.ClaimedAt.Truncate(time.Minute)
	renewed := (cl.State == Held || cl.State == Finishing) && t.ClaimedAt.After(minute)
	switch {
	case t.Status == task.Completed:
		return Token{ID: cl.ID, Done: true}
	case renewed || t.ClaimedAt.Equal(minute):
		return Token{ID: cl.ID}
	}
	return Token{}
}

// claimWrite is the write that puts cl on its page.
func claimWrite(cl Claim) Write {
	w := Write{
		Status:    new(task.InProgress),
		ClaimedBy: new(cl.Agent),
		ClaimedAt: new(cl.ClaimedAt),
		Token:     new(string(cl.ID)),
	}
	if cl.Requested > 0 {
		w.Timeout = new(cl.Requested)
	}
	return w
}

// restoreWrite is the write that puts cl back on a page that shows t, with the
// lease that its holder counts on.
func restoreWrite(cl Claim, t task.Task) Write {
	w := claimWrite(cl)
	if t.Timeout != cl.Task.Timeout {
		w.Timeout = new(cl.Task.Timeout)
	}
	return w
}

// voidMark is the write that marks cl as being withdrawn.
func voidMark(cl Claim) Write { return Write{Token: new(voidPrefix + string(cl.ID))} }

// clearWrite takes a claim off a page and leaves it in the given status.
func clearWrite(s task.Status) Write {
	return Write{Status: new(s), ClaimedBy: new(""), ClaimedAt: new(time.Time{}), Token: new("")}
}

// givingBack adds to a write that takes cl off the page that shows t what the
// task had for a lease before cl asked for another, unless that was changed since.
func (w Write) givingBack(cl Claim, t task.Task) Write {
	if cl.Requested > 0 && t.Timeout == cl.Requested && cl.Own != cl.Requested {
		w.Timeout = new(cl.Own)
	}
	return w
}

// shows reports whether t has every value that w sets. Notion has been seen to
// answer 200 to a write and show the old values.
func (w Write) shows(t task.Task, noToken bool) bool {
	return (w.Status == nil || *w.Status == t.Status) &&
		(w.ClaimedBy == nil || *w.ClaimedBy == t.ClaimedBy) &&
		(w.ClaimedAt == nil || w.ClaimedAt.Truncate(time.Minute).Equal(t.ClaimedAt)) &&
		(w.Token == nil || noToken || *w.Token == t.Token)
}
