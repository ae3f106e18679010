package bench_test

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"text/tabwriter"
)

// table collects the benchmarks' figures, to print them for people at the end. Programs read the
// benchmarks' own lines.
type table struct {
	order []string // names of benchmarks
	rows  map[string][]figure
}

type figure struct {
	unit  string
	value float64
}

var figures = table{rows: make(map[string][]figure)}

// put reports one figure of a benchmark.
func (t *table) put(b *testing.B, value float64, unit string) {
	b.ReportMetric(value, unit)
	name := strings.TrimPrefix(b.Name(), "Benchmark")
	if _, known := t.rows[name]; !known {
		t.order = append(t.order, name)
	}
	t.rows[name] = append(t.rows[name], figure{unit, value})
}

// print writes the table: rows with the same columns share a heading.
func (t *table) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	widest, heading := 0, ""
	for _, name := range t.order {
		widest = max(widest, len(name))
	}
	for _, name := range t.order {
		units, values := "", ""
		for _, f := range t.rows[name] {
			units += f.unit + "\t"
			values += number(f.value) + "\t"
		}
		if units != heading {
			fmt.Fprintf(out, "\n%*s\t%s\n", widest, "", units)
			heading = units
		}
		fmt.Fprintf(out, "%-*s\t%s\n", widest, name, values)
	}
	return out.Flush()
}

// number formats three digits, or more before the point.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size == 0 || size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
