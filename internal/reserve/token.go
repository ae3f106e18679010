package reserve

import (
	"strings"
	"unicode/utf8"
)

// token matches one character, or any number if it is a star.
type token struct {
	kind kind
	char rune // of a single
	// ranges and not belong to a class.
	ranges []span
	not    bool
}

type kind int

const (
	single kind = iota
	any1        // `?`
	class       // `[a-z]`, `[^a-z]`
	star        // `*`: any number of characters
)

// span is a range of characters.
type span struct{ lo, hi rune }

// tokenize splits a part into tokens, as the library does. ok is false if it is malformed.
func tokenize(text string) (tokens []token, ok bool) {
	for text != "" {
		char, size := utf8.DecodeRuneInString(text)
		if char == utf8.RuneError && size == 1 {
			return nil, false // not UTF-8
		}
		text = text[size:]
		switch char {
		case '*':
			if n := len(tokens); n == 0 || tokens[n-1].kind != star {
				tokens = append(tokens, token{kind: star})
			}
		case '?':
			tokens = append(tokens, token{kind: any1})
		case '[':
			var t token
			if t, text, ok = tokenizeClass(text); !ok {
				return nil, false
			}
			tokens = append(tokens, t)
		case '\\':
			if text == "" {
				return nil, false
			}
			char, size = utf8.DecodeRuneInString(text)
			text = text[size:]
			fallthrough
		default:
			tokens = append(tokens, token{kind: single, char: char})
		}
	}
	return tokens, true
}

// tokenizeClass parses a class from the text after its `[`, and returns the text after its `]`.
func tokenizeClass(text string) (t token, rest string, ok bool) {
	t.kind = class
	if text != "" && (text[0] == '!' || text[0] == '^') {
		t.not, text = true, text[1:]
	}
	var chars []rune
	next := func() (char rune, escaped, ok bool) {
		if strings.HasPrefix(text, `\`) {
			text, escaped = text[1:], true
		}
		char, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		return char, escaped, size > 0
	}
	for {
		char, escaped, ok := next()
		switch {
		case !ok:
			return t, "", false
		case char == ']' && !escaped:
			return t, text, len(t.ranges) > 0
		case char == '-' && !escaped && len(chars) > 0 && text != "" && text[0] != ']':
			hi, _, ok := next()
			if !ok {
				return t, "", false
			}
			t.ranges = append(t.ranges, span{chars[len(chars)-1], hi})
			chars = nil
		default:
			chars = append(chars, char)
			t.ranges = append(t.ranges, span{char, char})
		}
	}
}

// plainOf returns the text that tokens match, if they match only one.
func plainOf(tokens []token) (text string, plain bool) {
	var out strings.Builder
	for _, t := range tokens {
		if t.kind != single {
			return "", false
		}
		out.WriteRune(t.char)
	}
	return out.String(), true
}

// tokensOverlap reports whether there may be a name that both match.
func tokensOverlap(a, b []token, left *int) bool {
	// at[j] says that some text matches both the tokens of a so far and b[:j].
	at, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	at[0] = true
	skipStars(b, at)
	for _, t := range a {
		if *left -= len(b) + 1; *left < 0 {
			return true
		}
		clear(next)
		for j, here := range at {
			switch {
			case !here:
			case t.kind == star: // it takes what any number of the tokens from j on match
				for k := j; k <= len(b); k++ {
					next[k] = true
				}
			case j < len(b) && b[j].kind == star:
				next[j] = true
			case j < len(b) && t.meets(b[j]):
				next[j+1] = true
			}
		}
		skipStars(b, next)
		at, next = next, at
	}
	return at[len(b)]
}

// skipStars lets each star match the empty text.
func skipStars(tokens []token, at []bool) {
	for j, t := range tokens {
		if at[j] && t.kind == star {
			at[j+1] = true
		}
	}
}

// meets reports whether there may be a character that both match. Neither is a star.
func (t token) meets(u token) bool {
	switch {
	case t.kind == any1 || u.kind == any1:
		return true
	case t.kind == single && u.kind == single:
		return t.char == u.char
	case t.kind == single:
		return u.has(t.char)
	case u.kind == single:
		return t.has(u.char)
	case t.not || u.not:
		return true // almost always
	}
	for _, s := range t.ranges {
		for _, r := range u.ranges {
			if s.lo <= r.hi && r.lo <= s.hi {
				return true
			}
		}
	}
	return false
}

// has reports whether a class matches a character.
func (t token) has(char rune) bool {
	for _, s := range t.ranges {
		if s.lo <= char && char <= s.hi {
			return !t.not
		}
	}
	return t.not
}
