package claim_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

var (
	ours   = claim.NewID(bubbleStart)                     // the record's id
	theirs = claim.NewID(bubbleStart.Add(-3 * time.Hour)) // another's
)

// onPage is a page that shows the record's claim, whole, 70 s after it was made.
func onPage() claim.Reading {
	t := openTask()
	hold(&t, "Sandman", bubbleStart)
	t.Token = string(ours)
	return claim.Reading{Task: t, At: bubbleStart.Add(70 * time.Second)}
}

// sightOfHold is what is seen on an errand for a claim that stands.
func sightOfHold(e claim.Errand) claim.Sight {
	p := sim.Policy()
	h := claim.Hold{
		ID: ours, Agent: "Sandman", Task: openTask(), State: claim.Held, Reserved: bubbleStart, Started: bubbleStart,
		Lease: claim.Lease{ClaimedAt: bubbleStart, Timeout: p.Timeout, StaleAt: p.StaleAt(bubbleStart, p.Timeout)},
	}
	if e == claim.Delivery {
		h.State, h.Finish = claim.Finishing, &claim.Finish{As: claim.EndReleased, At: bubbleStart}
	}
	return claim.Sight{Errand: e, Hold: h, Reading: onPage(), Policy: p, Now: bubbleStart.Add(70 * time.Second)}
}

// sightOfMark is what is seen of a mark in that state whose claim is on the page; a void
// token is in its place, if it has one by then.
func sightOfMark(s claim.MarkState) claim.Sight {
	see := sightOfHold(claim.Cleanup)
	see.Mark = claim.Mark{
		ID: ours, Why: claim.Withdrawn, Of: ours, Agent: "Sandman", Task: openTask(), State: s, Made: bubbleStart,
		Lease: see.Hold.Lease, Due: bubbleStart,
	}
	see.Hold = claim.Hold{}
	if s == claim.Voided || s == claim.Clearing {
		see.Task.Token = "void " + string(ours)
	}
	return see
}

// toMark is what is seen on an errand to make a mark.
func toMark(e claim.Errand, why claim.Purpose) claim.Sight {
	s := sightOfMark("")
	s.Errand, s.Mark.ID, s.Mark.Why, s.Mark.Of = e, claim.NewID(s.Now), why, ours
	switch e {
	case claim.Sweeping:
		s.At = s.At.Add(2 * time.Hour)
		s.Now = s.At
	case claim.Tidying:
		s.Over = true
	}
	return s
}

// toOpen is what is seen of a BLOCKED task without a name that is to be OPEN.
func toOpen() claim.Sight {
	s := toMark(claim.Opening, claim.ForReopening)
	s.Task = openTask()
	s.Task.Status, s.Task.EditedBy, s.Was = task.Blocked, "Maria", ""
	s.Ask = &claim.Reopening{Task: s.Task, Was: task.Blocked}
	return s
}

// What each case is about, and that it decides then.
func TestCases(t *testing.T) {
	type change = func(*claim.Sight)
	with := func(s claim.Sight, changes []change) claim.Sight {
		for _, f := range changes {
			f(&s)
		}
		return s
	}
	held := func(e claim.Errand, c ...change) claim.Sight { return with(sightOfHold(e), c) }
	mark := func(st claim.MarkState, c ...change) claim.Sight { return with(sightOfMark(st), c) }
	making := func(e claim.Errand, why claim.Purpose, c ...change) claim.Sight { return with(toMark(e, why), c) }
	opening := func(c ...change) claim.Sight { return with(toOpen(), c) }
	asked := func(to task.Status) func(*claim.Sight) { return func(s *claim.Sight) { s.Ask.To = to } }
	here := func(st claim.State) func(*claim.Sight) {
		return func(s *claim.Sight) { s.Local = sightOfHold(claim.Guard).Hold; s.Local.State = st }
	}
	token := func(text string) func(*claim.Sight) { return func(s *claim.Sight) { s.Task.Token = text } }
	status := func(st task.Status) func(*claim.Sight) { return func(s *claim.Sight) { s.Task.Status = st } }
	name := func(n string) func(*claim.Sight) { return func(s *claim.Sight) { s.Task.ClaimedBy = n } }
	over := func(s *claim.Sight) { s.At = s.At.Add(40 * time.Minute) }
	ending := func(s *claim.Sight) { s.At = s.At.Add(29 * time.Minute) } // the lease has 50 s left
	flying := func(s *claim.Sight) { s.Arrives = time.Second }
	unsure := func(s *claim.Sight) { s.Unsure = true }
	sent := func(s *claim.Sight) { s.Sent = true }
	tests := []struct {
		name  string
		sight claim.Sight
		want  string
	}{
		{"guard: whole", held(claim.Guard), "the page shows the claim"},
		{"guard: late claim over it", held(claim.Guard, token(string(theirs))), "another live token lies over the live claim, for less than the grace"},
		{"guard: late claim over it for too long", held(claim.Guard, token(string(theirs)), func(s *claim.Sight) { s.Hold.Suspect = s.Now.Add(-time.Hour) }), "the page shows that somebody else ended the claim"},
		{"guard: known late claim over it", held(claim.Guard, token(string(theirs)), func(s *claim.Sight) { s.Late = new(sightOfMark(claim.Unseen).Mark) }), "a claim that was given up lies over the live claim, or a part of it went with its column"},
		{"guard: void claim over it", held(claim.Guard, token("void "+string(theirs))), "a claim that was given up lies over the live claim, or a part of it went with its column"},
		{"guard: handed out", held(claim.Guard, status(task.Open)), "the page shows that somebody else ended the claim"},
		{"guard: done", held(claim.Guard, token("done "+string(ours))), "the page shows that somebody else ended the claim"},
		{"guard: trashed", held(claim.Guard, func(s *claim.Sight) { s.Task.Trashed = true }), "the page shows that somebody else ended the claim"},

		{"renew: whole", held(claim.Renewal), "the page shows the claim"},
		{"renew: unsure", held(claim.Renewal, unsure), "Notion's time is not known"},
		{"renew: shown", held(claim.Renewal, sent, func(s *claim.Sight) { s.Hold.Noted = s.Task.ClaimedAt }), "the page shows the claim with the date that was written"},
		{"renew: not shown", held(claim.Renewal, sent, func(s *claim.Sight) { s.Hold.Noted = s.Now.Add(time.Hour) }), "the page shows the claim, and not the date that was written"},
		{"renew: suspect", held(claim.Renewal, token(string(theirs))), "another live token lies over the live claim, for less than the grace"},
		{"renew: taken", held(claim.Renewal, name("Maria")), "the page shows that somebody else ended the claim"},
		{"renew: covered", held(claim.Renewal, token("void "+string(theirs))), "a claim that was given up lies over the live claim, or a part of it went with its column"},

		{"finish: whole", held(claim.Delivery), "the page shows the claim"},
		{"finish: covered", held(claim.Delivery, token("void "+string(theirs))), "the page shows the claim"},
		{"finish: done", held(claim.Delivery, token("done "+string(ours))), "the page shows that the work was done under the claim"},
		{"finish: shown", held(claim.Delivery, sent, status(task.Open), name(""), token(""), func(s *claim.Sight) { s.Task.ClaimedAt = time.Time{} }), "the write was sent, and the page shows it; or it gave the task back, and another claim is on the page"},
		{"finish: given back, and claimed since", held(claim.Delivery, sent, name("Oracle"), token(string(theirs))), "the write was sent, and the page shows it; or it gave the task back, and another claim is on the page"},
		{"finish: given back, claimed and assigned since", held(claim.Delivery, sent, name("Oracle"), token(string(theirs)), func(s *claim.Sight) { s.Task.Assignee = "Anna" }), "the write was sent, and the page shows it; or it gave the task back, and another claim is on the page"},
		{"finish: suspect", held(claim.Delivery, token(string(theirs))), "another live token lies over the live claim, for less than the grace"},
		{"finish: taken", held(claim.Delivery, name("Maria")), "the page shows that somebody else ended the claim"},
		{"finish: past the lease", held(claim.Delivery, over), "the lease is over, or may be before what gives the task back must have arrived"},
		{"finish: near the end of the lease", held(claim.Delivery, ending), "the lease is over, or may be before what gives the task back must have arrived"},
		{"finish: near the end of the lease, and sent before", held(claim.Delivery, ending, flying), "the lease is over, or may be before what gives the task back must have arrived"},
		{"finish: sent before", held(claim.Delivery, flying), "what gives the task back may be on its way, and nobody overrides the claim before it must have arrived"},
		{"finish: sent before, and taken", held(claim.Delivery, flying, name("Maria")), "what gives the task back may be on its way, and nobody overrides the claim before it must have arrived"},

		{"unseen: unsure", mark(claim.Unseen, unsure), "Notion's time is not known"},
		{"unseen: not for a day", mark(claim.Unseen), "it may be on its way yet"},
		{"unseen: for a day", mark(claim.Unseen, func(s *claim.Sight) { s.At = s.At.Add(25 * time.Hour) }), "it never showed"},

		{"abandoned: not there", mark(claim.Abandoned, token(string(theirs))), "it is not on the page, or the page is in the trash"},
		{"abandoned: trashed", mark(claim.Abandoned, func(s *claim.Sight) { s.Task.Trashed = true }), "it is not on the page, or the page is in the trash"},
		{"abandoned: taken", mark(claim.Abandoned, name("Maria")), "the page is somebody else's by now, or its lease is over"},
		{"abandoned: stale", mark(claim.Abandoned, over), "the page is somebody else's by now, or its lease is over"},
		{"abandoned: void, unsure", mark(claim.Abandoned, token("void "+string(ours)), unsure), "it is void already, and Notion's time is not known"},
		{"abandoned: void", mark(claim.Abandoned, token("void "+string(ours))), "it is void already"},
		{"abandoned: there", mark(claim.Abandoned), "the page shows the claim"},

		{"clearing: off", mark(claim.Clearing, token(""), name("")), "it is off the page, or somebody has claimed the task since"},
		{"clearing: claimed since", mark(claim.Clearing, token(string(theirs)), name("Oracle")), "it is off the page, or somebody has claimed the task since"},
		{"clearing: still there", mark(claim.Clearing), "the mark is on the page"},
		{"voided: there", mark(claim.Voided), "the mark is on the page"},
		{"voided: another name", mark(claim.Voided, name("Maria")), "somebody put another name beside it, and nobody can take the task"},
		{"voided: another name, and stale", mark(claim.Voided, name("Maria"), over), "the page is somebody else's by now, or in the trash, or its lease is over"},
		{"voided: written back", mark(claim.Voided, token(string(theirs))), "the page is somebody else's by now, or in the trash, or its lease is over"},
		{"voided: unsure", mark(claim.Voided, unsure), "Notion's time is not known"},
		{"voided: too early", mark(claim.Voided, func(s *claim.Sight) { s.Mark.Due = s.Now.Add(time.Minute) }), "its time has not come, by Notion's clock"},
		{"voided: settled", mark(claim.Voided, func(s *claim.Sight) { s.Mark.Due, s.Settled = s.Now.Add(time.Minute), true }), "the mark is on the page"},
		{"clearing: sent before", mark(claim.Clearing, flying), "what takes a claim off may be on its way"},
		{"clearing: sent before, and stale", mark(claim.Clearing, flying, over), "what takes a claim off may be on its way"},
		{"voided: near the end of the lease", mark(claim.Voided, ending), "the page is somebody else's by now, or in the trash, or its lease is over"},

		{"sweep: stale", making(claim.Sweeping, claim.Swept), "the page shows a stale claim"},
		{"sweep: live", making(claim.Sweeping, claim.Swept, func(s *claim.Sight) { s.At = bubbleStart }), "the page shows no stale claim, or what takes one off may be on its way"},
		{"sweep: done", making(claim.Sweeping, claim.Swept, func(s *claim.Sight) { s.Local.State = claim.Finishing }), "its agent is done, and Notion has yet to be told"},
		{"reopen: sent and shown", opening(sent, status(task.Open)), "the status was sent, and the page shows it, or a claim since"},
		{"reopen: sent and claimed since", opening(sent, status(task.InProgress)), "the status was sent, and the page shows it, or a claim since"},
		{"reopen: sent, and decided otherwise", opening(sent, status(task.Completed)), "the status was sent, and the page shows another one"},
		{"cancel: sent, and claimed since", opening(sent, asked(task.Cancelled), status(task.InProgress)), "the status was sent, and the page shows another one"},
		{"reopen: sent before", opening(flying), "what opens the task or takes a claim off may be on its way"},
		{"reopen: over, and held here", opening(here(claim.Held)), "an agent here has it, and the page shows that its claim is over"},
		{"reopen: over, and held here, unsure", opening(here(claim.Held), unsure), "an agent here has it"},
		{"reopen: finishing here", opening(here(claim.Finishing)), "an agent here has it"},
		{"reopen: trashed", opening(func(s *claim.Sight) { s.Task.Trashed = true }), "the page is in the trash, of an unknown status, or in progress under a name"},
		{"reopen: assigned", opening(status(task.InProgress), name("Maria")), "the page is in the trash, of an unknown status, or in progress under a name"},
		{"reopen: a claim without its name", opening(token(string(theirs))), "the page shows a claim, or a part of one, that may not be over"},
		{"reopen: a claim without its name that is over", opening(token(string(theirs)), func(s *claim.Sight) { s.Over = true }), "the task is as it was seen"},
		{"reopen: a claim without its name that ran out", opening(token(string(theirs)), func(s *claim.Sight) { s.Task.ClaimedAt = s.At.Add(-2 * time.Hour) }), "the task is as it was seen"},
		{"reopen: not as it was seen", opening(status(task.Completed)), "it is in another status than was seen"},
		{"reopen: edited", opening(func(s *claim.Sight) { s.Ask.Left = &task.Task{} }), "somebody edited it since its last claim, and that was not seen"},
		{"reopen: edited by ourselves", opening(func(s *claim.Sight) { s.Ask.Left, s.Was = &task.Task{}, task.Blocked }), "the task is as it was seen"},
		{"reopen: open", opening(status(task.Open)), "it is in that status already"},
		{"reopen: another name", opening(name("Maria")), "there is a name on it that was not seen"},
		{"reopen: the last one's name", opening(name("Maria"), func(s *claim.Sight) { s.Last = "Maria" }), "a name is left on a task that nobody can claim, and that is to be open"},
		{"cancel: the last one's name", opening(asked(task.Cancelled), name("Maria"), func(s *claim.Sight) { s.Last = "Maria" }), "the task is as it was seen"},
		{"reopen: as it was seen", opening(), "the task is as it was seen"},
		{"tidy: nothing", making(claim.Tidying, claim.Leftover, func(s *claim.Sight) { s.Over = false }), "the page shows no claim of this ledger that is over, or somebody may take the task"},
		{"tidy: stale", making(claim.Tidying, claim.Leftover, over), "the page shows no claim of this ledger that is over, or somebody may take the task"},
		{"tidy: copy", making(claim.Tidying, claim.Leftover, func(s *claim.Sight) { s.Copied = true }), "the page is a copy, with the claim of another page"},
		{"tidy: another name", making(claim.Tidying, claim.Leftover, name("Maria")), "another name is beside a claim that is over"},
		{"tidy: over", making(claim.Tidying, claim.Leftover), "the page shows a claim that is over"},
	}
	decided := make(map[string]bool)
	key := func(c claim.Case) string { return fmt.Sprint(c.On, c.State, c.If) }
	for _, tt := range tests {
		c, _ := claim.Protocol().Next(tt.sight)
		if c.If != tt.want {
			t.Errorf("%s: decided by %q, want %q", tt.name, c.If, tt.want)
		}
		decided[key(c)] = true
	}
	for _, c := range claim.Protocol() {
		if !decided[key(c)] {
			t.Errorf("no test for %s %s: %s", c.On, c.State, c.If)
		}
	}
}

// every returns all that can be seen on some errands, as far as the page of cases tells it apart.
func every(on []claim.Errand) iter.Seq[claim.Sight] {
	return func(yield func(claim.Sight) bool) {
		more := true
		pages := func(s claim.Sight) {
			if !more || !slices.Contains(on, s.Errand) {
				return
			}
			is := s.Over
			for _, status := range []task.Status{task.Open, task.InProgress, task.Blocked, task.Completed, task.Review} {
				for _, by := range []string{"", "Sandman", "Maria"} {
					for _, token := range []string{
						"", string(ours), "void " + string(ours), "done " + string(ours) + " Sandman",
						string(theirs), "void " + string(theirs), "done " + string(theirs) + " Maria",
					} {
						for _, at := range []time.Time{{}, bubbleStart, bubbleStart.Add(-29 * time.Minute), bubbleStart.Add(-30 * time.Minute), bubbleStart.Add(-2 * time.Hour)} {
							for bits := range 8 {
								s.Task.Status, s.Task.ClaimedBy, s.Task.Token, s.Task.ClaimedAt = status, by, token, at
								s.Task.Trashed, s.Unsure = bits&1 != 0, bits&2 != 0
								if s.Task.Assignee = ""; bits&4 != 0 {
									s.Task.Assignee = "Anna"
								}
								s.Over = is && !s.Task.Trashed
								if more = more && yield(s); !more {
									return
								}
							}
						}
					}
				}
			}
		}
		for _, e := range []claim.Errand{claim.Delivery, claim.Guard, claim.Renewal} {
			for _, as := range []claim.Ending{claim.EndCompleted, claim.EndReview, claim.EndFailed, claim.EndBlocked, claim.EndReleased} {
				if e != claim.Delivery && as != claim.EndCompleted {
					continue
				}
				for bits := range 8 {
					s := sightOfHold(e)
					if e != claim.Delivery && bits&1 != 0 {
						continue // only a finish may reopen the task
					}
					if e == claim.Delivery {
						s.Hold.Finish.As, s.Hold.Finish.Reopen = as, bits&1 != 0
					}
					s.Hold.Noted = bubbleStart
					s.Sent = bits&2 != 0
					if bits&4 != 0 {
						s.Arrives, s.Hold.Suspect = time.Second, bubbleStart.Add(-time.Hour)
					}
					pages(s)
				}
			}
		}
		for _, why := range []claim.Purpose{claim.Withdrawn, claim.Swept, claim.Leftover, claim.ForReopening} {
			for _, state := range []claim.MarkState{claim.Unseen, claim.Abandoned, claim.Voided, claim.Clearing} {
				for bits := range 4 {
					s := sightOfMark(state)
					s.Mark.Why, s.Mark.Assigned = why, bits&1 != 0
					if bits&2 != 0 {
						s.Mark.Due = s.Now.Add(time.Minute)
					}
					if state == claim.Clearing && bits&1 != 0 {
						s.Arrives = time.Second
					}
					pages(s)
				}
			}
		}
		for e, why := range map[claim.Errand]claim.Purpose{claim.Sweeping: claim.Swept, claim.Tidying: claim.Leftover} {
			for bits := range 8 {
				s := toMark(e, why)
				s.Over, s.Copied, s.Slow = bits&1 != 0, bits&2 != 0, bits&4 != 0
				pages(s)
				s.Arrives = time.Second
				pages(s)
			}
		}
		for _, to := range []task.Status{task.Open, task.Cancelled} {
			for bits := range 9 {
				s := toOpen()
				s.Ask.To, s.Ask.Holder, s.Last = to, "Maria", "Sandman"
				if s.Over = bits&1 != 0; bits&2 != 0 {
					s.Local = sightOfHold(claim.Guard).Hold
				}
				if bits&4 != 0 {
					s.Sent, s.Was = true, task.Blocked
				}
				if bits == 8 {
					s.Arrives = time.Second
				}
				pages(s)
			}
		}
	}
}

// after is t once w was written.
func after(t task.Task, w claim.Write) task.Task {
	if w.Status != nil {
		t.Status = *w.Status
	}
	if w.ClaimedBy != nil {
		t.ClaimedBy = *w.ClaimedBy
	}
	if w.ClaimedAt != nil {
		t.ClaimedAt = w.ClaimedAt.Truncate(time.Minute)
	}
	if w.Token != nil {
		t.Token = *w.Token
	}
	return t
}

// Whatever is seen, a case decides, and none does what may take a task from somebody.
func TestEverySight(t *testing.T) {
	testkit.SkipUnderRace(t)
	seen, wrong := unsafe(claim.Protocol(), 20, errands...)
	for _, w := range wrong {
		t.Error(w)
	}
	if seen < 100_000 {
		t.Errorf("only %d sights were walked", seen)
	}
}

var errands = []claim.Errand{
	claim.Delivery, claim.Guard, claim.Renewal, claim.Cleanup, claim.Sweeping, claim.Tidying, claim.Opening,
}

// unsafe walks the page of cases for some errands, and returns how much was seen, and what is wrong
// with the page, at most so much.
func unsafe(cs claim.Cases, most int, on ...claim.Errand) (seen int, wrong []string) {
	free := func(t task.Task, s claim.Sight) bool {
		return claim.Decide(t, "Anybody", nil, s.At, s.Policy).Code == ""
	}
	for s := range every(on) {
		if seen++; len(wrong) >= most {
			return seen, wrong
		}
		c, step := cs.Next(s)
		say := func(what string) {
			wrong = append(wrong, fmt.Sprintf("%s: %s %s, %q on a page that shows %s, %q at %v, token %q, trashed %v, unsure %v", what,
				c.On, c.State, c.If, s.Task.Status, s.Task.ClaimedBy, s.Task.ClaimedAt, s.Task.Token, s.Task.Trashed, s.Unsure))
		}
		if c.If == "" {
			say("no case decides")
			continue
		}
		w := step.Write
		if w == nil {
			continue
		}
		if s.Task.Trashed {
			say("it writes on a page in the trash")
			continue
		}
		tok := claim.ParseToken(s.Task.Token)
		of := []claim.ID{s.Hold.ID, s.Mark.ID, s.Mark.Of}
		again := s.Errand == claim.Cleanup && s.Task.Status == task.Open // a mark is taken off an OPEN task
		frees := free(after(s.Task, *w), s) && !free(s.Task, s)
		opens, f := sim.KindOf(w) == sim.Openings, s.Hold.Finish
		known := !s.Unsure || s.Errand == claim.Delivery || s.Task.ClaimedAt.IsZero()
		if s.Errand == claim.Opening {
			live := tok.ID != "" && !tok.Done && !s.Over && !s.At.After(s.Policy.StaleAt(s.Task.ClaimedAt, s.Policy.Timeout))
			named := s.Task.ClaimedBy != "" && w.ClaimedBy == nil
			switch {
			case s.Local.ID != "":
				say("it writes on the task of an agent here")
			case live:
				say("it writes on a page that shows a live claim")
			case s.Arrives > 0:
				say("it writes again before the first such write must have arrived")
			case s.Task.Status != task.Blocked:
				say("it writes on a task in another status than was seen")
			case s.Task.ClaimedBy != "" && s.Task.ClaimedBy != "Maria":
				say("it writes on a task under another name than was seen")
			case named && *w.Status == task.Open:
				say("it opens a task under a name")
			case step.Compete && free(after(s.Task, *w), s):
				say("a mark that competes leaves the task free")
			}
			continue
		}
		switch {
		case frees && !known:
			say("it frees a task, and the time is not known")
		case opens && s.Arrives > 0 && (s.Hold.ID == "" || f != nil && (f.As == claim.EndReleased || f.As == claim.EndFailed && f.Reopen)):
			say("it frees a task again before the first such write must have arrived")
		case opens && known && s.Policy.Stale(s.Task, s.At.Add(70*time.Second)):
			say("it frees a task that somebody may override before that must have arrived")
		case frees && s.Policy.Over(s.Task, s.At):
			say("it frees a task that somebody may be about to override")
		case frees && s.Errand != claim.Tidying && !slices.Contains(of, tok.ID) && !covered(s, tok):
			say("it frees a task that shows another's token")
		case step.Compete && free(after(s.Task, *w), s):
			say("a mark that competes leaves the task free")
		case s.Hold.ID != "" && s.Task.Assignee != "" && (w.ClaimedBy != nil && *w.ClaimedBy != "" || w.ClaimedAt != nil && !w.ClaimedAt.IsZero()):
			say("it writes a claim on what a person was given")
		case w.Status != nil && s.Task.Status != task.InProgress && *w.Status == task.Open && s.Errand != claim.Delivery && !again:
			say("it opens a task that a person has put away")
		}
	}
	return seen, wrong
}

// covered reports whether the claim that is finished lies under one that was given up.
func covered(s claim.Sight, tok claim.Token) bool {
	return s.Errand == claim.Delivery && tok.Void && s.Now.Before(s.Hold.StaleAt)
}

// The walk finds out what is wrong with a page of cases. Only the errand whose cases are changed is
// walked: the others are those of TestEverySight, which finds nothing.
func TestUnsafeCases(t *testing.T) {
	testkit.SkipUnderRace(t)
	without := func(condition string) func(claim.Cases) claim.Cases {
		return func(cs claim.Cases) claim.Cases {
			return slices.DeleteFunc(cs, func(c claim.Case) bool { return c.If == condition })
		}
	}
	lastFirst := func(cs claim.Cases) claim.Cases {
		last := len(cs) - 1
		return append(claim.Cases{cs[last]}, cs[:last]...)
	}
	for name, tt := range map[string]struct {
		on     claim.Errand
		change func(claim.Cases) claim.Cases
	}{
		"a finish sent twice":        {claim.Delivery, without("what gives the task back may be on its way, and nobody overrides the claim before it must have arrived")},
		"a mark taken off twice":     {claim.Cleanup, without("what takes a claim off may be on its way")},
		"a finish past the lease":    {claim.Delivery, without("the lease is over, or may be before what gives the task back must have arrived")},
		"a mark that is not there":   {claim.Cleanup, without("the page is somebody else's by now, or in the trash, or its lease is over")},
		"a finish before all else":   {claim.Delivery, lastFirst},
		"a mark taken off at once":   {claim.Cleanup, lastFirst},
		"a claim tidied at once":     {claim.Tidying, lastFirst},
		"a claim on a person's task": {claim.Renewal, without("the page shows that somebody else ended the claim")},
		"a task opened twice":        {claim.Opening, without("what opens the task or takes a claim off may be on its way")},
		"a held task opened":         {claim.Opening, without("an agent here has it")},
		"a claimed task opened":      {claim.Opening, without("the page shows a claim, or a part of one, that may not be over")},
		"a person's task opened":     {claim.Opening, without("there is a name on it that was not seen")},
		"a finished task opened":     {claim.Opening, without("it is in another status than was seen")},
		"a task opened under a name": {claim.Opening, without("a name is left on a task that nobody can claim, and that is to be open")},
		"a task opened at once":      {claim.Opening, lastFirst},
		"no case":                    {claim.Guard, without("the page shows the claim")},
	} {
		cs := slices.DeleteFunc(claim.Protocol(), func(c claim.Case) bool { return c.On != tt.on })
		seen, wrong := unsafe(tt.change(cs), 1, tt.on)
		if len(wrong) == 0 {
			t.Errorf("%s: the walk found nothing", name)
		}
		t.Logf("%s: found at sight %d", name, seen)
	}
}
