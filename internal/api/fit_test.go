package api_test

import (
	"reflect"
	"testing"

	"dibs/internal/api"
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
		// these stay
		`{"task":"3","minutes":3}`:                                      ``,
		`{"task":"","body":"    code\n","text":" ","fields":{"a":" "}}`: ``,
		`{"minutes":1.5,"seconds":2.0}`:                                 ``,
		`{"minutes":"many","done":"yes","where":"a=b"}`:                 ``,
		`{"minutes":9007199254740993.0}`:                                ``,
		`{"more":null,"at":"2026-11-25T15:00:00Z"}`:                     ``,
		`{"task":"a "`: ``, `{"task":"a "}{}`: ``, `null`: ``, `[]`: ``, `7`: ``, ``: ``,
	} {
		if want == "" {
			want = given
		}
		if got := string(api.Fit([]byte(given), reflect.TypeFor[request]())); got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}
