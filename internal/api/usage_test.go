package api_test

import (
	"math"
	"testing"

	"dibs/internal/api"
	"dibs/internal/claim"
)

func TestParseUsage(t *testing.T) {
	for text, want := range map[string]claim.Usage{
		"tokens=12000,usd=0.42":           {Tokens: 12000, Micros: 420000},
		" usd=0.000001 \n":                {Micros: 1},
		"usd=1e-1, tokens = 3":            {Tokens: 3, Micros: 100000},
		"tokens=0":                        {},
		`{"tokens":12000,"usd":0.42}`:     {Tokens: 12000, Micros: 420000},
		"{\n  \"usd\": 1000000\n}\n":      {Micros: 1e12},
		`{"usd":0.1}`:                     {Micros: 100000},
		"tokens=1000000000000,usd=0.3333": {Tokens: 1e12, Micros: 333300},
	} {
		if got, err := api.ParseUsage(text); err != nil || got.Report() != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                     `"": want tokens=N,usd=X`,
		"much":                 `"much": want tokens=N,usd=X`,
		"tokens=":              `"tokens=": want one number, as in tokens=12000,usd=0.42`,
		"tokens=1.5":           `"tokens=1.5": want one number, as in tokens=12000,usd=0.42`,
		"usd=1,usd=2":          `"usd=2": want one number, as in tokens=12000,usd=0.42`,
		"usd=1e999":            `"usd=1e999": want one number, as in tokens=12000,usd=0.42`,
		"tokens=-1":            "tokens=-1: want 0 to 1000000000000",
		"tokens=1000000000001": "tokens=1000000000001: want 0 to 1000000000000",
		"usd=-0.01":            "usd=-0.01: want 0 to 1000000",
		"usd=NaN":              "usd=NaN: want 0 to 1000000",
		"usd=+Inf":             "usd=+Inf: want 0 to 1000000",
		"usd=1000001":          "usd=1000001: want 0 to 1000000",
		`{"usd":-1}`:           "usd=-1: want 0 to 1000000",
		`{"usd":1,"cost":2}`:   `want {"tokens":N,"usd":X}: json: unknown field "cost"`,
		`{"usd":1} 2`:          `want {"tokens":N,"usd":X}, and nothing after it`,
		`{"usd":"1"}`:          `want {"tokens":N,"usd":X}: json: cannot unmarshal string into Go struct field Usage.usd of type float64`,
	} {
		if got, err := api.ParseUsage(text); got != nil || err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v; want %s", text, got, err, want)
		}
	}
}

func TestUsageIsShown(t *testing.T) {
	for want, u := range map[string]api.Usage{
		"12000 tokens, 0.42 USD": {Tokens: 12000, USD: 0.42},
		"3 tokens":               {Tokens: 3},
		"0.000001 USD":           {USD: 0.000001},
		"7.00 USD":               {USD: 7},
		"0.50 USD":               {USD: 0.5},
	} {
		if got := u.String(); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
	for _, micros := range []int64{1, 333333, 420000, 999999999999} {
		if got := api.Micros(api.USD(micros)); got != micros {
			t.Errorf("%d becomes %d", micros, got)
		}
	}
	if got := api.Micros(math.Nextafter(0.29, 0)); got != 290000 {
		t.Errorf("0.29 becomes %d", got)
	}
}
