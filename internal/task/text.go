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
