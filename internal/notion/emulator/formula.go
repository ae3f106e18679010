package emulator

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// named matches the properties in a formula.
var named = regexp.MustCompile(`prop\(("(?:[^"\\]|\\.)*")\)`)

// addMinutes is the only formula computed here: a time plus minutes, which may come from another
// property.
var addMinutes = regexp.MustCompile(`^dateAdd\(prop\(("(?:[^"\\]|\\.)*")\), ?` +
	`(?:if\(prop\(("(?:[^"\\]|\\.)*")\) ?> ?0, ?prop\(("(?:[^"\\]|\\.)*")\), ?(\d+)\)|(\d+)), ?"minutes"\)$`)

// expression returns a property's formula.
func (p property) expression() string {
	var c struct {
		Expression string `json:"expression"`
	}
	if json.Unmarshal(p.Config, &c) != nil {
		return ""
	}
	return strings.TrimSpace(c.Expression)
}

// checkFormula returns an error if a formula names a property that does not exist.
func (s *source) checkFormula(p property) error {
	if p.Type != "formula" {
		return nil
	}
	for _, m := range named.FindAllStringSubmatch(p.expression(), -1) {
		name := unquoted(m[1])
		if _, ok := s.property(name); !ok {
			return invalid("Could not find property with name or id: %s", name)
		}
	}
	return nil
}

func unquoted(s string) string {
	name, err := strconv.Unquote(s)
	if err != nil {
		return s
	}
	return name
}

// formula returns a formula's result on a page.
func (w *world) formula(p *page, prop property) map[string]any {
	m := addMinutes.FindStringSubmatch(prop.expression())
	s := w.source(p)
	if m == nil || s == nil {
		return map[string]any{"type": "string", "string": nil}
	}
	none := map[string]any{"type": "date", "date": nil}
	value := func(quoted string) value {
		of, _ := s.property(unquoted(quoted))
		return p.Values[of.ID]
	}
	from := value(m[1]).Date
	if from == nil {
		return none
	}
	at, _, ok := parseMoment(from.Start, time.UTC)
	if !ok {
		return none
	}
	minutes, _ := strconv.ParseFloat(m[4]+m[5], 64)
	if m[2] != "" && m[2] == m[3] {
		if n, ok := value(m[2]).float(); ok && n > 0 {
			minutes = n
		}
	}
	end := date{Start: at.Add(time.Duration(minutes * float64(time.Minute))).Format(shownLayout)}
	return map[string]any{"type": "date", "date": end.encode()}
}
