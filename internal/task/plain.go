package task

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// sequence matches a terminal's escape sequences: control sequences (colours, the cursor), strings
// for the terminal itself (its title, the clipboard), and short escapes.
var sequence = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` +
			`|(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}])[^\x07\x1b\x{9c}\n]*(?:\x07|\x1b\\|\x{9c})` +
			`|\x1b[ -/]*[0-~]`)
})

// Plain cleans a text that others wrote: it removes escape sequences, control characters, and
// invisible characters that change the direction of writing or hide something. Line ends of all
// kinds become \n; tabs stay.
func Plain(s string) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	s = sequence().ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return '\n'
		case hidden(r):
			return -1
		}
		return r
	}, s)
}

// hidden reports whether Plain removes or replaces a character: it is neither visible nor layout.
func hidden(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case '\u2028', '\u2029': // ends of lines and paragraphs
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf) && !joins(r)
}
