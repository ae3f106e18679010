package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/jsonschema-go/jsonschema"
)

// A tool's schemas are read from the types of its arguments and of its answer, and kept
// short: every agent pays for each of their bytes.

var short = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[api.Time]():    {Type: "string"},
	reflect.TypeFor[task.ID]():     {Type: "string"},
	reflect.TypeFor[claim.ID]():    {Type: "string"},
	reflect.TypeFor[task.Status](): {Type: "string"},
	reflect.TypeFor[Task]():        {Type: "object"},
}

// agentArgument is an argument of every tool, for programs: the name to act under. It is
// listed only where it means another agent, since a model would make up a name for itself.
const agentArgument = "agent"

// schemaOf returns the schema of T. An answer may always have more than its schema says.
func schemaOf[T any](answer bool) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: short})
	if err != nil {
		panic(fmt.Sprintf("the schema of %v: %v", reflect.TypeFor[T](), err)) // seen by every test
	}
	shorten(s, answer)
	return s
}

// shorten leaves out what says nothing: that a list or an object may be null, which is
// none of ours ever, and, in answers, what has to be there.
func shorten(s *jsonschema.Schema, answer bool) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	s.AdditionalProperties = nil // what else there is among the arguments is refused by name
	if answer {
		s.Required, s.Items = nil, nil
	}
	if enum, description, ok := strings.Cut(s.Description, ": "); ok && strings.Contains(enum, "|") {
		s.Description = description
		for value := range strings.SplitSeq(enum, "|") {
			s.Enum = append(s.Enum, value)
		}
	}
	for _, property := range s.Properties {
		shorten(property, answer)
	}
	shorten(s.Items, answer)
}

// arguments reads a tool's arguments.
func arguments[In any](raw json.RawMessage, schema *jsonschema.Resolved) (In, error) {
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
		if _, known := schema.Schema().Properties[name]; !known && name != agentArgument {
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
