package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dibs/internal/task"
)

// Fit returns a JSON document as its reader wants it, a value of type t, where it can mean only one
// thing. Programs and models send null and "" for what is not set, JSON in a text, whole numbers
// with a decimal point, spaces around texts, and one text for a list. Fields tagged `fit:"pairs"`
// also take an object for a list of NAME=VALUE, and those tagged `fit:"exact"` keep their spaces:
// texts of several lines, paths and the like. Everything else stays, and the schema refuses it. A text
// of spaces alone stays, too. A document that is not JSON is returned unchanged.
func Fit(document []byte, t reflect.Type) []byte {
	var v any
	if t == nil || decode(document, &v) != nil {
		return document
	}
	f := fitter{}
	v = f.fit(v, t, "")
	if !f.changed {
		return document
	}
	fitted, err := json.Marshal(v)
	if err != nil {
		return document // impossible: it was JSON
	}
	return fitted
}

// decode reads one JSON document, which has no fields that into lacks. Numbers in an any stay as
// they are written.
func decode(document []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	return err
}

type fitter struct{ changed bool }

// fit returns v as type t wants it, of a field with the tag how.
func (f *fitter) fit(v any, t reflect.Type, how string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return v
	}
	if text, ok := v.(string); ok && t.Kind() != reflect.String && t.Kind() != reflect.Interface {
		var inner any
		if decode([]byte(text), &inner) == nil && inner != nil {
			f.changed = true
			v = inner
		}
	}
	if list, ok := listOf(v, how); ok && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String {
		f.changed = true
		v = list
	}
	switch v := v.(type) {
	case string:
		if trimmed := strings.TrimSpace(v); t.Kind() == reflect.String && how != "exact" && trimmed != v && trimmed != "" {
			f.changed = true
			return trimmed
		}
	case json.Number:
		if whole, ok := wholeOf(v); ok && isInt(t) && whole != v {
			f.changed = true
			return whole
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range v {
				v[i] = f.fit(v[i], t.Elem(), how)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return v
		}
		for name, field := range fieldsOf(t) {
			if given, ok := v[name]; ok {
				if v[name] = f.fit(given, field.Type, field.Tag.Get("fit")); isUnset(v[name], field.Type) {
					f.changed = true
					delete(v, name)
				}
			}
		}
	}
	return v
}

// listOf returns the list of texts that a text or an object stands for.
func listOf(v any, how string) (list []any, ok bool) {
	switch v := v.(type) {
	case string:
		return []any{v}, !isUnset(v, reflect.TypeFor[[]string]()) && !strings.ContainsAny(strings.TrimSpace(v)[:1], "[{")
	case map[string]any:
		list = []any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch v[name].(type) {
			case string, json.Number, bool:
				list = append(list, fmt.Sprint(name, "=", v[name]))
			default:
				return nil, false
			}
			if strings.Contains(name, "=") {
				return nil, false
			}
		}
		return list, how == "pairs"
	}
	return nil, false
}

// isUnset reports whether a value says that a field of that type is not set.
func isUnset(v any, t reflect.Type) bool {
	text, isText := v.(string)
	return v == nil || isText && t.Kind() != reflect.String && (strings.TrimSpace(text) == "" || strings.TrimSpace(text) == "null")
}

func isInt(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 }

// wholeOf returns a whole number without its decimal point and exponent.
func wholeOf(n json.Number) (json.Number, bool) {
	const exact = 1 << 53 // above it, not each whole number is a float64
	if v, err := n.Float64(); err == nil && v == math.Trunc(v) && math.Abs(v) < exact {
		return json.Number(strconv.FormatInt(int64(v), 10)), true
	}
	return n, false
}

// fields are the fields of structs by their names in JSON.
var fields sync.Map // of map[string]reflect.StructField by reflect.Type

func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	if known, ok := fields.Load(t); ok {
		return known.(map[string]reflect.StructField)
	}
	named := make(map[string]reflect.StructField)
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" && !field.Anonymous {
			named[name] = field
		}
	}
	fields.Store(t, named)
	return named
}

// named are the fields of requests, as they are called in Go, that hold the name of an agent or of a
// person, or a pattern of names.
var named = []string{"Agent", "Name", "By", "FailedBy", "For", "From", "Holder", "Mention", "To"}

// FormC puts the names in a request, to which v points, into the form in which they are compared.
// Other texts stay as they are.
func FormC(v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String && slices.Contains(named, v.Type().Field(i).Name):
			f.SetString(task.Name(f.String()))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String && slices.Contains(named, v.Type().Field(i).Name):
			for j := range f.Len() {
				f.Index(j).SetString(task.Name(f.Index(j).String()))
			}
		default:
			FormC(f)
		}
	}
}

// Parts are the parts of a request that its door reads before the broker gets it. The tags of the
// fields say which they are.
type Parts struct {
	// Actor is the agent in whose name something is done (is:"actor"); empty for nobody's.
	Actor string
	// Nobody is the part that would name the agent, where it names none; nil if there is no such part.
	Nobody *string
	// Owner is the agent whose claim it must be (is:"owner"); empty for anybody's.
	Owner string
	// Signer is the name under which somebody does it in the agent's place (is:"signer"); empty for none.
	Signer string
	// PID is a process of the caller's (is:"process"); zero for none.
	PID int
	// Tasks are the tasks (is:"task"), and Claim is the claim (is:"claim"; nil if there is none), as
	// people name them. The door puts ids there.
	Tasks []Place
	Claim *string
	// Fault is what an input, or its body, says of itself (Check); nil if nothing is wrong with it.
	Fault error
}

// Place is a part of a request that is not empty.
type Place struct {
	Location string // as in a Fault
	Text     *string
}

// PartsOf returns the parts of an input, which in points to.
func PartsOf(in any) (p Parts) {
	p.read(reflect.ValueOf(in).Elem(), "")
	return p
}

func (p *Parts) read(v reflect.Value, within string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	if in, ok := v.Addr().Interface().(interface{ Check() error }); ok && p.Fault == nil {
		p.Fault = in.Check()
	}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch is := field.Tag.Get("is"); {
		case field.Name == "Body":
			p.read(value, "body.")
		case field.Anonymous:
			p.read(value, within)
		case is == "actor" && value.IsZero():
			p.Nobody = value.Addr().Interface().(*string)
		case is == "" || value.IsZero():
		case is == "actor":
			p.Actor = value.String()
		case is == "owner":
			p.Owner = value.String()
		case is == "signer":
			p.Signer = value.String()
		case is == "process":
			p.PID = int(value.Int())
		case is == "claim":
			p.Claim = value.Addr().Interface().(*string)
		case is == "task":
			p.Tasks = append(p.Tasks, Place{within + nameOf(field), value.Addr().Interface().(*string)})
		}
	}
}

// nameOf returns where a field of an input is, or what a field of a body is called.
func nameOf(field reflect.StructField) string {
	for _, part := range []string{"path", "query"} {
		if name, ok := field.Tag.Lookup(part); ok {
			return part + "." + name
		}
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
