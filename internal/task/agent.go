package task

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxAgentName is the longest agent name, in characters.
const maxAgentName = 100

// AutoAgent in place of a name asks the daemon to mint one. No agent has that name.
const AutoAgent = "auto"

// EveryAgent addresses a message to all agents. No agent has that name.
const EveryAgent = "all"

// ValidateAgent returns an error if name cannot be an agent's name. Names are written to
// Notion, printed to terminals as they are, and compared exactly. So a name has 1 to 100
// visible characters, without spaces around them: names that look the same are the same,
// as far as invisible characters go. A name can be an element of a path.
func ValidateAgent(name string) error {
	switch {
	case name == "":
		return errors.New("an agent's name is empty")
	case name == AutoAgent:
		return fmt.Errorf("%q is no agent's name: it asks for one to be minted, as --agent auto and POST /v1/agents do", name)
	case name == EveryAgent:
		return fmt.Errorf("%q is no agent's name: a message to it goes to everybody; take another name", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("agent name %q is not valid UTF-8", name)
	case utf8.RuneCountInString(name) > maxAgentName:
		return fmt.Errorf("an agent's name has %d characters: at most %d are allowed", utf8.RuneCountInString(name), maxAgentName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("agent name %q contains a control character", name)
	case SignsUser(name):
		return fmt.Errorf("%q is no agent's name: what begins with %q signs for a user of the machine; leave that out", name, userPrefix)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("agent name %+q begins or ends with a space", name)
	case name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return fmt.Errorf("%q is no agent's name: it cannot stand in a path: use one that is not . or .. and has no / or backslash", name)
	case strings.ContainsFunc(name, invisible):
		return fmt.Errorf("agent name %+q contains an invisible character: use printable characters and plain spaces", name)
	}
	return nil
}

// userPrefix begins the signatures of users. No agent's name begins with it.
const userPrefix = "user "

// SignsUser reports whether a signature is that of a user, and not an agent's name.
func SignsUser(name string) bool {
	return len(name) >= len(userPrefix) && strings.EqualFold(name[:len(userPrefix)], userPrefix)
}

// UserSignature returns the signature for what a user of this machine does without an agent's
// name. It is never a valid agent name.
func UserSignature(user string) string { return userPrefix + OneLine(user, unicode.ReplacementChar) }

// anyEnding at the end of a pattern matches one character or more.
const anyEnding = "*"

// IsAgentPattern reports whether name is a pattern: whether it ends in *.
func IsAgentPattern(name string) bool { return strings.HasSuffix(name, anyEnding) }

// MatchAgent reports whether a pattern, or a name, matches name.
func MatchAgent(pattern, name string) bool {
	begin, open := strings.CutSuffix(pattern, anyEnding)
	if !open {
		return pattern == name
	}
	return len(name) > len(begin) && strings.HasPrefix(name, begin)
}

// Covers reports whether a pattern in which each * stands for any characters, also none, matches text:
// the names that an access token may act under, and whom a JWT is about.
func Covers(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// ValidatePattern returns an error unless a pattern, as in Covers, can match the name of an agent.
func ValidatePattern(pattern string) error {
	return ValidateAgent(strings.ReplaceAll(pattern, "*", "x"))
}

// brailleBlank is a symbol that looks like a space.
const brailleBlank = '\u2800'

// invisible reports whether a character cannot be seen: one for formatting or for the direction
// of writing, of no width, of private use, unassigned, or a space other than U+0020. Even some
// letters are invisible.
func invisible(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == brailleBlank
}

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
	// Pattern is what the name has to match, as in Covers; empty for any name.
	Pattern string
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

// Next returns a random name, which has the letters in place of the pattern's first * where the usual
// name does not match.
func (m Mint) Next() string {
	suffix := m.Suffix
	if suffix == nil {
		suffix = NameSuffix
	}
	name := NamePrefix + "-" + suffix()
	if before, after, open := strings.Cut(m.Pattern, "*"); open && !Covers(m.Pattern, name) {
		name = before + suffix() + strings.ReplaceAll(after, "*", "")
	}
	return name
}
