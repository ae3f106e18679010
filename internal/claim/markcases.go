package claim

import (
	"cmp"
	"fmt"
	"time"

	"dibs/internal/task"
)

// ofMarks returns the cases of marks.
func ofMarks() Cases {
	return Cases{
		{On: Cleanup, State: Unseen, If: "Notion's time is not known", Then: "look again later",
			when: Sight.unsure, step: Sight.postponed},
		{On: Cleanup, State: Unseen, If: "it may be on its way yet", Then: "wait",
			when: func(s Sight) bool { return s.At.Before(s.Mark.watchEnd()) }, step: Sight.nothing},
		{On: Cleanup, State: Unseen, If: "it never showed", Then: "forget it",
			when: Sight.always, step: func(s Sight) Step { return ending(s.Mark.Reason)(s) }},

		{On: Cleanup, State: Abandoned, If: "it is not on the page, or the page is in the trash", Then: "watch for it",
			when: either(Sight.notOwn, Sight.trashed), step: Sight.unseen},
		{On: Cleanup, State: Abandoned, If: "the page is somebody else's by now, or its lease is over", Then: "leave it alone",
			when: either(Sight.finished, Sight.renamed, Sight.assigned, Sight.over), step: ending(takenBack)},
		{On: Cleanup, State: Abandoned, If: "it is void already, and Notion's time is not known", Then: "look again later: the grace could not be counted",
			when: func(s Sight) bool { return s.token.Void && s.Unsure }, step: Sight.postponed},
		{On: Cleanup, State: Abandoned, If: "it is void already", Then: "take it off after the grace",
			when: func(s Sight) bool { return s.token.Void }, step: Sight.voided},
		{On: Cleanup, State: Abandoned, If: "the page shows the claim", Then: "make it void, for a holder to see, and take it off after the grace",
			when: Sight.always, step: Sight.void},

		{On: Cleanup, State: Clearing, If: "it is off the page, or somebody has claimed the task since", Then: "it is done",
			when: func(s Sight) bool {
				return s.Mark.off(s.Task) || !s.Mark.opens() && s.notOwn() && s.token.ID != "" && s.token.ID != s.Mark.Of && !s.Task.Trashed
			},
			step: func(s Sight) Step { return storing(s.closed(s.Mark)) }},
		{On: Cleanup, If: "what takes a claim off may be on its way", Then: "look again, until it must have arrived",
			when: func(s Sight) bool { return s.Arrives > 0 },
			step: func(s Sight) Step {
				s.Mark.Due = s.lookAgain(s.Mark.Made)
				return storing(marking(s.Mark))
			}},
		{On: Cleanup, If: "somebody put another name beside it, and nobody can take the task", Then: "take it off, and leave the task to that name",
			when: func(s Sight) bool {
				return !s.notOwn() && !s.finished() && s.renamed() && s.settled() && s.Task.ClaimedBy != "" && !s.trashed() && s.Policy.live(s.Reading)
			}, step: Sight.stepAside},
		{On: Cleanup, If: "the page is somebody else's by now, or in the trash, or its lease is over", Then: "leave it alone",
			when: either(Sight.notOwn, Sight.finished, Sight.renamed, Sight.trashed, Sight.assigned, Sight.passing), step: ending(takenBack)},
		{On: Cleanup, If: "Notion's time is not known", Then: "look again later: a holder may be on its way to write its claim back",
			when: Sight.unsure, step: Sight.postponed},
		{On: Cleanup, If: "its time has not come, by Notion's clock", Then: "wait",
			when: func(s Sight) bool { return !s.settled() }, step: Sight.nothing},
		{On: Cleanup, If: "the mark is on the page", Then: "take it off, and open the task if it is IN_PROGRESS; an OPEN one is set to OPEN again",
			when: Sight.always, step: Sight.takeOff},

		{On: Sweeping, If: "the page shows no stale claim, or what takes one off may be on its way", Then: "nothing",
			when: func(s Sight) bool {
				return s.Arrives > 0 || s.trashed() || s.Task.Status != task.InProgress || !s.Policy.Stale(s.Task, s.judged()) || s.Slow
			}, step: Sight.nothing},
		{On: Sweeping, If: "its agent is done, and Notion has yet to be told", Then: "nothing: that is delivered first",
			when: func(s Sight) bool { return s.Local.State == Finishing }, step: Sight.nothing},
		{On: Sweeping, If: "the page shows a stale claim", Then: "put a void mark in its place; it competes like a claim, and is taken off once it has settled",
			when: Sight.always, step: Sight.put},

		{On: Tidying, If: "the page shows no claim of this ledger that is over, or somebody may take the task", Then: "nothing",
			when: func(s Sight) bool { return !s.Over || s.Arrives > 0 || !s.Policy.live(s.Reading) }, step: Sight.nothing},
		{On: Tidying, If: "the page is a copy, with the claim of another page", Then: "take it off",
			when: func(s Sight) bool { return s.Copied }, step: Sight.leave},
		{On: Tidying, If: "another name is beside a claim that is over", Then: "take it off, and leave the task to that name",
			when: Sight.renamed, step: Sight.leave},
		{On: Tidying, If: "the page shows a claim that is over", Then: "make it void, for a holder to see, and take it off after the grace",
			when: Sight.always, step: Sight.void},
	}
}

func (s Sight) unsure() bool   { return s.Unsure }
func (s Sight) trashed() bool  { return s.Task.Trashed }
func (s Sight) notOwn() bool   { return s.token.ID != s.Mark.ID }
func (s Sight) finished() bool { return s.token.Done }
func (s Sight) renamed() bool  { return s.Task.ClaimedBy != s.Mark.Agent }
func (s Sight) assigned() bool { return unbegun(s.Task) != "" }
func (s Sight) over() bool     { return s.Policy.Over(s.Task, s.judged()) }

// passing reports whether somebody may have the task before a write sent now must have arrived.
func (s Sight) passing() bool { return s.over() || !s.Unsure && !s.Policy.outlives(s.Task, s.At) }

// lookAgain returns when to look whether a write owed since then has arrived.
func (s Sight) lookAgain(since time.Time) time.Time {
	next := laterThan(s.Now, since, nil)
	if last := s.Now.Add(s.Arrives); last.Before(next) {
		return last
	}
	return next
}

// settled reports whether the mark's next step is due by Notion's clock. The clock here may
// have jumped ahead.
func (s Sight) settled() bool {
	return !s.Unsure && (s.Settled || !s.At.Add(time.Second).Before(s.Mark.Due))
}

const takenBack = "its task was taken back, changed or free to be taken before the withdrawal was complete"

// ending returns the step that ends the mark and leaves the page as it is.
func ending(reason string) func(Sight) Step {
	return func(s Sight) Step { return storing(marking(s.Mark.gone(s.Now, reason))) }
}

func (s Sight) unseen() Step {
	s.Mark.State, s.Mark.Due = Unseen, time.Time{}
	return storing(marking(s.Mark))
}

// postponed returns the step that waits until Notion's time is known.
func (s Sight) postponed() Step {
	step := storing(marking(s.Mark.putOff(s.Now, errUntimed)))
	step.Err = errUntimed
	return step
}

// postpone returns the Else of a step that is retried later if its write is not seen.
func (s Sight) postpone(m Mark, what string) func(fate, error) (Change, error) {
	return func(f fate, err error) (Change, error) {
		if what != "" {
			err = fmt.Errorf("%s %w", what, err)
		}
		if notSaved(err) { // the new date cannot be stored either
			return Change{}, err
		}
		return marking(m.putOff(s.Now, err)), err
	}
}

func (s Sight) voided() Step { return storing(s.nowVoid(s.Mark, s.Reading)) }

// nowVoid returns the change of m once r shows it void on the page. If Notion's time is not known,
// the grace cannot be counted yet.
func (s Sight) nowVoid(m Mark, r Reading) Change {
	if r.Unsure {
		return marking(m.putOff(s.Now, errUntimed))
	}
	m.State, m.Due = Voided, r.At.Add(s.Policy.Grace)
	return marking(m)
}

// void makes a claim void: an abandoned one, or, on a page to be tidied, one that is over. The
// latter may have come by a late write and cover a live claim.
func (s Sight) void() Step {
	m := s.Mark
	step := Step{Write: new(voidMark(m.ID, m.Agent)), Then: func(now Reading) Change { return s.nowVoid(m, now) }}
	if s.Errand == Cleanup {
		step.Else = s.postpone(m, "the void mark")
		return step
	}
	m.Task, m.State, m.Due, m.ClaimedAt = s.Task, Abandoned, s.Now, s.Task.ClaimedAt
	step.Save = marking(m)
	step.Else = func(f fate, err error) (Change, error) {
		if f == notLanded {
			return marking(m.gone(s.Now, err.Error())), err
		}
		return Change{}, fmt.Errorf("the void mark %w", err) // RunDue looks whether it is there
	}
	return step
}

// leave takes a claim that is over off a page that nobody can take for now, in one write.
func (s Sight) leave() Step {
	w, what := leavingWrite(s.Mark.Agent, s.Task), s.Policy.leftTo(s.Mark.Agent, s.Task)
	if s.Copied {
		what += "; its claim was a copy of one on another task"
	}
	return Step{Write: &w, Then: s.left(s.Mark, what), Else: func(f fate, err error) (Change, error) {
		return Change{}, f.explain("the write that takes it off", err)
	}}
}

// leftover returns the mark under which the remains of a claim that is over are taken off.
func (s Sight) leftover() Mark {
	m := s.Mark
	if s.ofHold() {
		m = s.Hold.mark("", time.Time{}, s.detail)
		m.ID, m.Why = NewID(s.Now), Leftover
	}
	m.Task, m.State, m.Made, m.Due = s.Task, Clearing, s.Now, s.Now
	return m
}

// stepAside takes the mark off a page on which somebody has put another name.
func (s Sight) stepAside() Step {
	m := s.Mark
	m.State = Clearing
	return Step{
		Save:  marking(m),
		Write: new(leavingWrite(m.Agent, s.Task)),
		Then: func(Reading) Change {
			what := s.Policy.leftTo(m.Agent, s.Task)
			return marking(m.gone(s.Now, what), m.cleared(s.Task, s.Now, what))
		},
		Else: s.postpone(m, ""),
	}
}

// put writes a void mark in place of what the page shows, as a claim is written.
func (s Sight) put() Step {
	m := s.Mark
	m.Task, m.ClaimedAt, m.State, m.Due = s.Task, s.Now, Abandoned, s.Now.Add(s.Policy.Grace)
	w := voidMark(m.ID, m.Agent)
	w.ClaimedAt = new(s.Now) // so that no part of another claim shows
	step := Step{
		Save: marking(m), Write: &w, Compete: true,
		Then: func(Reading) Change {
			m.State, m.Due = Voided, s.Now.Add(s.Policy.WriteWindow+s.Policy.Settle) // its answer came within the window
			return marking(m)
		},
		Else: func(f fate, err error) (Change, error) {
			ch := marking(m.gone(s.Now, err.Error()))
			if f == unknown {
				m.Due = s.Now
				ch = marking(m)
			}
			switch {
			case s.Errand == Opening:
				return ch, s.undone(f, err)
			case f == unknown:
				return ch, fmt.Errorf("the mark of the sweep %w", err)
			}
			return ch, err
		},
	}
	if s.Errand == Opening { // whose own write is that of the status
		step.Other, step.Next = true, Cleanup
	}
	return step
}

// takeOff takes the mark off its page, and opens the task if it is IN_PROGRESS. An OPEN task is
// set to OPEN once more: a late claim that lands just before would otherwise leave it IN_PROGRESS
// without a name, and only a person could open that.
func (s Sight) takeOff() Step {
	m := s.Mark
	w := clearWrite(task.Open)
	if s.Task.Status != task.InProgress {
		if s.Task.Status != task.Open {
			w.Status = nil // somebody set it; only the mark is taken off
		}
		if m.Why == Swept {
			m.Why, m.Of, m.Reason = Withdrawn, m.ID, fmt.Sprintf("the mark of a sweep was there, and the task was not %s any more", s.Policy.word(task.InProgress))
		}
	}
	if m.Why == Swept {
		w.Note = s.Policy.sweptNote(m, s.At)
		if m.History != "" {
			w.Status = new(task.Blocked)
		}
	}
	if m.Assigned {
		w.ClaimedBy = new(m.Agent)
	}
	m.State = Clearing
	return Step{
		Save: marking(m), Write: &w, Off: true,
		Then: func(Reading) Change { return s.closed(m) },
		Else: s.postpone(m, ""),
	}
}

// closed returns the end of a mark that was taken off its page.
func (s Sight) closed(m Mark) Change {
	switch {
	case m.Why == Swept:
		return s.swept(m)
	case m.opens():
		return marking(m.gone(s.Now, ""))
	case m.Why == Withdrawn:
		f := m.fact(KindWithdrawn, s.Now)
		f.Detail = m.Reason
		return marking(m.gone(s.Now, m.Reason), f)
	}
	f := m.fact(KindCleared, s.Now)
	f.Detail = m.Reason
	return marking(m.gone(s.Now, m.Reason), f)
}

// swept returns the end of a sweep's mark whose task was reopened, and of the claim that it
// swept. Marks of earlier sweeps that may still arrive have nothing left to sweep: they become
// plain withdrawals.
func (s Sight) swept(m Mark) Change {
	f := m.fact(KindSwept, s.Now)
	f.Claim, f.Holder = cmp.Or(s.Local.ID, ParseToken(m.Task.Token).ID), m.Agent
	f.Detail, f.By, f.Tried = fmt.Sprintf("%s; it was claimed or last renewed at %s", m.Reason, noteTime(m.Task.ClaimedAt)), m.By, TriedAgain
	if m.History != "" {
		f.Tried = TriedOver
		f.Detail += fmt.Sprintf("; the task is %s: %s", s.Policy.word(task.Blocked), m.History)
	}
	if s.Copied {
		// The page is a copy of another task's. Nothing happened to that claim or its agent, so
		// the fact has only the name.
		f.Claim, f.Agent = "", ""
	}
	ch := marking(m.gone(s.Now, m.Reason), f)
	if s.Local.State == Held {
		ch.Holds = append(ch.Holds, s.Local.ended(EndSwept, s.Now, m.Reason))
	}
	for _, other := range s.Marks {
		if other.ID != m.ID && other.Why == Swept && (other.State == Abandoned || other.State == Unseen) {
			other.Why, other.Of, other.Reason = Withdrawn, other.ID, "its mark came when a later sweep was done"
			ch.Marks = append(ch.Marks, other)
		}
	}
	return ch
}

// leftTo says what becomes of a task when the agent's claim is taken off.
func (p Policy) leftTo(agent string, t task.Task) string {
	switch {
	case t.Assignee != "":
		return fmt.Sprintf("%s is assigned to it and has it now, without a time limit", t.Assignee)
	case t.ClaimedBy != agent:
		return fmt.Sprintf("%s put another name on it and has it now, without a time limit", t.ClaimedBy)
	case t.Status == task.Open:
		return fmt.Sprintf("it was set to %s, and can be claimed again", p.word(task.Open))
	}
	return fmt.Sprintf("it is %s again, and can be claimed", p.word(task.Open))
}

// left returns the change that records that a claim's remains are off its page. of is the mark
// that would have taken them off.
func (s Sight) left(of Mark, what string) func(Reading) Change {
	return func(now Reading) Change {
		return Change{Facts: []Fact{of.cleared(now.Task, s.Now, what)}}
	}
}

// ranOut reports whether a lost claim had gone stale when another daemon swept or took over its
// task: the claim is off the page, and the task still has to be done.
func (s Sight) ranOut() bool {
	for _, m := range s.Marks {
		if m.competes() && (m.State == Clearing || s.token.ID == m.ID) {
			return false // this daemon sweeps it, and records it then
		}
	}
	return (s.Task.Status == task.Open || s.Task.Status == task.InProgress) && !s.Task.Trashed &&
		s.token.ID != s.Hold.ID && s.Hold.Finish == nil && s.Now.After(s.Hold.StaleAt)
}
