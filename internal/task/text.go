package task

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

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

// Untagged replaces the brackets of tags in a text that others wrote, for a model to read. Clients
// wrap the texts that they give a model in tags of their own, such as system-reminder. A title must
// not close such a tag, or open one.
//
// Each client has its own tags, so there is no list. A `<` becomes a `‹` wherever a tag may begin,
// whatever its name and case, and whatever is between the bracket and the name. The `>` that ends the
// tag becomes a `›`. What no client takes for a tag stays, so that code can be read and copied: type
// arguments (List<String>), comparisons (i < n;), arrows and shifts. Characters that become `<` and `>`
// when a text is normalized are replaced, too. Other characters that look like brackets stay.
func Untagged(s string) string {
	if !strings.ContainsAny(s, "<＜﹤") {
		return s
	}
	s = narrow.Replace(s)
	var out strings.Builder
	for i := 0; i < len(s); {
		plain := strings.IndexByte(s[i:], '<')
		if plain < 0 {
			plain = len(s) - i
		}
		out.WriteString(s[i : i+plain])
		if i += plain; i == len(s) {
			break
		}
		if n := codeAt(s, i); n > 0 {
			out.WriteString(s[i : i+n])
			i += n
			continue
		}
		out.WriteString("‹")
		i++
		if n := tagAt(s, i); n > 0 {
			out.WriteString(s[i:i+n-1] + "›")
			i += n
		}
	}
	return out.String()
}

// narrow replaces brackets of other widths by plain ones.
var narrow = strings.NewReplacer("＜", "<", "﹤", "<", "＞", ">", "﹥", ">")

// tagAt returns the length of a tag after its `<`, with the `>`; 0 if it does not end, or only at
// the end of an arrow.
func tagAt(s string, i int) int {
	n := strings.IndexAny(s[i:], "<>")
	if n < 0 || s[i+n] == '<' || n > 0 && (s[i+n-1] == '-' || s[i+n-1] == '=') {
		return 0
	}
	return n + 1
}

// operator matches a `<` that is an operator, by what follows: a number, an arrow, a group, or
// the end of a comparison.
var operator = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:<<? ?-?[0-9]|<[-=(]|< [\pL_][\pL\d_.()\[\]]* ?(?:[;,){\]]|&&|\|\|))`)
})

// longest is how many bytes of code are examined.
const longest = 200

// codeAt returns the length of the code that begins with the `<` at i; 0 if that may begin a tag.
func codeAt(s string, i int) int {
	if found := operator().FindString(s[i:min(len(s), i+longest)]); found != "" {
		return len(found)
	}
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	if !ofName(before) && before != ':' {
		return 0
	}
	depth := 0
	for n, r := range s[i:min(len(s), i+longest)] {
		switch {
		case r == '<':
			depth++
		case r == '>':
			if depth--; depth == 0 {
				return typesIn(s[i : i+n+1])
			}
		case !ofName(r) && !strings.ContainsRune(" ,.:?&*[]'", r):
			return 0
		}
	}
	return 0
}

func ofName(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}

// typesIn returns the length of type arguments; 0 if the text is something else. Each argument begins
// with a capital, as no client's tag does, or is a type known from a language.
func typesIn(arguments string) int {
	names := strings.FieldsFunc(arguments, func(r rune) bool { return !ofName(r) })
	for _, name := range names {
		first, _ := utf8.DecodeRuneInString(name)
		if !unicode.IsUpper(first) && !unicode.IsDigit(first) && !slices.Contains(typeNames, name) {
			return 0
		}
	}
	return len(arguments)
}

// typeNames are the type names and keywords of languages that begin with a small letter.
var typeNames = strings.Fields(`any bool boolean byte bytes char const double dyn error extends f32 f64 float float32 float64
	i8 i16 i32 i64 int int8 int16 int32 int64 isize long mut never null number object rune self short std str string super
	u8 u16 u32 u64 uint uint8 uint16 uint32 uint64 undefined unknown unsigned usize vector void`)
