package emulator

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"
)

// Notion's limits on requests.
const (
	maxBody     = 500 * 1024 // bytes
	maxElements = 100        // of any array
	maxContent  = 2000       // UTF-16 code units of a span of text
	maxURL      = 2000       // UTF-16 code units
	maxShort    = 200        // UTF-16 code units of an email address or a phone number
	maxOption   = 100        // UTF-16 code units of an option's name
)

// node is a place in a request, with the path that Notion's messages give it, such as
// body.properties.Name.title[0].
type node struct {
	path    string
	value   any
	present bool
	// optional is set for a member that may be missing. Null is not missing.
	optional bool
}

// get returns the member of that name; absent if n is not an object or lacks it.
func (n node) get(key string) node {
	m, _ := n.value.(map[string]any)
	v, ok := m[key]
	return node{path: n.path + "." + key, value: v, present: ok}
}

// opt is get for a member that may be missing.
func (n node) opt(key string) node {
	n = n.get(key)
	n.optional = true
	return n
}

// null reports whether n is present and null.
func (n node) null() bool { return n.present && n.value == nil }

// unset reports whether n is missing or null, for members that may be either.
func (n node) unset() bool { return n.value == nil }

// should returns the error that says what n should be.
func (n node) should(format string, args ...any) error {
	return n.refuse(n.path, fmt.Sprintf(format, args...), n.shown())
}

func (n node) refuse(path, want, got string) error {
	root, _, _ := strings.Cut(n.path, ".")
	if got == "" {
		return invalid("%s failed validation: %s should be %s.", root, path, want)
	}
	return invalid("%s failed validation: %s should be %s, instead was `%s`.", root, path, want, got)
}

// shown returns the value found as messages show it: as JSON, cut after 55 bytes.
func (n node) shown() string {
	if !n.present {
		return "undefined"
	}
	s := string(compact(n.value))
	if len(s) > 55 {
		s = strings.ToValidUTF8(s[:55], "") + "..."
	}
	return s
}

// defined returns an error if n is missing.
func (n node) defined() error {
	if !n.present {
		return n.should("defined")
	}
	return nil
}

func (n node) object() (map[string]any, error) {
	m, ok := n.value.(map[string]any)
	if !ok {
		return nil, n.mistyped("an object")
	}
	return m, nil
}

// array returns the elements of n, at most maxElements.
func (n node) array() ([]node, error) {
	a, ok := n.value.([]any)
	if !ok {
		return nil, n.mistyped("an array")
	}
	if len(a) > maxElements {
		return nil, n.refuse(n.path+".length", fmt.Sprintf("≤ `%d`", maxElements), fmt.Sprint(len(a)))
	}
	out := make([]node, len(a))
	for i, v := range a {
		out[i] = node{path: fmt.Sprintf("%s[%d]", n.path, i), value: v, present: true}
	}
	return out, nil
}

// text returns a string of at most max UTF-16 code units.
func (n node) text(max int) (string, error) {
	s, ok := n.value.(string)
	if !ok {
		return "", n.mistyped("a string")
	}
	if size := utf16Len(s); size > max {
		return "", n.refuse(n.path+".length", fmt.Sprintf("≤ `%d`", max), fmt.Sprint(size))
	}
	return s, nil
}

func (n node) number() (float64, error) {
	f, ok := n.value.(float64)
	if !ok {
		return 0, n.mistyped("a number")
	}
	return f, nil
}

func (n node) boolean() (bool, error) {
	b, ok := n.value.(bool)
	if !ok {
		return false, n.mistyped("a boolean")
	}
	return b, nil
}

// id returns a UUID in its canonical form, lower-case with dashes.
func (n node) id() (string, error) {
	s, ok := n.value.(string)
	if ok {
		s, ok = parseID(s)
	}
	if !ok {
		return "", n.mistyped("a valid uuid")
	}
	return s, nil
}

// oneOf returns a string that must be one of words.
func (n node) oneOf(words ...string) (string, error) {
	s, ok := n.value.(string)
	if !ok || !slices.Contains(words, s) {
		return "", n.should("%s", n.orMissing(orList(words)))
	}
	return s, nil
}

// typed and called return an error if the object's type, or object, is another; it may be left out.
func (n node) typed(kind string) error { return n.opt("type").word(kind) }

func (n node) called(kind string) error { return n.opt("object").word(kind) }

// word returns an error if n is there and is not this word.
func (n node) word(want string) error {
	if !n.present {
		return nil
	}
	_, err := n.oneOf(want)
	return err
}

// only returns an error if the object has a member other than those named.
func (n node) only(known ...string) error {
	m, err := n.object()
	if err != nil {
		return err
	}
	for _, key := range sortedKeys(m) {
		if !slices.Contains(known, key) {
			return n.get(key).should("not present")
		}
	}
	return nil
}

func (n node) mistyped(want string) error {
	if !n.present {
		return n.should("defined")
	}
	return n.should("%s", n.orMissing(want))
}

// orMissing adds to what a member should be that it may be missing.
func (n node) orMissing(want string) string {
	if n.optional {
		want += " or `undefined`"
	}
	return want
}

// utf16Len returns the length of a string in UTF-16 code units, as Notion counts.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// newID mints a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return dashed(hex.EncodeToString(b[:]))
}

// nilID is the one UUID without a variant that Notion accepts.
const nilID = "00000000-0000-0000-0000-000000000000"

// parseID accepts a UUID with or without dashes and returns its canonical form. The variant must be
// that of RFC 9562: 8, 9, a or b.
func parseID(s string) (string, bool) {
	digits := strings.ToLower(s)
	if len(digits) == 36 && digits[8] == '-' && digits[13] == '-' && digits[18] == '-' && digits[23] == '-' {
		digits = strings.ReplaceAll(digits, "-", "")
	}
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	id := dashed(digits)
	return id, strings.Contains("89ab", digits[16:17]) || id == nilID
}

func dashed(digits string) string {
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}

// undashed returns an id in the form of URLs.
func undashed(id string) string { return strings.ReplaceAll(id, "-", "") }

// newToken mints a token in the form of Notion's integrations.
func newToken() string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var b strings.Builder
	b.WriteString("ntn_")
	for range 46 {
		b.WriteByte(alphabet[randomBelow(len(alphabet))])
	}
	return b.String()
}

func randomBelow(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err) // crypto/rand.Reader never fails
	}
	return int(i.Int64())
}

// sortedKeys returns an object's keys in a fixed order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// asNode converts maps, slices and structs to what decoding a request's JSON returns.
func asNode(path string, v any) (node, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return node{}, err
	}
	n := node{path: path}
	err = json.Unmarshal(data, &n.value)
	n.present = n.value != nil
	return n, err
}
