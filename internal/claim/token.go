package claim

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies one attempt to claim a task. It is a ULID, minted from Notion's
// time, and it is also the claim token written to Notion while the claim lives.
type ID string

// NewID returns a new id that carries the millisecond of now.
func NewID(now time.Time) ID {
	return ID(ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String())
}

// Origin tells the claims of one journal from those of any other: it is the first four of the sixteen
// random characters of all their ids.
type Origin string

// The characters of an id that are its origin.
const originStart, originEnd = 10, 14

// NewOrigin returns the origin of a new journal. It is random even beside another one of the same
// millisecond, while ids of one millisecond only count up.
func NewOrigin() Origin { return ID(ulid.MustNew(0, rand.Reader).String()).Origin() }

// NewID is the function NewID for a claim of this origin. An empty origin leaves the id as it is.
func (o Origin) NewID(now time.Time) ID {
	id := NewID(now)
	if o == "" {
		return id
	}
	return id[:originStart] + ID(o) + id[originEnd:]
}

// Origin returns the origin of an id, which has NewID's form.
func (id ID) Origin() Origin { return Origin(id[originStart:originEnd]) }

// ParseID reports whether s has the form of a claim id, and returns its
// canonical (upper-case) form.
func ParseID(s string) (ID, bool) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return "", false
	}
	return ID(u.String()), true
}

// Minted returns when the id was made, to the millisecond; false if the id has not NewID's
// form.
func (id ID) Minted() (time.Time, bool) {
	u, err := ulid.ParseStrict(string(id))
	return u.Timestamp(), err == nil
}

// The prefixes of a claim token whose claim no longer lives.
const (
	voidPrefix = "void " // being withdrawn, see RunDue
	donePrefix = "done " // completed, or put up for review
)

// Token is a parsed claim_token property.
type Token struct {
	ID   ID   // the claim; empty if the text has not our form
	Void bool // the claim is being withdrawn
	Done bool // the claim ended with its work done: completed, or put up for review
	// By is the agent that did the work, if Done is set. Tokens of older versions do not name
	// it.
	By string
}

// ParseToken parses a claim_token property. It returns the zero Token if the text has not our
// form.
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
