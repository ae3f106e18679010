package claim

import (
	"errors"
	"fmt"
)

// fate says what became of a write.
type fate int

const (
	// unknown: it may have landed, or may still land.
	unknown fate = iota
	// notLanded: it did not land and never will.
	notLanded
	// seen: its answer showed all of it.
	seen
)

// explain words the error of a write that was not seen. It puts what before the error of a
// write of unknown fate.
func (f fate) explain(what string, err error) error {
	if f == notLanded {
		return err
	}
	return fmt.Errorf("%s %w", what, err)
}

// unasked is the error of a visit without permits: nothing was sent to Notion.
type unasked struct{ error }

func (u unasked) Unwrap() error { return u.error }

// Asked reports whether the operation that failed with err had asked Notion for a page. It had
// not if a pause, an outage or a crowd held it back.
func Asked(err error) bool {
	_, not := errors.AsType[unasked](err)
	return !not
}

// errNoEffect is the error of a write whose answer did not show it. Like all errors of writes
// of unknown fate it is a predicate: "the write" goes before it.
var errNoEffect = errors.New("was acknowledged without taking effect")

// errSlow is the error of a write that was not sent because the window was over.
var errSlow = errors.New("the page was read more slowly")

// unsaved is the error of a write that was not sent because the ledger stores nothing: its file
// fails, or another daemon leads by now.
type unsaved struct{ error }

func (u unsaved) Unwrap() error { return u.error }

// notSaved reports whether err is or wraps an unsaved.
func notSaved(err error) bool {
	_, ok := errors.AsType[unsaved](err)
	return ok
}

// tryAgain is the error of a look that must be repeated. cause is the error behind it, if there
// was one.
type tryAgain struct{ cause error }

func (t tryAgain) Error() string { return fmt.Sprintf("to be tried again: %v", t.cause) }

// errOwed is the outcome of a finish to be delivered later.
var errOwed = errors.New("not delivered yet")

// errAway is the errOwed of a finish for which Notion could not be asked.
var errAway = fmt.Errorf("%w: nothing can be asked of Notion", errOwed)

// unproven is the error of a renewal that nothing has shown.
func unproven(h Hold) error {
	return Errorf(Unavailable, LandedUnknown, "%q: Notion does not show the renewal; the claim ends when it would have ended without it", h.Task.Title)
}
