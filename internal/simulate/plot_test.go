package simulate_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/simulate"
)

// drawn counts the elements of a picture.
type drawn struct {
	texts []string
	count map[string]int // elements by name, dashed lines by their dashes
}

// read parses an SVG picture, which must be well formed and stay within its size.
func read(t *testing.T, svg []byte) drawn {
	t.Helper()
	d := drawn{count: make(map[string]int)}
	var width, height float64
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for depth := 0; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth++; depth == 1 && (token.Name.Local != "svg" || token.Name.Space != "http://www.w3.org/2000/svg") {
				t.Fatalf("the picture begins with %v", token.Name)
			}
			d.count[token.Name.Local]++
			for _, a := range token.Attr {
				name := a.Name.Local
				if name == "stroke-dasharray" {
					d.count[a.Value]++
				}
				if !strings.Contains("width height x y x1 x2 y1 y2 cx cy", name) {
					continue
				}
				v, err := strconv.ParseFloat(a.Value, 64)
				switch {
				case err != nil:
					t.Errorf("%s: %s=%q is not a number", token.Name.Local, name, a.Value)
				case depth == 1 && name == "width":
					width = v
				case depth == 1 && name == "height":
					height = v
				case !(v >= 0 && v <= max(width, height)), strings.Contains(name, "x") && v > width, strings.Contains(name, "y") && v > height:
					t.Errorf("%s: %s=%v is outside the picture of %v by %v", token.Name.Local, name, v, width, height)
				}
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				d.texts = append(d.texts, s)
			}
		}
	}
}

func TestPlot(t *testing.T) {
	o := options()
	o.Races = 20
	o.Settles = []time.Duration{0, time.Second, 3 * time.Second}
	d := read(t, run(t, o).Plot())
	text := strings.Join(d.texts, "\n")
	for _, want := range []string{
		"Share of races (%)", "Time from asking to being granted (s)", "settle wait of dibs (s)",
		"double grants", "lost writes", "no winner", "median", "99th percentile",
		"write, read back at once", "name as token", "lowest comment id",
		"2..8 claimers", "latency min=90ms", "seed 1", "not longer than the write window",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	// Six lines of dibs, with a dot for each settle wait.
	if got := d.count["circle"]; got != 6*len(o.Settles) {
		t.Errorf("%d dots, want %d", got, 6*len(o.Settles))
	}
	// Three protocols by hand, in two panels and their legends.
	if got := d.count["2 3"]; got != 3*2*2 {
		t.Errorf("%d lines of protocols by hand, want 12", got)
	}
}

// Reports with only equal, zero or odd values can be drawn, too.
func TestPlotOfLittle(t *testing.T) {
	for name, r := range map[string]simulate.Report{
		"zeros":  {WriteWindowSeconds: 2, Rows: []simulate.Row{{Protocol: "dibs", SettleSeconds: new(0.0)}}},
		"ones":   {WriteWindowSeconds: 2, Rows: []simulate.Row{{Protocol: "dibs", SettleSeconds: new(1.0), DoubleRate: 1, P50Seconds: 1}}},
		"tiny":   {WriteWindowSeconds: 0.001, Rows: []simulate.Row{{Protocol: "dibs", SettleSeconds: new(0.002), DoubleRate: 1e-6}}},
		"huge":   {WriteWindowSeconds: 200, Rows: []simulate.Row{{Protocol: "dibs", SettleSeconds: new(1500.0), P99Seconds: 2900}}},
		"escape": {WriteWindowSeconds: 2, Rows: []simulate.Row{{Protocol: "dibs", SettleSeconds: new(3.0)}, {Protocol: `<&">`}}},
	} {
		t.Run(name, func(t *testing.T) { read(t, r.Plot()) })
	}
}
