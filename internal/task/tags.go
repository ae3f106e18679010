package task

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Untagged replaces the brackets of tags in a text that others wrote and a model is to read.
// Clients put what they hand to a model between tags of their own, such as those of a
// system-reminder: a title must not end them, or begin some.
//
// There is no list of such tags, since each client has its own: a `<` becomes a `‹` wherever a
// tag might begin, whatever its name, its case, and what stands between the bracket and the
// name; and a `>` that ends it becomes a `›`. What no client takes for a tag stays, so that
// code can be read and copied: the arguments of types (List<String>), comparisons (i < n;),
// arrows and shifts. Of characters that look like brackets, those are replaced that become `<`
// and `>` where a text is normalized; the others are no brackets, as ‹ and › are none.
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

// narrow has brackets of other widths be plain ones.
var narrow = strings.NewReplacer("＜", "<", "﹤", "<", "＞", ">", "﹥", ">")

// tagAt returns how long what stands in a tag is, with its end; 0 if it does not end, or only
// where an arrow does.
func tagAt(s string, i int) int {
	n := strings.IndexAny(s[i:], "<>")
	if n < 0 || s[i+n] == '<' || n > 0 && (s[i+n-1] == '-' || s[i+n-1] == '=') {
		return 0
	}
	return n + 1
}

// operator matches a `<` that is an operator, by what follows: a number, an arrow, a group, or
// the end of a comparison.
var operator = regexp.MustCompile(`^(?:<<? ?-?[0-9]|<[-=(]|< [\pL_][\pL\d_.()\[\]]* ?(?:[;,){\]]|&&|\|\|))`)

// longest is how many bytes of code are looked at.
const longest = 200

// codeAt returns how long the code is that a `<` begins with which no tag begins; 0 if one may.
func codeAt(s string, i int) int {
	if found := operator.FindString(s[i:min(len(s), i+longest)]); found != "" {
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

// typesIn returns how long the arguments of a type are; 0 if they are none. Each is a name with
// a capital, as that of no client's tag is, or one that languages have.
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

// typeNames are the types of languages, and what goes with them, that have no capital.
var typeNames = strings.Fields(`any bool boolean byte bytes char const double dyn error extends f32 f64 float float32 float64
	i8 i16 i32 i64 int int8 int16 int32 int64 isize long mut never null number object rune self short std str string super
	u8 u16 u32 u64 uint uint8 uint16 uint32 uint64 undefined unknown unsigned usize vector void`)
