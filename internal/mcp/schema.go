package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
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

// arguments reads a tool's arguments.
func arguments[In any](tool string, raw json.RawMessage, schema *jsonschema.Resolved) (In, error) {
	var in In
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var given any
	if err := json.Unmarshal(raw, &given); err != nil {
		return in, usagef("the arguments are no JSON: %v", err)
	}
	fields, ok := given.(map[string]any)
	if !ok {
		return in, usagef("the arguments are no object")
	}
	for name := range fields {
		if _, known := schema.Schema().Properties[name]; !known && !slices.Contains(unlisted(tool), name) {
			return in, usagef("there is no argument %q: there are %s", line(name), strings.Join(schema.Schema().PropertyOrder, ", "))
		}
	}
	if err := schema.Validate(given); err != nil {
		return in, usagef("the arguments do not fit: %s", strings.TrimPrefix(line(err.Error()), "validating root: "))
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, usagef("the arguments do not fit: %v", err)
	}
	return in, nil
}
