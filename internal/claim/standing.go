package claim

import (
	"fmt"
	"time"

	"dibs/internal/task"
)

// standing is how a claim fares on a page.
type standing int

const (
	// mine: the page shows the claim, whole.
	mine standing = iota
	// done: the page shows that the work was done under this claim, whatever
	// became of the task since.
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
func (c *Claimer) look(cl Hold, t task.Task, now time.Time) (s standing, holder, detail string) {
	if t.Trashed {
		return gone, "", "the task was moved to the trash"
	}
	tok := c.token(cl, t)
	if tok.ID == cl.ID && tok.Done {
		return done, cl.Agent, "the task was completed under it"
	}
	if t.Cleared && tok.ID == cl.ID && !tok.Void && t.ClaimedBy == cl.Agent && now.Before(cl.StaleAt) {
		return covered, "", "its status was gone when the option for it was deleted"
	}
	if t.Status != task.InProgress {
		holder = t.ClaimedBy
		if holder == cl.Agent {
			holder = "" // what is left of the claim's own name
		}
		detail = "its status was set to " + said(t.Status)
		if t.Status == task.Open && tok.ID == cl.ID && !tok.Void {
			detail += " by a person, which hands it out again"
		}
		return gone, holder, detail
	}
	switch {
	case tok.ID == cl.ID && !tok.Void && !tok.Done:
		switch t.ClaimedBy {
		case cl.Agent:
			return mine, cl.Agent, ""
		case "":
			return gone, "", "its claimed_by was cleared"
		}
		return gone, t.ClaimedBy, fmt.Sprintf("its claimed_by was set to %s, who has the task now", t.ClaimedBy)
	case t.ClaimedBy == "":
		return gone, "", "its claim was cleared"
	case tok.Void && tok.ID != cl.ID && now.Before(cl.StaleAt):
		return covered, t.ClaimedBy, abandonedOver(t.ClaimedBy)
	case tok.ID != "" && tok.ID != cl.ID && !tok.Done && now.Before(cl.StaleAt):
		if late, ok := c.late(t); ok {
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

// late returns the claim that t shows, if it is one that was given up here before
// it was marked.
func (c *Claimer) late(t task.Task) (Hold, bool) {
	cl, ok := c.book.get(ParseToken(t.Token).ID)
	return cl, ok && (cl.State == Abandoned || cl.State == Unseen) && cl.Task.ID == t.ID
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

// onPage reports whether t, a page, shows the claim, in whatever form.
func (c *Claimer) onPage(cl Hold, t task.Task) bool { return c.token(cl, t).ID == cl.ID }

// token tells what a page's claim token says, as far as it matters to cl. Where
// there are no tokens, the name and the minute stand in for one; the minute of
// a claim that is renewed may lie later than is known here.
func (c *Claimer) token(cl Hold, t task.Task) Token {
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
