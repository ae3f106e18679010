package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"dibs/internal/api"
)

// request is an HTTP request to the daemon.
type request struct {
	method, path string // with the query
	header       http.Header
	body         any // nil: none
}

// do calls an operation.
func do[In, Out any](ctx context.Context, c *Client, op api.Op[In, Out], in In) (Out, error) {
	var out Out
	err := c.do(ctx, newRequest(op, in), &out)
	return out, err
}

// newRequest makes the request of an operation from its input. It leaves out fields that equal
// their default, and zeros without a meaning of their own.
func newRequest[In, Out any](op api.Op[In, Out], in In) request {
	r := request{method: op.Method, path: op.Path, header: make(http.Header)}
	query := make(url.Values)
	parts := reflect.ValueOf(in)
	for i := range parts.NumField() {
		field, value := parts.Type().Field(i), parts.Field(i)
		if field.Name == "Body" {
			if value.Kind() != reflect.Pointer || !value.IsNil() {
				r.body = value.Interface()
			}
			continue
		}
		text := fmt.Sprint(value)
		usual := text == field.Tag.Get("default") || value.IsZero() && !zeroCounts(field)
		if name, ok := field.Tag.Lookup("path"); ok {
			r.path = strings.Replace(r.path, "{"+name+"}", url.PathEscape(text), 1)
		} else if usual || value.Kind() == reflect.Slice && value.Len() == 0 {
			continue
		} else if name, ok := field.Tag.Lookup("header"); ok {
			r.header.Set(name, text)
		} else if name, _, _ := strings.Cut(field.Tag.Get("query"), ","); value.Kind() == reflect.Slice {
			query[name] = value.Interface().([]string)
		} else {
			query.Set(name, text)
		}
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	return r
}

// zeroCounts reports whether a field's zero is a value of its own: a number or a bool whose default
// differs, unless the number has to be above zero.
func zeroCounts(field reflect.StructField) bool {
	if _, ok := field.Tag.Lookup("default"); !ok || field.Type.Kind() == reflect.String {
		return false
	}
	least, err := strconv.Atoi(field.Tag.Get("minimum"))
	return err != nil || least <= 0
}
