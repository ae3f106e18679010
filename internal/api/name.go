package api

import (
	"reflect"
	"slices"

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
