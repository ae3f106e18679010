package task

import (
	"strings"
	"unicode"
)

// OneLine folds a text into one line: titles and names from Notion may contain anything. Invisible
// characters, such as control characters and those that change the direction of writing, are
// replaced by instead, or removed if instead is negative.
func OneLine(s string, instead rune) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return instead
	}, s)
	return strings.Join(strings.Fields(visible), " ")
}

// Brief folds a text into one line that can be read anywhere: of at most that many characters, and
// without those that OneLine replaces.
func Brief(s string, most int) string {
	line := []rune(OneLine(s, -1))
	if len(line) > most {
		line = append(line[:most-1], '…')
	}
	return string(line)
}
