package task

import (
	"crypto/rand"
	"fmt"
	"time"
)

// NamesTakenError says that no name was minted, because all names tried are taken.
type NamesTakenError struct{ Tried int }

func (e *NamesTakenError) Error() string {
	return fmt.Sprintf("the %d names tried are all taken: use a name of your own, with --agent or DIBS_AGENT", e.Tried)
}

const (
	// NamePrefix begins every minted name.
	NamePrefix = "agent"
	// NameKept is how long a silent session keeps its name.
	NameKept = 7 * 24 * time.Hour
)

// Mint is a request to mint a name for an agent without one: the prefix and four letters or digits,
// such as agent-7K9X.
type Mint struct {
	// UID is the name's user, -1 for an unknown one. Session, if it is not empty, identifies a
	// session of that user, which has one name.
	UID     int
	Session string
	// Now is this machine's time. A session not heard of since Gone has lost its name.
	Now, Gone time.Time
	// Free reports whether a name is free, as far as the caller knows. The journal checks its own
	// names itself, and Free must not call it.
	Free func(name string) bool
	// Usable reports whether the session may keep the name that it has.
	Usable func(name string) bool
	// Suffix returns the part after the prefix and the dash; nil for NameSuffix.
	Suffix func() string
}

// suffixLength is how many characters follow the dash.
const suffixLength = 4

// letters are the characters of suffixes.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// NameSuffix returns four random letters or digits, uniformly distributed.
func NameSuffix() string {
	suffix := make([]byte, 0, suffixLength)
	for draw := make([]byte, 1); len(suffix) < suffixLength; {
		rand.Read(draw) // never fails
		if fair := byte(256 / len(letters) * len(letters)); draw[0] < fair {
			suffix = append(suffix, letters[int(draw[0])%len(letters)])
		}
	}
	return string(suffix)
}

// Next returns a random name.
func (m Mint) Next() string {
	suffix := m.Suffix
	if suffix == nil {
		suffix = NameSuffix
	}
	return NamePrefix + "-" + suffix()
}
