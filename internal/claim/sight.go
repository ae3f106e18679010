package claim

import (
	"fmt"
	"time"

	"dibs/internal/task"
)

// Errand is what a page is visited for.
type Errand string

// The errands. The first three are to the page of a claim that an agent has; the others are
// about a mark, or to make one.
const (
	Guard    Errand = "guard"    // to see whether a held claim stands
	Renewal  Errand = "renew"    // to write its lease anew
	Delivery Errand = "finish"   // to write what the agent said at its end
	Cleanup  Errand = "clean up" // to take the next step of a mark
	Sweeping Errand = "sweep"    // to mark a stale claim
	Tidying  Errand = "tidy"     // to take a claim off that is over
	Repaying Errand = "repay"    // to put a lease length back
	Opening  Errand = "reopen"   // to open a task that nobody can claim, and that shows a name
)

// Sight is all that the page of cases looks at: a record, what its page shows, and what else
// is known here.
type Sight struct {
	Errand  Errand
	Hold    Hold // the record, where an agent has the claim
	Mark    Mark // the record otherwise
	Reading      // the page
	Policy  Policy
	Now     time.Time // Notion's time, as the store has it

	// Sent says that on this errand a write was sent before, and may have landed.
	Sent bool
	// Slow says that the write window is over.
	Slow bool
	// Settled says that the mark has settled: its date does not have to be waited for.
	Settled bool
	// Arrives is how long a write that frees the task may yet be on its way, from an earlier
	// run or an earlier leader: were it repeated, the first could land on the next claim.
	Arrives time.Duration
	// Late is the mark whose claim the page shows, if that claim was given up and is not void
	// yet.
	Late *Mark
	// Marks are those on the task.
	Marks []Mark
	// Local is the claim that the page shows, or that a sweep covers, if an agent here has it.
	Local Hold
	// Over says that what the page shows is a claim of this ledger that is over, that of the
	// record; and Copied that it is one on another task.
	Over, Copied bool

	// token is what the page's token says, as far as it concerns the record.
	token Token
	// standing is how the hold fares. holder and detail say who has the task, and what
	// happened, if it is suspect or gone.
	standing       standing
	holder, detail string
}

// standing is how a hold fares on its page.
type standing int

const (
	// mine: the page shows the claim, all of it.
	mine standing = iota
	// done: the page shows that the work was done under this claim, whatever became of the
	// task since.
	done
	// covered: a claim that was given up lies over this live one. Its writer means no harm.
	covered
	// suspect: another live token lies over this live claim. A follower of the protocol
	// would have skipped the task, so it is probably a late write, which its writer is about
	// to withdraw.
	suspect
	// gone: the claim is over, whoever ended it.
	gone
)

// judge compares the record with the page, once all else is known.
func (s *Sight) judge() {
	if s.ofHold() {
		s.token = s.Policy.tokenOf(s.Hold, s.Task)
		s.standing, s.holder, s.detail = s.Policy.standing(s.Hold, s.Task, s.judged(), s.Late)
		return
	}
	s.token = s.Policy.tokenOfMark(s.Mark, s.Task)
}

// ofHold reports whether the record is a hold.
func (s Sight) ofHold() bool {
	return s.Errand == Guard || s.Errand == Renewal || s.Errand == Delivery
}

// standing compares a hold with a page read at now. late is the mark whose claim the page
// shows, if that was given up. For suspect and gone it says who has the task and what
// happened.
func (p Policy) standing(h Hold, t task.Task, now time.Time, late *Mark) (s standing, holder, detail string) {
	if t.Trashed {
		return gone, "", "the task was moved to the trash"
	}
	tok := p.tokenOf(h, t)
	own, live := tok.ID == h.ID, now.Before(h.StaleAt)
	if own && tok.Done {
		return done, h.Agent, "the task was completed under it"
	}
	if t.Cleared && own && !tok.Void && t.ClaimedBy == h.Agent && live {
		return covered, "", "its status was gone when the option for it was deleted"
	}
	if t.Status != task.InProgress {
		holder = t.ClaimedBy
		if holder == h.Agent {
			holder = "" // what is left of the claim's own name
		}
		detail = "its status was set to " + said(t.Status)
		if t.Status == task.Open && own && !tok.Void {
			detail += " by a person, which hands it out again"
		}
		return gone, holder, detail
	}
	switch {
	case own && !tok.Void && t.ClaimedBy == h.Agent:
		return mine, h.Agent, ""
	case own && !tok.Void && t.ClaimedBy == "":
		return gone, "", "its claimed_by was cleared"
	case own && !tok.Void:
		return gone, t.ClaimedBy, fmt.Sprintf("its claimed_by was set to %s, who has the task now", t.ClaimedBy)
	case t.ClaimedBy == "":
		return gone, "", "its claim was cleared"
	case !own && tok.Void && live:
		return covered, t.ClaimedBy, abandonedOver(t.ClaimedBy)
	case !own && tok.ID != "" && !tok.Done && live && late != nil: // it is known whose write came late
		return covered, late.Agent, abandonedOver(late.Agent)
	case !own && tok.ID != "" && !tok.Done && live:
		return suspect, t.ClaimedBy, fmt.Sprintf("%s claimed the task over a live claim", t.ClaimedBy)
	case !own && tok.Void:
		return gone, "", "it was marked to be reopened"
	case t.ClaimedBy != h.Agent:
		return gone, t.ClaimedBy, fmt.Sprintf("%s has it now", t.ClaimedBy)
	}
	return gone, t.ClaimedBy, "its claim token was changed"
}

func abandonedOver(agent string) string {
	return fmt.Sprintf("an abandoned claim of %s lies over it", agent)
}

// said is a status as people know it.
func said(s task.Status) string {
	if s == task.Unknown {
		return "one that tasks.statuses does not name"
	}
	return string(s)
}

// tokenOf tells what the page of h says by its token. Where there are no tokens, the name
// and the minute stand in for one; the minute of a claim that is renewed may be later than
// is known here.
func (p Policy) tokenOf(h Hold, t task.Task) Token {
	renewed := (h.State == Held || h.State == Finishing) && t.ClaimedAt.After(h.ClaimedAt.Truncate(time.Minute))
	return p.tokenFor(h.ID, h.Agent, h.ClaimedAt, renewed, t)
}

// tokenOfMark is tokenOf for a mark.
func (p Policy) tokenOfMark(m Mark, t task.Task) Token {
	return p.tokenFor(m.ID, m.Agent, m.ClaimedAt, false, t)
}

func (p Policy) tokenFor(id ID, agent string, claimedAt time.Time, renewed bool, t task.Task) Token {
	switch {
	case !p.NoToken:
		return ParseToken(t.Token)
	case t.ClaimedBy != agent:
		return Token{}
	case t.Status == task.Completed:
		return Token{ID: id, Done: true}
	case renewed || t.ClaimedAt.Equal(claimedAt.Truncate(time.Minute)):
		return Token{ID: id}
	}
	return Token{}
}

// undated reports whether t shows a claim whose date somebody cleared, which is refused to
// everybody.
func undated(t task.Task) bool {
	return t.Status == task.InProgress && t.ClaimedBy != "" && t.ClaimedAt.IsZero() && !t.Trashed && Assignee(t) == ""
}

// live reports whether nobody takes the task for as long as the page shows this: it has a
// lease that is not over, by a time that is known, or a claim whose date somebody cleared.
func (p Policy) live(r Reading) bool {
	return undated(r.Task) || !r.Unsure && r.At.Before(p.LeaseEnd(r.Task))
}

// vacant reports whether a task shows nobody's claim, and may be claimed by anybody.
func vacant(t task.Task) bool {
	return !t.Trashed && t.Status == task.Open && Assignee(t) == "" && (t.ClaimedBy == "" || ParseToken(t.Token).Done)
}
