package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"dibs/internal/api"
	"dibs/internal/testkit"
)

// TestFit makes what programs send fit, and nothing else of it.
func TestFit(t *testing.T) {
	type inner struct {
		Tokens int64 `json:"tokens,omitempty"`
	}
	type request struct {
		api.Filter
		Task    string         `json:"task"`
		Minutes int            `json:"minutes,omitempty"`
		Seconds float64        `json:"seconds,omitempty"`
		Done    bool           `json:"done,omitempty"`
		Usage   *inner         `json:"usage,omitempty"`
		Fields  map[string]any `json:"fields,omitempty"`
		Body    string         `json:"body,omitempty" fit:"exact"`
		At      api.Time       `json:"at"`
	}
	for given, want := range map[string]string{
		`{"task":"T-2 ","minutes":45.0}`:                             `{"minutes":45,"task":"T-2"}`,
		`{"minutes":"3","seconds":"1.5","done":"true"}`:              `{"done":true,"minutes":3,"seconds":1.5}`,
		`{"minutes":1e2}`:                                            `{"minutes":100}`,
		`{"minutes":"3.0"}`:                                          `{"minutes":3}`,
		`{"minutes":null,"seconds":"","done":"","where":"","at":""}`: `{}`,
		`{"usage":"null","fields":" ","task":null}`:                  `{}`,
		`{"where":"[\"a=b \"]","usage":"{\"tokens\":7.0}"}`:          `{"usage":{"tokens":7},"where":["a=b"]}`,
		`"{\"task\":\"T-2\"}"`:                                       `{"task":"T-2"}`,
		`{"fields":"{\"n\":1.0,\"t\":\" x \",\"u\":null}"}`:          `{"fields":{"n":1.0,"t":" x ","u":null}}`,
		`{"where":"a=b "}`:                                           `{"where":["a=b"]}`,
		`{"where":{"b":"x ","a":1.5,"c":true}}`:                      `{"where":["a=1.5","b=x","c=true"]}`,
		`{"where":{}}`:                                               `{"where":[]}`,
		// these stay
		`{"where":{"a":"x","b":["y"]}}`: ``, `{"where":{"a":null}}`: ``, `{"where":{"a=b":"c"}}`: ``,
		`{"task":"3","minutes":3}`:                                      ``,
		`{"task":"","body":"    code\n","text":" ","fields":{"a":" "}}`: ``,
		`{"minutes":1.5,"seconds":2.0}`:                                 ``,
		`{"minutes":"many","done":"yes","where":7}`:                     ``,
		`{"minutes":9007199254740993.0}`:                                ``,
		`{"more":null,"at":"2026-11-25T15:00:00Z"}`:                     ``,
		`{"task":"a "`: ``, `{"task":"a "}{}`: ``, `null`: ``, `[]`: ``, `7`: ``, ``: ``,
	} {
		if want == "" {
			want = given
		}
		got := string(api.Fit([]byte(given), reflect.TypeFor[request]()))
		testkit.Check(t, got == want, "%s becomes %s, want %s", given, got, want)
	}
}

// TestFitKeepsTexts sends what people read: how it is indented is part of it.
func TestFitKeepsTexts(t *testing.T) {
	for _, given := range []struct {
		op    *api.Operation
		field string
	}{
		{api.OpSend.Operation, "text"}, {api.OpComment.Operation, "text"}, {api.OpAsk.Operation, "text"},
		{api.OpOffer.Operation, "text"}, {api.OpAccept.Operation, "note"}, {api.OpDecline.Operation, "reason"},
		{api.OpComplete.Operation, "summary"}, {api.OpReview.Operation, "note"}, {api.OpRelease.Operation, "reason"},
		{api.OpBlock.Operation, "reason"}, {api.OpFail.Operation, "reason"}, {api.OpRenew.Operation, "progress"},
		{api.OpReopen.Operation, "note"}, {api.OpReopenFailed.Operation, "note"}, {api.OpSweep.Operation, "note"},
		{api.OpPause.Operation, "reason"}, {api.OpAddTask.Operation, "body"},
	} {
		sent := `{"` + given.field + `":"    indented\n  more\n"}`
		got := string(given.op.Fit([]byte(sent)))
		testkit.Check(t, got == sent, "%s: %s becomes %s", given.op.Name, sent, got)
	}
	evidence := `{"evidence":["  + indented"]}`
	got := string(api.OpComplete.Fit([]byte(evidence)))
	testkit.Check(t, got == evidence, "%s becomes %s", evidence, got)
}

// TestCanonical has bodies that this program sends stay: keys may be in use when it is replaced.
func TestCanonical(t *testing.T) {
	sent := testkit.Got(json.Marshal(api.AddRequest{
		Agent: "Sandman", Title: "<a> & b ", Body: "  x\n", Fields: map[string]any{"n": json.Number("9007199254740993"), "a": []string{"b"}},
	}))(t)
	for _, body := range []string{string(sent), `{"title":"x","more":1}`, `{"title":7}`, `{"title":"x"}{}`, ``} {
		got := string(api.OpAddTask.Canonical([]byte(body)))
		testkit.Check(t, got == body, "%s becomes %s", body, got)
	}
	got := string(api.OpAddTask.Canonical([]byte(`{"for":"Jo\u0308rg","title":"x"}`)))
	testkit.Check(t, got == "{\"title\":\"x\",\"for\":\"J\u00f6rg\"}", "the name becomes %s", got)
}
