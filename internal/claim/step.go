package claim

import "slices"

// Case is a row of the page of cases.
type Case struct {
	On Errand
	// State limits the case to marks in that state; empty for any.
	State MarkState
	// If words the condition, and Then what is done.
	If, Then string

	when func(Sight) bool
	step func(Sight) Step
}

// Cases is the page of cases: it decides what is done to a page that was read, except by an
// attempt. The first case that applies decides.
type Cases []Case

// Next returns the case that decides, and its step. It is a pure function except for the ids
// that it mints.
func (cs Cases) Next(s Sight) (Case, Step) {
	s.judge()
	for _, c := range cs {
		if c.On == s.Errand && (c.State == "" || c.State == s.Mark.State) && c.when(s) {
			return c, c.step(s)
		}
	}
	return Case{On: s.Errand}, Step{}
}

// Step is what a case does. Its fields are carried out in order, as far as they are set.
type Step struct {
	// Renew renews the lease first, and then has the page read again.
	Renew bool
	// Save is stored before anything is written.
	Save Change
	// Write is sent to the page. Compete says that others may be about to write to it as well.
	Write   *Write
	Compete bool
	// Other says that the write is not the one of the errand: that it may have landed does not
	// count as Sight.Sent.
	Other bool
	// Enough reports whether the write's answer proves it. If not, the page is read again after
	// the settle wait.
	Enough func(answer Reading) bool
	// Then returns the change to store once the write's answer shows the write, or at once if
	// there is no write. It is called with the page as it is then.
	Then func(now Reading) Change
	// Else returns the change to store, and the error to return, if the write is not seen. A
	// tryAgain has the page read again, as does a nil Else.
	Else func(f fate, err error) (Change, error)
	// Under is the mark under which the write is sent, if that is not the errand's own record.
	Under ID
	// Off is set if the write takes a mark off its page, as planned.
	Off bool
	// Err is the outcome.
	Err error
}

// under returns the step with its write, which frees the task, sent under a mark: until it must have
// arrived, the mark is not over, and nothing is granted.
func (s Step) under(m Mark) Step {
	gone := m.gone(m.Due, m.Reason)
	then, other := s.Then, s.Else
	s.Under = m.ID
	s.Save.Marks = append(slices.Clip(s.Save.Marks), m)
	s.Then = func(now Reading) Change {
		ch := then(now)
		ch.Marks = append(ch.Marks, gone)
		return ch
	}
	s.Else = func(f fate, err error) (Change, error) {
		ch, err := other(f, err)
		if f == notLanded {
			ch.Marks = append(ch.Marks, gone)
		}
		return ch, err
	}
	return s
}

// nothing returns the step that does nothing.
func (Sight) nothing() Step { return Step{} }

// storing returns the step that only stores ch.
func storing(ch Change) Step { return Step{Then: func(Reading) Change { return ch }} }

// always is the condition of the last case of an errand.
func (Sight) always() bool { return true }

// either returns the condition that one of several holds.
func either(conditions ...func(Sight) bool) func(Sight) bool {
	return func(s Sight) bool {
		return slices.ContainsFunc(conditions, func(c func(Sight) bool) bool { return c(s) })
	}
}
