package task

import (
	"crypto/rand"
	"fmt"
	"time"
)

// NamesTakenError says that no name was minted, since somebody has those that were tried.
type NamesTakenError struct{ Tried int }

func (e *NamesTakenError) Error() string {
	return fmt.Sprintf("the %d names tried are all taken: set another names.prefix", e.Tried)
}

// Mint is what a name is minted for, and how: for an agent that brings none, a prefix and four
// letters or digits, such as agent-7K9X.
type Mint struct {
	Prefix string
	// UID is the user whose name it is to be, -1 for an unknown one. Session, if it is not
	// empty, tells the session of that user from others: it has one name.
	UID     int
	Session string
	// Now is this machine's time, and Gone the moment since when a session must have been
	// heard of to have its name still.
	Now, Gone time.Time
	// Free reports whether nobody is known to have the name, beside those whom the keeper
	// of names knows itself. It must not ask that.
	Free func(name string) bool
	// Usable reports whether the session may go on with the name that it has.
	Usable func(name string) bool
	// Suffix makes what follows the prefix and a dash; nil for NameSuffix.
	Suffix func() string
}

// suffixLength is how many characters follow the dash.
const suffixLength = 4

// letters are those of a suffix.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// NameSuffix returns four letters or digits by chance, each as likely as any other.
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

// Next returns a name that may be free.
func (m Mint) Next() string {
	suffix := m.Suffix
	if suffix == nil {
		suffix = NameSuffix
	}
	return m.Prefix + "-" + suffix()
}
