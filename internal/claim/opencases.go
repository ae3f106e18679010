package claim

import (
	"cmp"
	"fmt"
	"time"

	"dibs/internal/task"
)

// ofOpenings returns the cases of a task that no agent has, and whose status is to be set.
func ofOpenings() Cases {
	return Cases{
		{On: Opening, If: "the status was sent, and the page shows it, or a claim since", Then: "it is done",
			when: func(s Sight) bool {
				return s.changed() && (s.Task.Status == s.Ask.to() || s.Ask.opens() && s.Task.Status == task.InProgress)
			}, step: Sight.arrived},
		{On: Opening, If: "the status was sent, and the page shows another one", Then: "refuse: somebody decided otherwise",
			when: Sight.changed, step: Sight.decided},
		{On: Opening, If: "what opens the task or takes a claim off may be on its way", Then: "look again after the settle wait: it is not sent twice",
			when: func(s Sight) bool { return s.Arrives > 0 }, step: Sight.awaited},
		{On: Opening, If: "an agent here has it, and the page shows that its claim is over", Then: "end that claim first",
			when: func(s Sight) bool { return s.Local.State == Held && s.standing == isGone && !s.Unsure },
			step: func(Sight) Step { return Step{Next: Guard} }},
		{On: Opening, If: "an agent here has it", Then: "refuse",
			when: func(s Sight) bool { return s.Local.ID != "" }, step: Sight.occupied},
		{On: Opening, If: "the page is in the trash, of an unknown status, or in progress under a name", Then: "refuse",
			when: func(s Sight) bool {
				return s.trashed() || s.Task.Status == task.Unknown || s.Task.Status == task.InProgress && (s.Task.Assignee != "" || s.Task.ClaimedBy != "")
			}, step: Sight.barred},
		{On: Opening, If: "the page shows a claim, or a part of one, that may not be over", Then: "refuse",
			when: Sight.claimed, step: Sight.stillClaimed},
		{On: Opening, If: "it is in another status than was seen", Then: "refuse",
			when: func(s Sight) bool { return !s.Ask.allows(s.Task.Status) }, step: Sight.decided},
		{On: Opening, If: "somebody edited it since its last claim, and that was not seen", Then: "refuse",
			when: func(s Sight) bool { return s.Was == "" && s.Ask.Left != nil && !Unedited(*s.Ask.Left, s.Task) },
			step: func(s Sight) Step {
				return s.refused(Denied{Code: CodeNotOpen, Task: s.Task}, "somebody edited it since", "")
			}},
		{On: Opening, If: "it is in that status already", Then: "forget the tries at an OPEN one",
			when: func(s Sight) bool { return s.Task.Status == s.Ask.to() }, step: Sight.already},
		{On: Opening, If: "there is a name on it that was not seen", Then: "refuse",
			when: func(s Sight) bool { who := Whose(s.Task); return who != "" && who != cmp.Or(s.Ask.Holder, s.Last) }, step: Sight.taken},
		{On: Opening, If: "a name is left on a task that nobody can claim, and that is to be open", Then: "put a void mark in its place; it competes like a claim, and is taken off once it has settled",
			when: func(s Sight) bool { return s.Ask.opens() && s.Task.ClaimedBy != "" }, step: Sight.put},
		{On: Opening, If: "the task is as it was seen", Then: "set the status, and nothing else: over a live claim that looks like a person's gesture",
			when: Sight.always, step: Sight.move},
	}
}

// changed reports whether the status was sent, and the page shows another one than before.
func (s Sight) changed() bool { return s.Sent && s.Task.Status != s.Was }

// before returns the status before the change.
func (s Sight) before() task.Status {
	if s.changed() {
		return s.Was
	}
	return s.Task.Status
}

// claimed reports whether the page shows a claim that is not known to be over. A person may have taken
// name or date off it, or changed the status under it, before its daemon found out.
func (s Sight) claimed() bool {
	t, shown := s.Task, s.token.ID != "" && !s.token.Done
	ranOut := !t.ClaimedAt.IsZero() && s.judged().After(s.Policy.StaleAt(t.ClaimedAt, s.Policy.LeaseOf(t)))
	return (shown || s.named()) && !ranOut && !(shown && s.Over)
}

// named reports whether the page shows the name of a claim with its date.
func (s Sight) named() bool { return s.Task.ClaimedBy != "" && dated(s.Task) && !s.token.Done }

// move sets the status on the page, with a note.
func (s Sight) move() Step {
	t, to := s.Task, s.Ask.to()
	step := Step{
		Write: &Write{Status: new(to), Note: new(noteLine(moves[to].note, s.Ask.Note, s.Ask.signature(), s.At))},
		Then: func(now Reading) Change {
			return Change{Facts: []Fact{s.moved(now.Task, cmp.Or(s.Former, t.ClaimedBy))}}
		},
		Else: func(f fate, err error) (Change, error) { return Change{}, s.undone(f, err) },
	}
	if step.Write.frees() {
		step = step.under(Mark{ID: NewID(s.Now), Why: ForReopening, Agent: s.Ask.Agent, Task: t, State: Clearing, Made: s.Now, Due: s.Now})
	}
	return step
}

// moved returns the fact that t has the new status. former had it before.
func (s Sight) moved(t task.Task, former string) Fact {
	e := Hold{Agent: s.Ask.Agent, Task: t}.fact(moves[s.Ask.to()].kind, s.Now)
	e.By, e.Holder, e.Summary, e.Remote = s.Ask.By, former, s.Ask.Note, true
	e.Detail = "it was " + s.Policy.word(s.before())
	if s.Ask.opens() {
		e.Tried, e.Returned = TriedOver, s.before() == task.Review
	}
	return e
}

// arrived records the new status, and ends the marks under which it was sent.
func (s Sight) arrived() Step {
	ch := Change{Facts: []Fact{s.moved(s.Task, s.Former)}}
	for _, m := range s.Marks {
		if m.opens() && m.State == Clearing && m.off(s.Task) {
			ch.Marks = append(ch.Marks, m.gone(s.Now, ""))
		}
	}
	return storing(ch)
}

func (s Sight) awaited() Step {
	why := notYet{wait: s.Policy.Settle}
	if !s.Sent {
		why.cause = Errorf(Unavailable, LandedNo, "an earlier write that opens it or takes a claim off it was never answered, and may still take effect in the next %v", s.Arrives.Round(time.Second))
	}
	return Step{Err: why}
}

// already records that the tries at an OPEN task are forgotten, if there were any.
func (s Sight) already() Step {
	if s.Tried == "" {
		return Step{}
	}
	e := s.moved(s.Task, cmp.Or(s.Former, s.Task.ClaimedBy))
	e.Detail += fmt.Sprintf(" already; that it was tried is forgotten: %s", s.Tried)
	return storing(Change{Facts: []Fact{e}})
}

// occupied refuses a task that an agent here has.
func (s Sight) occupied() Step {
	d := Occupied(s.Local)
	d.Detail = fmt.Sprintf("%q was not %s: %s", s.Task.Title, s.asked(), s.Local.occupies())
	return Step{Err: d}
}

// barred refuses a task for what it is.
func (s Sight) barred() Step {
	d := s.Policy.decide(s.Reading, "", nil)
	if stale := d.Code == "" || d.Override || d.Code == CodeNotOpen; stale && !s.trashed() && s.Task.Status == task.InProgress && s.Task.Assignee == "" { // or will be by the next one who asks
		d = Decision{Code: CodeNotOpen, Reason: fmt.Sprintf("it is %s, and the claim of %s on it is stale: `dibs sweep` reopens it", s.Policy.word(s.Task.Status), s.Task.ClaimedBy)}
	}
	return s.denied(d)
}

// stillClaimed refuses a task whose page shows a claim.
func (s Sight) stillClaimed() Step {
	t, p := s.Task, s.Policy
	if s.named() {
		return s.denied(Decision{
			Code: CodeHeld, Holder: t.ClaimedBy, LeaseEnd: p.LeaseEnd(t),
			Reason: fmt.Sprintf("it still shows the claim of %s, who may be at work on it until %s", t.ClaimedBy, noteTime(p.LeaseEnd(t))),
		})
	}
	d := p.decide(s.Reading, "", nil)
	d.Reason = fmt.Sprintf("it is %s, and shows the token of a claim that may not be over: try again in a minute through the daemon that made it, or set it to %s in Notion", p.word(t.Status), p.word(task.Open))
	return s.denied(d)
}

func (s Sight) denied(d Decision) Step {
	denied := d.Deny(s.Task)
	denied.Detail = fmt.Sprintf("%q was not %s: %s", s.Task.Title, s.asked(), d.Reason)
	return Step{Err: denied}
}

// decided refuses a task in a status that the caller has not seen.
func (s Sight) decided() Step {
	is := "it is " + s.Policy.word(s.Task.Status)
	if s.Ask.Was != "" {
		is += fmt.Sprintf(", and not %s any more", s.Policy.word(s.Ask.Was))
	}
	return s.refused(Denied{Code: CodeNotOpen, Task: s.Task}, is, "")
}

// taken refuses a task under a name that the caller has not seen.
func (s Sight) taken() Step {
	who := Whose(s.Task)
	is := fmt.Sprintf("%s has it", who)
	if s.Ask.Holder != "" {
		is += fmt.Sprintf(", and not %s any more", s.Ask.Holder)
	}
	return s.refused(Denied{Code: CodeReserved, Task: s.Task, Holder: who}, is, fmt.Sprintf(" --holder %q", who))
}

// refused words a refusal: what the task is, and the flag that says that this was seen.
func (s Sight) refused(d Denied, is, flag string) Step {
	t, say := s.Task, "look at it, and ask again"
	if s.Ask.opens() {
		say = fmt.Sprintf("look at it, and to open it all the same say so: dibs reopen %s --was %s%s", cmp.Or(t.Key, string(t.ID)), t.Status, flag)
	}
	d.Detail = fmt.Sprintf("%q was not %s: %s; %s", t.Title, s.asked(), is, say)
	return Step{Err: &d}
}

// asked says what was asked for.
func (s Sight) asked() string { return s.Policy.asked(*s.Ask) }
