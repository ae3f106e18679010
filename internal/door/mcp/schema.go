package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/jsonschema-go/jsonschema"
)

// A tool's schemas are derived from the types of its arguments and its answer. They are kept short:
// every agent pays for each byte.

var short = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[api.Time]():    {Type: "string"},
	reflect.TypeFor[task.ID]():     {Type: "string"},
	reflect.TypeFor[claim.ID]():    {Type: "string"},
	reflect.TypeFor[task.Status](): {Type: "string"},
	reflect.TypeFor[Task]():        {Type: "object"},
}

// unlisted returns the arguments that a tool accepts but does not list. agent is for programs,
// since a model would make up a name; only in list_tasks does it mean another agent. An agent can
// learn the filters of claim_task from list_tasks.
func unlisted(tool string) []string {
	switch tool {
	case "list_tasks":
		return nil
	case "claim_task":
		return []string{"agent", "where", "text", "timeout_minutes"}
	}
	return []string{"agent"}
}

// schemaOf returns the schema of T. An answer may always have more fields than its schema.
func schemaOf[T any](answer bool) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: short})
	if err != nil {
		panic(fmt.Sprintf("the schema of %v: %v", reflect.TypeFor[T](), err)) // seen by every test
	}
	shorten(s, answer)
	return s
}

// shorten drops schema keywords that tell a model nothing. Lists and objects are never null, so
// nullability goes. In answers, it also drops optional fields, the items of lists, and what is
// required, since the answer of a failure has none of it.
func shorten(s *jsonschema.Schema, answer bool) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	s.AdditionalProperties = nil // arguments refuses unknown names itself
	if answer {
		maps.DeleteFunc(s.Properties, func(name string, _ *jsonschema.Schema) bool { return !slices.Contains(s.Required, name) })
		s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(name string) bool { return !slices.Contains(s.Required, name) })
		s.Required, s.Items = nil, nil
	}
	if strings.Contains(s.Description, "|") {
		for value := range strings.SplitSeq(s.Description, "|") {
			s.Enum = append(s.Enum, value)
		}
		s.Description = ""
	}
	for _, property := range s.Properties {
		shorten(property, answer)
	}
	shorten(s.Items, answer)
}

// arguments reads a tool's arguments. all is the schema with those that are not listed.
func arguments[In any](raw json.RawMessage, listed, all *jsonschema.Schema) (In, error) {
	var in In
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	raw = api.Fit(raw, reflect.TypeFor[In]())
	var given any
	if err := json.Unmarshal(raw, &given); err != nil {
		return in, usagef("the arguments are no JSON: %v", err)
	}
	fields, ok := given.(map[string]any)
	if !ok {
		return in, usagef("the arguments are no object")
	}
	for name := range fields {
		if all.Properties[name] == nil {
			return in, usagef("there is no argument %q: there are %s", line(name), strings.Join(listed.PropertyOrder, ", "))
		}
	}
	for _, name := range all.PropertyOrder {
		s, v := all.Properties[name], fields[name]
		switch _, set := fields[name]; {
		case slices.Contains(all.Required, name) && (!set || isBlank(v)):
			text := fmt.Sprintf("the arguments do not fit: %s is missing", name)
			if s.Description != "" {
				text += ": " + s.Description
			}
			return in, usagef("%s", text)
		case set && !fits(v, s):
			what, _ := document(v)
			return in, usagef("the arguments do not fit: %s: want %s, not %s", name, wanted(s), task.Brief(line(what), maxTitle))
		}
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, usagef("the arguments do not fit the tool") // impossible: fits has seen them
	}
	return in, nil
}

// isBlank reports whether a value is a text that says nothing.
func isBlank(v any) bool {
	text, ok := v.(string)
	return ok && strings.TrimSpace(text) == ""
}

// kinds are the kinds of arguments, in words.
var kinds = map[string]string{
	"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
	"array": "a list of texts", "object": "an object",
}

// fits reports whether a value is of a schema's kind.
func fits(v any, s *jsonschema.Schema) bool {
	switch v := v.(type) {
	case string:
		return s.Type == "string" && (s.Enum == nil || slices.Contains(s.Enum, any(v)))
	case float64:
		const most = 1 << 53
		return s.Type == "number" || s.Type == "integer" && v == math.Trunc(v) && math.Abs(v) < most
	case bool:
		return s.Type == "boolean"
	case []any:
		return s.Type == "array" && !slices.ContainsFunc(v, func(item any) bool { return !fits(item, s.Items) })
	case map[string]any:
		return s.Type == "object"
	}
	return false
}

// wanted returns in words what fits.
func wanted(s *jsonschema.Schema) string {
	if s.Enum == nil {
		return kinds[s.Type]
	}
	var values []string
	for _, v := range s.Enum {
		values = append(values, fmt.Sprint(v))
	}
	return strings.Join(values, ", ")
}
