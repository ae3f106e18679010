package task

import (
	"strings"
	"unicode"
)

// OneLine folds text from elsewhere into one line: titles and names are whatever
// somebody wrote in Notion. A character that is not seen, such as a control character
// or one that changes the direction of writing, becomes instead; it is left out if that
// is negative.
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
