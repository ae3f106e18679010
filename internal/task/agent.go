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

// ValidateAgent reports why name cannot be an agent's name. A name is written
// to Notion and printed to terminals as it is, and compared exactly, so it is
// kept to 1 to 100 visible characters without spaces around them.
func ValidateAgent(name string) error {
	switch {
	case name == "":
		return errors.New("an agent's name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("agent name %q is not valid UTF-8", name)
	case utf8.RuneCountInString(name) > maxAgentName:
		return fmt.Errorf("an agent's name has %d characters: at most %d are allowed", utf8.RuneCountInString(name), maxAgentName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("agent name %q contains a control character", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("agent name %q begins or ends with a space", name)
	}
	return nil
}
