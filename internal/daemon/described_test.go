package daemon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"dibs/internal/api"

	"github.com/google/jsonschema-go/jsonschema"
)

// given is an answer.
type given struct {
	request string
	op      *api.Operation
	*http.Response
	body string
}

// described is what the description says of the answers.
type described struct {
	Paths map[string]map[string]struct {
		Parameters []struct{ Name, In string }
		Responses  map[string]struct {
			Content map[string]struct{ Schema map[string]any }
		}
	}
	Components struct{ Schemas map[string]any }
}

// validate compares the answers that were given with the description: their status, their type and
// their content. Every operation must have succeeded once, but those of the daemon's user, whom the
// tests are not. Whatever a query says, a question fails with no status above 500.
func (g *golden) validate(description map[string]any) {
	g.w.Helper()
	text, err := json.Marshal(description)
	mustDo(g.w, err)
	var d described
	mustDo(g.w, json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), &d))
	succeeded := make(map[*api.Operation]bool)
	for _, a := range g.given {
		if a.op.Name == "" {
			continue // there is no such operation
		}
		if err := d.check(a); err != nil {
			g.w.Errorf("%s: answered %d %s, which the description does not allow: %v", a.request, a.StatusCode, a.body, err)
		}
		succeeded[a.op] = succeeded[a.op] || a.StatusCode < 300
	}
	for _, op := range api.Operations() {
		if !succeeded[op] && op.Meter != api.ByOwner && op != api.OpWebhook.Operation {
			g.w.Errorf("%s never succeeded, so that its answer was not seen", op.Pattern())
		}
		for _, p := range d.Paths[op.Path][strings.ToLower(op.Method)].Parameters {
			if p.In != "query" {
				continue
			}
			path := strings.NewReplacer("{id}", "zz", "{name}", "Sandman").Replace(op.Path) + "?follow=false&" + p.Name + "=zz"
			if op != api.OpEvents.Operation {
				path = strings.Replace(path, "follow=false&", "", 1)
			}
			if got := g.request(op.Method, path, "", ""); got.status >= http.StatusInternalServerError {
				g.w.Errorf("%s %s: answered %d %s", op.Method, path, got.status, got.body)
			}
		}
	}
}

// check returns what is wrong with an answer.
func (d described) check(a given) error {
	responses := d.Paths[a.op.Path][strings.ToLower(a.op.Method)].Responses
	r, known := responses[fmt.Sprint(a.StatusCode)]
	if !known && a.StatusCode >= http.StatusBadRequest {
		r, known = responses["default"]
	}
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	content, typed := r.Content[media]
	if !known || !typed {
		return fmt.Errorf("it has no answer %d of the type %s", a.StatusCode, media)
	}
	root := maps.Clone(content.Schema)
	root["$defs"] = d.Components.Schemas
	data, err := json.Marshal(root)
	if err != nil {
		return err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		return err
	}
	rules, err := schema.Resolve(nil)
	if err != nil {
		return err
	}
	documents := []string{a.body}
	if media == api.EventStream {
		documents = nil
		for line := range strings.Lines(a.body) {
			if document, ok := strings.CutPrefix(line, "data: "); ok {
				documents = append(documents, document)
			}
		}
	}
	for _, document := range documents {
		var v any
		if err := json.Unmarshal([]byte(document), &v); err != nil {
			return err
		}
		if err := rules.Validate(v); err != nil {
			return err
		}
	}
	return nil
}
