package notion

import (
	"encoding/json"
	"math"
	"time"
	"unicode/utf16"

	"github.com/jomei/notionapi"
)

// value is the value of a property in a request. The library's own values cannot be empty,
// except texts and lists, and its dates have no milliseconds.
type value struct {
	kind    notionapi.PropertyType
	content any // the value without its type; nil clears the property
}

// GetID implements notionapi.Property. A value in a request has no id.
func (v value) GetID() string { return "" }

// GetType implements notionapi.Property.
func (v value) GetType() notionapi.PropertyType { return v.kind }

// MarshalJSON implements json.Marshaler.
func (v value) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[notionapi.PropertyType]any{v.kind: v.content})
}

// option returns the value of a select or status; the empty name clears it.
func option(kind notionapi.PropertyType, name string) value {
	if name == "" {
		return value{kind: kind}
	}
	return value{kind, named{name}}
}

// date returns the value of a point in time; the zero time clears it. Notion cuts it to the
// minute.
func date(t time.Time) value {
	if t.IsZero() {
		return value{kind: notionapi.PropertyTypeDate}
	}
	return value{notionapi.PropertyTypeDate, rawDate{Start: stamp(t)}}
}

// stamp formats a time with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// minutes returns the value of a duration in whole minutes, rounded up; zero clears it.
func minutes(d time.Duration) value {
	if d <= 0 {
		return value{kind: notionapi.PropertyTypeNumber}
	}
	return value{notionapi.PropertyTypeNumber, math.Ceil(d.Minutes())}
}

// text returns the value of a rich text; the empty text clears it.
func text(s string) value {
	return value{notionapi.PropertyTypeRichText, new(spanWriter).write(s)}
}

// The limits of texts.
const (
	spanLimit  = 2000    // UTF-16 code units in a span
	spansLimit = 100     // spans in a text
	sizeLimit  = 400_000 // bytes of text in a request; Notion takes requests of 500 KB
)

// spanWriter writes the texts of one request, and cuts off what does not fit.
type spanWriter struct{ size int }

// write splits s into spans.
func (w *spanWriter) write(s string) []notionapi.RichText {
	spans := []notionapi.RichText{}
	for s != "" && len(spans) < spansLimit {
		n := prefix(s, spanLimit)
		encoded, err := json.Marshal(s[:n])
		if err != nil || w.size+len(encoded) > sizeLimit {
			break
		}
		w.size += len(encoded)
		spans = append(spans, notionapi.RichText{Text: &notionapi.Text{Content: s[:n]}})
		s = s[n:]
	}
	return spans
}

// prefix returns the length, in bytes, of the longest prefix of s with at most n UTF-16 code
// units.
func prefix(s string, n int) int {
	for i, r := range s {
		if n -= max(1, utf16.RuneLen(r)); n < 0 {
			return i
		}
	}
	return len(s)
}
