package claim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/task"
)

// Protocol returns the protocol's page of cases.
func Protocol() Cases { return slices.Concat(ofHolds(), ofMarks(), ofOpenings()) }

// fares returns the condition that the hold fares like want.
func fares(want standing) func(Sight) bool { return func(s Sight) bool { return s.standing == want } }

// ofHolds returns the cases of an agent's claim.
func ofHolds() Cases {
	var cs Cases
	for _, e := range []Errand{Guard, Renewal, Delivery} {
		if e == Delivery {
			cs = append(cs,
				Case{On: e, If: "the page shows that the work was done under the claim", Then: "the claim ends as its agent said",
					when: fares(isDone), step: Sight.delivered},
				Case{On: e, If: "the write was sent, and the page shows it; or it gave the task back, and another claim is on the page", Then: "the claim ends as its agent said",
					when: Sight.shows, step: Sight.delivered},
				Case{On: e, If: "what gives the task back may be on its way, and nobody overrides the claim before it must have arrived", Then: "look again, until then",
					when: func(s Sight) bool {
						return s.frees() && s.Arrives > 0 && !(s.standing == isMine && s.running())
					}, step: Sight.holdOn})
		}
		cs = append(cs,
			Case{On: e, If: "another live token lies over the live claim, for less than the grace", Then: "wait: it is probably a late write, and about to be withdrawn",
				when: Sight.patient, step: Sight.bear},
			Case{On: e, If: "the page shows that somebody else ended the claim", Then: "the claim is lost; what is left of it is taken off, if nobody can take the task meanwhile",
				when: either(fares(isSuspect), fares(isGone), fares(isDone)), step: Sight.lose}) // a finish has a row of its own for isDone, above
		if e != Delivery {
			cs = append(cs, Case{On: e, If: "a claim that was given up lies over the live claim, or a part of it went with its column", Then: "write the claim back",
				when: fares(isCovered), step: Sight.restore})
		}
		switch e {
		case Guard:
			cs = append(cs, Case{On: e, If: "the page shows the claim", Then: "take note of the lease that it shows", when: Sight.always, step: Sight.stand})
		case Renewal:
			cs = append(cs,
				Case{On: e, If: "the page shows the claim with the date that was written", Then: "the lease is renewed",
					when: Sight.renewed, step: Sight.renewal},
				Case{On: e, If: "the page shows the claim, and not the date that was written", Then: "the lease ends as it would have",
					when: func(s Sight) bool { return s.Sent }, step: Sight.notRenewed},
				Case{On: e, If: "Notion's time is not known", Then: "not now",
					when: func(s Sight) bool { return s.Unsure }, step: Sight.untimed},
				Case{On: e, If: "the page shows the claim", Then: "write the date; late in the lease it has to survive the settle wait",
					when: Sight.always, step: Sight.renew})
		case Delivery:
			cs = append(cs,
				Case{On: e, If: "the lease is over, or may be before what gives the task back must have arrived", Then: "renew it first: nobody overrides a live claim",
					when: Sight.running, step: func(Sight) Step { return Step{Next: Renewal} }},
				Case{On: e, If: "the page shows the claim", Then: "write what the agent said",
					when: Sight.always, step: Sight.deliver})
		}
	}
	return cs
}

// patient reports whether a suspected late write still has time to be withdrawn.
func (s Sight) patient() bool {
	since := s.Hold.Suspect
	if since.IsZero() {
		since = s.Now
	}
	return s.standing == isSuspect && s.Now.Before(since.Add(s.Policy.Grace))
}

// suspicious returns the hold under suspicion. It is looked at often enough to see the void
// mark before the task is reopened, a grace after the mark was made.
func (s Sight) suspicious() Hold {
	h := s.Hold
	if h.Suspect.IsZero() {
		h.Suspect = s.Now
	}
	h.Due, h.Detail = s.Now.Add(s.Policy.Grace/3), s.detail
	return h
}

func (s Sight) bear() Step { return storing(holding(s.suspicious())) }

// restore writes the claim back. The claim stays under suspicion, and is looked at again, until
// it is seen in its place. Writing it twice does no harm.
func (s Sight) restore() Step {
	h := s.suspicious()
	return Step{
		Save: holding(h), Write: new(claimWrite(h)), Other: true,
		Then: func(now Reading) Change {
			s.Hold = h
			ch := s.stands(now.Task)
			if s.Late != nil { // a write lands once
				ch.Marks = append(ch.Marks, s.Late.gone(s.Now, takenBack))
			}
			return ch
		},
		Else: func(f fate, err error) (Change, error) {
			if errors.Is(err, errSlow) || errors.Is(err, errNoEffect) {
				return Change{}, s.again(f, nil)
			}
			return Change{}, s.again(f, f.explain(fmt.Sprintf("claim %s: the write that puts it back", h.ID), err))
		},
	}
}

func (s Sight) stand() Step { return storing(s.stands(s.Task)) }

// stands returns the hold as t, which shows it, describes it. If it was under suspicion, the
// claim was repaired.
func (s Sight) stands(t task.Task) Change {
	h := s.Hold
	var facts []Fact
	if !h.Suspect.IsZero() {
		f := h.fact(KindConflict, s.Now)
		f.Detail, f.Remote = h.Detail+"; the claim is back in its place", true
		if s.standing != isMine {
			f.Holder = s.holder
		}
		facts = append(facts, f)
	}
	h.Suspect, h.Due, h.Detail = time.Time{}, time.Time{}, ""
	return holding(s.Policy.refreshed(h, t), facts...)
}

// lose ends a claim that somebody else ended. Work that was finished meanwhile is recorded as
// orphaned in the task log. What people left of the claim on its page is taken off at once; if
// that fails, the claim is lost all the same, and Tidy does it later.
func (s Sight) lose() Step {
	h := s.Hold
	if s.Editor != "" {
		s.detail += fmt.Sprintf(" (%s edited the card last)", s.Editor)
	}
	h.LostTo = s.holder
	over := h.ended(EndLost, s.Now, s.detail)
	ch := holding(over)
	if h.Finish == nil || h.Said() != nil { // else the loss is on record
		f := h.lost(s.Now, s.holder, s.detail, "")
		if s.ranOut() {
			f.Tried = TriedAgain
		}
		ch.Facts = append(ch.Facts, f)
	}
	if fin := h.Finish; fin != nil && fin.isWork() {
		ch.Facts = append(ch.Facts, h.orphaned(*fin, s.Now, s.holder, s.detail))
	}
	step := Step{Save: ch, Err: &Lost{Claim: over, Holder: s.holder, Detail: s.detail}}
	if w, what, ok := s.leaving(); ok {
		step.Write, step.Then = &w, s.left(h.mark("", time.Time{}, ""), what)
		step.Else = func(f fate, err error) (Change, error) {
			return Change{}, f.explain("the write that takes it off", err)
		}
	}
	return step
}

// leaving returns the write that clears a lost claim's remains from its page, and the line for
// the log; false if there is nothing to write. A task that was finished or blocked keeps the
// name of its last holder, for people to see.
func (s Sight) leaving() (w Write, what string, ok bool) {
	t, h := s.Task, s.Hold
	tok := ParseToken(t.Token)
	// Somebody was put into the column of assignees, and the name taken off by the same hand.
	// Nobody claims a task in progress without a name.
	if replaced := t.ClaimedBy == "" && t.Assignee != "" && t.Status == task.InProgress; replaced {
		h.Agent = ""
	} else if t.ClaimedBy == "" || !s.Policy.live(s.Reading) {
		return Write{}, "", false
	}
	if t.Trashed || tok.ID != h.ID || tok.Done {
		return Write{}, "", false
	}
	if t.Status == task.Open || t.Status == task.InProgress {
		return leavingWrite(h.Agent, t), s.Policy.leftTo(h.Agent, t), true
	}
	return Write{}, "", false
}

// renew writes a new date.
func (s Sight) renew() Step {
	h := s.Hold
	h.Noted = s.Now
	return Step{
		Save: holding(h), Write: &Write{ClaimedAt: new(h.Noted)},
		// A rival overrides only a claim that it read after StaleAt, by the Date of an answer
		// that came within its window. If the renewal landed before any such read, its answer
		// is enough. After that, a rival may be between its read and its write, and the renewal
		// must survive the settle wait, as a claim does.
		Enough: func(answer Reading) bool {
			stands, _, _ := s.Policy.standing(h, answer.Task, answer.judged(), nil)
			return stands == isMine && !answer.Unsure && answer.At.Before(h.StaleAt.Add(-s.Policy.WriteWindow-clockAllowance))
		},
		Then: func(now Reading) Change { return s.Policy.renewed(h, now.Task) },
		Else: func(f fate, err error) (Change, error) {
			if f == notLanded {
				return Change{}, fmt.Errorf("claim %s was not renewed: %w", h.ID, err)
			}
			return Change{}, s.again(f, unproven(h))
		},
	}
}

// renewed reports whether the page shows the renewal that was sent.
func (s Sight) renewed() bool {
	return s.Sent && Write{ClaimedAt: &s.Hold.Noted}.shows(s.Task)
}

func (s Sight) renewal() Step { return storing(s.Policy.renewed(s.Hold, s.Task)) }

// renewed returns the change of h once its page t shows the noted date.
func (p Policy) renewed(h Hold, t task.Task) Change {
	h.ClaimedAt = h.Noted
	if h.Heartbeat.After(h.ClaimedAt) { // the clock was ahead; a heartbeat justifies one renewal only
		h.Heartbeat = h.ClaimedAt
	}
	h = p.refreshed(h, t)
	f := h.fact(KindRenewed, h.ClaimedAt)
	f.Remote, f.Expires = true, h.ExpiresAt()
	return holding(h, f)
}

func (s Sight) notRenewed() Step {
	return Step{Err: unproven(s.Hold)}
}

func (s Sight) untimed() Step {
	return Step{Err: fmt.Errorf("claim %s was not renewed: %w", s.Hold.ID, errUntimed)}
}

// frees reports whether the finish opens the task again.
func (s Sight) frees() bool { return finishWrite(s.Hold, s.Policy).frees() }

// running reports whether the lease runs out before the finish is sure to be out of the way. An
// unsure reading will do: a renewal harms nobody.
func (s Sight) running() bool {
	return s.Policy.Over(s.Task, s.At) || s.frees() && !s.Policy.outlives(s.Task, s.At)
}

// shows reports whether the page shows a finish that was sent before. A claim comes under suspicion
// only while nothing has been sent that gives the task back.
func (s Sight) shows() bool {
	if !s.Sent {
		return false
	}
	other := s.token.ID != "" && s.token.ID != s.Hold.ID && !s.token.Void && !s.token.Done
	claimed := s.standing == isSuspect || other && Owner(s.Task, s.Hold.Agent) != "" // and then assigned
	taken := claimed && s.frees() && s.Hold.Suspect.IsZero()
	return taken || finishWrite(s.Hold, s.Policy).shows(s.Task)
}

func (s Sight) holdOn() Step {
	s.Hold.Due = s.lookAgain(s.Hold.Finish.At)
	return storing(holding(s.Hold))
}

func (s Sight) deliver() Step {
	var ch Change // the suspicion ends before anything is sent
	if !s.Hold.Suspect.IsZero() {
		s.Hold.Suspect, s.Hold.Detail = time.Time{}, ""
		ch = holding(s.Hold)
	}
	return Step{
		Save:  ch,
		Write: new(finishWrite(s.Hold, s.Policy)),
		Then:  func(now Reading) Change { return s.Policy.delivered(s.Hold, now.Task, s.Now) },
	}
}

func (s Sight) delivered() Step { return storing(s.Policy.delivered(s.Hold, s.Task, s.Now)) }

// delivered returns the end of a hold whose finish is in Notion. t is its task there.
func (p Policy) delivered(h Hold, t task.Task, now time.Time) Change {
	h.Task = t
	fin := h.Finish
	if h.Taken() { // which is on record
		return holding(h.ended(EndLost, now, fin.Taking()))
	}
	f := h.fact(finishKinds[fin.As], now)
	f.ID = string(h.ID) // also if it is found out again
	f.Remote, f.Started, f.Finished, f.Summary, f.Evidence, f.Changed, f.Used = true, h.Started, fin.At, fin.Summary, fin.Evidence, fin.Files, h.Used
	switch {
	case fin.To != "":
		f.Kind, f.Holder, f.Expires = KindOffered, fin.To, f.At.Add(fin.For)
	case fin.Unheard && h.OfferedBy != "": // it is offered as before
		f.Kind, f.Agent, f.Holder, f.Expires, f.Started = KindOffered, h.OfferedBy, h.Agent, h.OfferedUntil, time.Time{}
	case fin.Answer == Expired:
		f.Kind, f.Agent, f.Holder = KindExpired, fin.From, h.Agent
	case fin.Answer != "":
		f.Kind, f.Holder = KindDeclined, fin.From
	}
	if h.Brief { // nobody worked on it
		f.Started = time.Time{}
	}
	f.Comment, f.Mention, f.Asked = fin.Comment, fin.Mention, fin.Ask
	switch {
	case fin.As == EndFailed && fin.Reopen:
		f.Tried = TriedAgain
	case fin.As != EndReleased:
		f.Tried = TriedOver
	}
	if fin.History != "" {
		f.Detail = fmt.Sprintf("the task is %s: %s", p.word(task.Blocked), fin.History)
	}
	return holding(h.ended(fin.As, now, f.Detail), f)
}

var finishKinds = map[Ending]Kind{
	EndCompleted: KindCompleted, EndFailed: KindFailed, EndBlocked: KindBlocked, EndReleased: KindReleased,
	EndReview: KindReview,
}
