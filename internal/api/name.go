package api

import (
	"reflect"
	"slices"
	"strings"

	"dibs/internal/task"
)

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
	// Owner is the agent whose claim it must be (is:"owner"); empty for anybody's.
	Owner string
	// PID is a process of the caller's (is:"process"); zero for none.
	PID int
	// Tasks are the tasks (is:"task"), and Claim is the claim (is:"claim"; nil if there is none), as
	// people name them. The door puts ids there.
	Tasks []Place
	Claim *string
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
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch is := field.Tag.Get("is"); {
		case field.Name == "Body":
			p.read(value, "body.")
		case field.Anonymous:
			p.read(value, within)
		case is == "" || value.IsZero():
		case is == "actor":
			p.Actor = value.String()
		case is == "owner":
			p.Owner = value.String()
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
