package claim

import (
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies one attempt to claim a task. It is a ULID, minted from Notion's
// time, and it is also the claim token written to Notion while the claim lives.
type ID string

// NewID mints an id that carries the millisecond of now.
func NewID(now time.Time) ID {
	return ID(ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String())
}

// ParseID reports whether s has the form of a claim id, and returns its
// canonical (upper-case) form.
func ParseID(s string) (ID, bool) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return "", false
	}
	return ID(u.String()), true
}

// Minted is when the id was made, to the millisecond; false if it is none of NewID's form.
func (id ID) Minted() (time.Time, bool) {
	u, err := ulid.ParseStrict(string(id))
	return u.Timestamp(), err == nil
}

// The forms that a claim token takes on a page once its claim no longer lives.
const (
	voidPrefix = "void " // being withdrawn, see RunDue
	donePrefix = "done " // completed, or put up for review
)

// Token tells what a claim_token property says.
type Token struct {
	ID   ID   // the claim, empty if the text is not of our form
	Void bool // the claim is being withdrawn
	Done bool // the claim ended with its work done: completed, or put up for review
	// By is who did it, if Done is set; empty if the token does not say so, as
	// those of older versions.
	By string
}

// doneToken is the token of a task whose work was done by c.
func doneToken(c Hold) string { return donePrefix + string(c.ID) + " " + c.Agent }

// ParseToken reads the text of a claim_token property.
func ParseToken(s string) Token {
	var t Token
	if rest, ok := strings.CutPrefix(s, voidPrefix); ok {
		s, t.Void = rest, true
	} else if rest, ok := strings.CutPrefix(s, donePrefix); ok {
		s, t.By, _ = strings.Cut(rest, " ")
		t.Done = true
	}
	id, ok := ParseID(s)
	if !ok {
		return Token{}
	}
	t.ID = id
	return t
}
