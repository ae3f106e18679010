package task

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAgentName is the longest agent name, in characters.
const maxAgentName = 100

// AutoAgent stands, where a name is given, for one that the daemon mints. No agent has it.
const AutoAgent = "auto"

// EveryAgent stands for all agents, where a message is addressed. No agent has that name.
const EveryAgent = "all"

// ValidateAgent reports why name cannot be an agent's name. A name is written
// to Notion and printed to terminals as it is, and compared exactly, so it is
// kept to 1 to 100 visible characters without spaces around them: no two names that
// look alike differ in what is not seen.
func ValidateAgent(name string) error {
	switch {
	case name == "":
		return errors.New("an agent's name is empty")
	case name == AutoAgent:
		return fmt.Errorf("%q is no agent's name: it asks for one to be minted, as --agent auto and POST /v1/agents do", name)
	case name == EveryAgent:
		return fmt.Errorf("%q is no agent's name: a message to it goes to everybody", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("agent name %q is not valid UTF-8", name)
	case utf8.RuneCountInString(name) > maxAgentName:
		return fmt.Errorf("an agent's name has %d characters: at most %d are allowed", utf8.RuneCountInString(name), maxAgentName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("agent name %q contains a control character", name)
	case signsUser(name):
		return fmt.Errorf("%q is no agent's name: what begins with %q signs for a user of the machine; leave that out", name, userPrefix)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("agent name %+q begins or ends with a space", name)
	case strings.ContainsFunc(name, unseen):
		return fmt.Errorf("agent name %+q contains a character that is not seen: want visible characters, with no space but the plain one", name)
	}
	return nil
}

// userPrefix begins the signatures of users, and no agent's name.
const userPrefix = "user "

func signsUser(name string) bool {
	return len(name) >= len(userPrefix) && strings.EqualFold(name[:len(userPrefix)], userPrefix)
}

// UserSignature signs what a user of this machine does in no agent's name. It is no agent's
// name itself, whatever the user is called.
func UserSignature(user string) string { return userPrefix + OneLine(user, unicode.ReplacementChar) }

// anyEnding stands at the end of a pattern for one character or more.
const anyEnding = "*"

// IsAgentPattern reports whether name stands for all names that begin like it: whether
// it ends in *.
func IsAgentPattern(name string) bool { return strings.HasSuffix(name, anyEnding) }

// MatchAgent reports whether a pattern, or a name, covers name.
func MatchAgent(pattern, name string) bool {
	begin, open := strings.CutSuffix(pattern, anyEnding)
	if !open {
		return pattern == name
	}
	return len(name) > len(begin) && strings.HasPrefix(name, begin)
}

// brailleBlank is a symbol that looks like a space.
const brailleBlank = '\u2800'

// unseen reports whether a character leaves no mark of its own: one for formatting or
// for the direction of writing, of no width, of private use, unassigned, or a space
// other than U+0020. Some letters are so, too.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == brailleBlank
}
