package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Limits that Notion puts on requests.
const (
	maxBody     = 500 * 1024 // bytes
	maxElements = 100        // of any array
	maxContent  = 2000       // UTF-16 code units of a span of text
	maxURL      = 2000       // UTF-16 code units
	maxShort    = 200        // UTF-16 code units of an email address or a phone number
	maxOption   = 100        // UTF-16 code units of an option's name
)

// node is a place in a request, with the path by which Notion's messages name
// it, such as body.properties.Name.title[0].
type node struct {
	path    string
	value   any
	present bool
}

// get is the member of that name; it is absent if n is no object or has none.
func (n node) get(key string) node {
	m, _ := n.value.(map[string]any)
	v, ok := m[key]
	return node{n.path + "." + key, v, ok}
}

// null reports whether n is there and is null.
func (n node) null() bool { return n.present && n.value == nil }

// absent reports whether n is not there or is null, for the optional members
// in which Notion makes no difference.
func (n node) absent() bool { return n.value == nil }

// should refuses n, saying what it should be.
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

// shown is how a message shows the value found: as JSON, cut after 55 bytes.
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

// defined refuses an absent n.
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

// array is the elements of n, at most maxElements of them.
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
		out[i] = node{fmt.Sprintf("%s[%d]", n.path, i), v, true}
	}
	return out, nil
}

// text is a string of at most max UTF-16 code units.
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

// id is a UUID in its canonical form, lower-case with dashes.
func (n node) id() (string, error) {
	s, ok := n.value.(string)
	if ok {
		s, ok = parseID(s)
	}
	if !ok {
		if !n.present {
			return "", n.should("defined")
		}
		return "", n.should("a valid uuid")
	}
	return s, nil
}

// oneOf is a string out of a closed list.
func (n node) oneOf(words ...string) (string, error) {
	s, ok := n.value.(string)
	if !ok || !slices.Contains(words, s) {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "`" + string(compact(w)) + "`"
		}
		return "", n.should("%s", strings.Join(quoted, " or "))
	}
	return s, nil
}

// only refuses members of an object other than those named.
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
		want = "defined"
	}
	return n.should("%s", want)
}

// compact is v as JSON, without HTML escapes.
func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only maps, slices and plain values of this package get here.
		panic(fmt.Sprintf("emulator: encoding %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// utf16Len counts a string as Notion counts it.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
