package task

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Name returns a name as it is compared: in Unicode's form C, in which a letter with its accent is one
// character. Keyboards and file systems give others.
func Name(s string) string { return norm.NFC.String(s) }

// joins reports whether a character joins or separates those beside it: letters of Persian and Hindi,
// and the parts of an emoji.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' }

// OneLine folds a text into one line: titles and names from Notion may contain anything. Invisible
// characters, such as control characters and those that change the direction of writing, are
// replaced by instead, or removed if instead is negative. A joiner stays after what it joins.
func OneLine(s string, instead rune) string {
	before := ' '
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case unicode.IsPrint(r), joins(r) && before > ' ' && !joins(before):
		default:
			before = ' '
			return instead
		}
		before = r
		return r
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
