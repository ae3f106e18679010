package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// document is a JSON file, perhaps with comments, that is edited in place. Whitespace records what
// we added, so that undoing it restores the same bytes: objects that we made have a line end before
// they close, existing empty ones have none, and a file that existed without content begins with an
// empty line.
type document struct {
	root   hujson.Value
	object *hujson.Object // the root
	indent string
	made   map[*hujson.Object]bool // objects that we made
}

// parse parses a document. No file, or one without content, becomes an empty object.
func parse(data []byte) (*document, error) {
	d := &document{indent: "  ", made: make(map[*hujson.Object]bool)}
	if len(bytes.Trim(data, " \t\r\n")) == 0 {
		d.object = new(hujson.Object)
		d.root = hujson.Value{Value: d.object, AfterExtra: hujson.Extra("\n")}
		if data != nil {
			d.root.BeforeExtra = slices.Concat(hujson.Extra(data), hujson.Extra("\n"))
		}
		d.made[d.object] = true
		return d, nil
	}
	var err error
	if d.root, err = hujson.Parse(data); err != nil {
		return nil, fmt.Errorf("it is not JSON (%w): mend it, or connect by hand", err)
	}
	var ok bool
	if d.object, ok = d.root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object: mend it, or connect by hand")
	}
	for line := range strings.Lines(string(data)) {
		if rest := strings.TrimLeft(line, " \t"); rest != line && strings.HasPrefix(rest, `"`) {
			d.indent = line[:len(line)-len(rest)]
			break
		}
	}
	return d, nil
}

// without returns the file's content once the last member of an object that we made is removed; nil
// for no file.
func (d *document) without() []byte {
	before, ours := bytes.CutSuffix(d.root.BeforeExtra, []byte("\n"))
	switch {
	case !blank(d.root.BeforeExtra) || !blank(d.root.AfterExtra):
		return d.root.Pack()
	case ours:
		return append([]byte{}, before...)
	}
	return nil
}

// member returns o's member of that name; nil if there is none.
func member(o *hujson.Object, name string) (*hujson.Value, error) {
	var found *hujson.Value
	for i := range o.Members {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			if found != nil {
				return nil, fmt.Errorf("%q is twice in it, and programs differ in which one counts: take one out", name)
			}
			found = &o.Members[i].Value
		}
	}
	return found, nil
}

// object returns o's member of that name, which must be an object; nil if there is none.
func object(o *hujson.Object, name string) (*hujson.Object, error) {
	v, err := member(o, name)
	if v == nil || err != nil {
		return nil, err
	}
	if child, ok := v.Value.(*hujson.Object); ok {
		return child, nil
	}
	return nil, fmt.Errorf("%q in it is not an object: mend it, or connect by hand", name)
}

// decode decodes a value, ignoring comments.
func decode(v *hujson.Value, into any) error {
	plain := v.Clone()
	plain.Standardize()
	return json.Unmarshal(plain.Pack(), into)
}

// value formats v as JSON, indented for that depth in the document.
func (d *document) value(v any, depth int) hujson.Value {
	text, _ := json.MarshalIndent(v, strings.Repeat(d.indent, depth), d.indent) // cannot fail on texts and numbers
	made, _ := hujson.Parse(text)
	return made
}

func (d *document) line(depth int) hujson.Extra {
	return hujson.Extra("\n" + strings.Repeat(d.indent, depth))
}

// set appends a member to o, which is at that depth.
func (d *document) set(o *hujson.Object, depth int, name string, v hujson.Value) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}
	m.Value.BeforeExtra = hujson.Extra(" ")
	var last *hujson.Extra
	if n := len(o.Members); n > 0 {
		last = &o.Members[n-1].Value.AfterExtra
	}
	m.Name.BeforeExtra, m.Value.AfterExtra = d.open(last, &o.AfterExtra, depth+1)
	if d.made[o] && last == nil {
		m.Name.BeforeExtra, o.AfterExtra = d.line(depth+1), d.line(depth)
	}
	o.Members = append(o.Members, m)
}

// append appends an element, which is at that depth, to a list.
func (d *document) append(list *hujson.Array, depth int, v any) {
	added := d.value(v, depth)
	var last *hujson.Extra
	if n := len(list.Elements); n > 0 {
		last = &list.Elements[n-1].AfterExtra
	}
	added.BeforeExtra, added.AfterExtra = d.open(last, &list.AfterExtra, depth)
	list.Elements = append(list.Elements, added)
}

// open makes room at the end of a list, and returns the whitespace before and after the new item.
// closing is the whitespace before the list's end, last the whitespace after its last item; nil if
// the list is empty. Comments stay above the new item, and a trailing comma stays at the end.
func (d *document) open(last, closing *hujson.Extra, depth int) (before, after hujson.Extra) {
	if last == nil {
		before, *closing = *closing, nil
		return before, nil
	}
	if *last != nil {
		after = hujson.Extra{}
	}
	end := max(bytes.LastIndexByte(*closing, '\n'), 0)
	before = slices.Concat((*closing)[:end], d.line(depth))
	*closing = slices.Concat((*closing)[end:])
	return before, after
}

// item is the whitespace around an item of a list.
type item struct{ before, after *hujson.Extra }

// unlink gives the whitespace around item i to its neighbours, so that the item can be removed. It
// reports whether the list was made by us and is empty then.
func unlink(list []item, i int, closing *hujson.Extra) (gone bool) {
	above := *list[i].before
	multiline := bytes.ContainsRune(*closing, '\n')
	if len(list) == 1 && blank(above) && blank(*closing) && multiline {
		return true
	}
	if end := bytes.LastIndexByte(above, '\n'); (len(list) > 1 || multiline) && blank(above[end+1:]) {
		above = above[:max(end, 0)]
	}
	switch {
	case i < len(list)-1:
		next := list[i+1].before
		*next = slices.Concat(above, *next)
	case i == 0:
		*closing = slices.Concat(above, *closing)
	case *list[i].after == nil:
		last := list[i-1].after
		*closing = slices.Concat(*last, above, *closing)
		*last = nil
	default: // a trailing comma
		last := list[i-1].after
		if *last == nil {
			*last = hujson.Extra{}
		}
		*closing = slices.Concat(above, *closing)
	}
	return false
}

// index returns the index of o's member of that name; -1 if there is none.
func index(o *hujson.Object, name string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	})
}

// drop removes a member of o, and reports whether o was made by us and is empty now.
func drop(o *hujson.Object, name string) (gone bool) {
	list := make([]item, len(o.Members))
	for i := range o.Members {
		list[i] = item{&o.Members[i].Name.BeforeExtra, &o.Members[i].Value.AfterExtra}
	}
	i := index(o, name)
	gone = unlink(list, i, &o.AfterExtra)
	o.Members = slices.Delete(o.Members, i, i+1)
	return gone
}

// dropElement removes an element of a list, and reports what drop does.
func dropElement(a *hujson.Array, i int) (gone bool) {
	list := make([]item, len(a.Elements))
	for i := range a.Elements {
		list[i] = item{&a.Elements[i].BeforeExtra, &a.Elements[i].AfterExtra}
	}
	gone = unlink(list, i, &a.AfterExtra)
	a.Elements = slices.Delete(a.Elements, i, i+1)
	return gone
}
