package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dibs/internal/api"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/queryparam"
)

// input reads the input of an operation from requests. Huma, which describes and validates it, can
// read it, too, but with a generic function of 500 lines. Go compiled that for each operation: nine
// seconds of the 250 that the whole program takes, and of every build after a change below.
type input struct {
	of      reflect.Type // has a field for each part of a request, see api.Op
	parts   []part
	body    *huma.RequestBody // nil if there is none
	schemas huma.Registry
}

// part is a part of a request, but its body.
type part struct {
	*huma.Param
	field    int    // of the input
	fallback string // the value, if a request has none
}

// newInput returns an input of a type. The schemas in it are added to those that are there.
func newInput(of reflect.Type, schemas huma.Registry) *input {
	in := &input{of: of, schemas: schemas}
	for i := range of.NumField() {
		field := of.Field(i)
		schema := huma.SchemaFromField(schemas, field, "")
		if field.Name == "Body" {
			required := field.Type.Kind() != reflect.Pointer
			in.body = &huma.RequestBody{Required: required, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
			continue
		}
		for _, where := range []string{"path", "query", "header"} {
			name, explode := strings.CutSuffix(field.Tag.Get(where), ",explode")
			if name == "" {
				continue
			}
			p := &huma.Param{Name: name, In: where, Description: schema.Description, Required: where == "path", Schema: schema}
			if where == "query" {
				p.Explode = &explode
			}
			in.parts = append(in.parts, part{p, i, field.Tag.Get("default")})
		}
	}
	return in
}

// read returns the input, by reference, or what is wrong with the request.
func (in *input) read(r *http.Request) (any, *api.Problem) {
	value, status := reflect.New(in.of), http.StatusUnprocessableEntity
	var found huma.ValidateResult
	at := func(place string) *huma.PathBuffer { return huma.NewPathBuffer([]byte(place), len(place)) }
	for name := range r.URL.Query() {
		if !slices.ContainsFunc(in.parts, func(p part) bool { return p.In == "query" && p.Name == name }) {
			found.Add(at("query."+name), nil, "unknown query parameter")
		}
	}
	if len(found.Errors) > 0 {
		return nil, requestProblem(status, "validation failed", found.Errors...)
	}
	for _, p := range in.parts {
		place, field := at(p.In+"."+p.Name), value.Elem().Field(p.field)
		if set, err := p.set(field, r); err != nil {
			found.Add(place, nil, err.Error())
		} else if set {
			huma.Validate(in.schemas, p.Schema, place, huma.ModeWriteToServer, field.Interface(), &found)
		}
	}
	if in.body != nil {
		body, err := io.ReadAll(r.Body) // withBody has read it
		if len(body) == 0 && in.body.Required {
			return nil, requestProblem(http.StatusBadRequest, "request body is required")
		}
		if before, parsed := len(found.Errors), any(nil); len(body) > 0 {
			if err = unmarshal(body, &parsed); err != nil {
				status = http.StatusBadRequest
			} else if huma.Validate(in.schemas, in.body.Content["application/json"].Schema, at("body"), huma.ModeWriteToServer, parsed, &found); len(found.Errors) == before {
				err = unmarshal(body, value.Elem().FieldByName("Body").Addr().Interface())
			}
		}
		if err != nil {
			found.Add(at("body"), nil, err.Error())
		}
	}
	if len(found.Errors) > 0 {
		return nil, requestProblem(status, "validation failed", found.Errors...)
	}
	return value.Interface(), nil
}

// set sets a field of an input, and reports whether there is a value for it.
func (p part) set(field reflect.Value, r *http.Request) (bool, error) {
	var text string
	switch p.In {
	case "path":
		text = r.PathValue(p.Name)
	case "query":
		text = queryparam.Get(r.URL.RawQuery, p.Name)
	case "header":
		text = r.Header.Get(p.Name)
	}
	if text = cmp.Or(text, p.fallback); text == "" {
		return false, nil
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false, errors.New("invalid integer")
		}
		field.SetInt(n)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return false, errors.New("invalid boolean")
		}
		field.SetBool(b)
	case reflect.Slice: // of texts, one each time the name is there
		field.Set(reflect.ValueOf(r.URL.Query()[p.Name]))
	default:
		panic(fmt.Sprintf("no %v can be read from a request", field.Type())) // a part of package api
	}
	return true, nil
}

// unmarshal is json.Unmarshal. What huma lets pass may still not fit, such as a number that is too
// large; the error does not name our types.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: the %s does not fit", wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], wrong.Value)
	}
	return err
}
