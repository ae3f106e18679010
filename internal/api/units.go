package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
)

// Time is a moment by this machine's clock. In JSON it is RFC 3339 in UTC, to the millisecond. The
// broker converts it from Notion's time.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time as a string.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// The most that a claim may be said to have used: more is a mistake, and sums stay far from where
// numbers end.
const (
	MaxTokens = 1_000_000_000_000
	MaxUSD    = 1_000_000
)

// micro is how many of claim.Usage.Micros make a US dollar.
const micro = 1_000_000

// Usage is what was used.
type Usage struct {
	Tokens int64   `json:"tokens,omitempty" minimum:"0" maximum:"1000000000000" doc:"Tokens of a model, in and out"`
	USD    float64 `json:"usd,omitempty" minimum:"0" maximum:"1000000" doc:"Money in US dollars, kept to the millionth"`
}

// Used is part of the requests with which an agent may report what it used, and what it changed.
type Used struct {
	Usage *Usage `json:"usage,omitempty" doc:"What was used for the task since it was claimed, in all: of several reports, the larger numbers count"`

	Files []string `json:"files,omitempty" fit:"exact" maxItems:"32" doc:"With the end of a claim: the files that this attempt changed, by their paths from the top of the repository, or folders such as src/ for more of them; later attempts are told"`
}

// Spent returns what was reported.
func (u Used) Spent() claim.Usage { return u.Usage.Report() }

// NewUsage returns u for the wire; nil if nothing was used.
func NewUsage(u claim.Usage) *Usage {
	if u.None() {
		return nil
	}
	return &Usage{Tokens: u.Tokens, USD: USD(u.Micros)}
}

// USD returns millionths of a US dollar as dollars.
func USD(micros int64) float64 { return float64(micros) / micro }

// Micros returns US dollars in whole millionths.
func Micros(usd float64) int64 { return int64(math.Round(usd * micro)) }

// Report returns u as a report; one of nothing if u is nil.
func (u *Usage) Report() claim.Usage {
	if u == nil {
		return claim.Usage{}
	}
	return claim.Usage{Tokens: u.Tokens, Micros: Micros(u.USD)}
}

// ParseUsage reads what was used as people and programs write it: tokens=N,usd=X, or one of the
// two, or a Usage as JSON.
func ParseUsage(text string) (*Usage, error) {
	u := new(Usage)
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") {
		in := json.NewDecoder(bytes.NewBufferString(text))
		in.DisallowUnknownFields()
		if err := in.Decode(u); err != nil {
			return nil, fmt.Errorf(`want {"tokens":N,"usd":X}: %w`, err)
		}
		if _, err := in.Token(); err != io.EOF {
			return nil, fmt.Errorf(`want {"tokens":N,"usd":X}, and nothing after it`)
		}
		return u.valid()
	}
	met := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		var err error
		switch name {
		case "tokens":
			u.Tokens, err = strconv.ParseInt(value, 10, 64)
		case "usd":
			u.USD, err = strconv.ParseFloat(value, 64)
		default:
			return nil, fmt.Errorf("%q: want tokens=N,usd=X", part)
		}
		if err != nil || met[name] {
			return nil, fmt.Errorf("%q: want one number, as in tokens=12000,usd=0.42", part)
		}
		met[name] = true
	}
	return u.valid()
}

// valid returns u, or why it cannot be.
func (u *Usage) valid() (*Usage, error) {
	switch {
	case u.Tokens < 0 || u.Tokens > MaxTokens:
		return nil, fmt.Errorf("tokens=%d: want 0 to %d", u.Tokens, int64(MaxTokens))
	case !(u.USD >= 0 && u.USD <= MaxUSD): // neither is true of NaN
		return nil, fmt.Errorf("usd=%s: want 0 to %d", strconv.FormatFloat(u.USD, 'f', -1, 64), MaxUSD)
	}
	return u, nil
}

// String returns u for people: 12000 tokens, 0.42 USD.
func (u Usage) String() string {
	var parts []string
	if u.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", u.Tokens))
	}
	if u.USD > 0 || u.Tokens == 0 {
		parts = append(parts, Dollars(u.USD))
	}
	return strings.Join(parts, ", ")
}

// Dollars returns an amount for people, to the cent or finer: 0.40 USD.
func Dollars(usd float64) string {
	text := strconv.FormatFloat(usd, 'f', -1, 64)
	if whole, cents, _ := strings.Cut(text, "."); len(cents) < 2 {
		text = whole + "." + (cents + "00")[:2]
	}
	return text + " USD"
}
