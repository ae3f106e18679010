package chart_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"dibs/internal/door/board/chart"
	"dibs/internal/testkit"
)

func TestUnit(t *testing.T) {
	for peak, want := range map[float64]float64{0: 1, 1: 1, 3: 1, 4: 2, 7: 5, 16: 10, 31: 20, 61: 50, 200: 100, 151: 100} {
		got := chart.Unit(peak, 3)
		testkit.Check(t, got == want, "Unit(%v, 3) = %v, want %v", peak, got, want)
	}
}

func TestDraw(t *testing.T) {
	from := time.Date(2026, 11, 22, 7, 50, 0, 0, time.UTC)
	none := math.NaN()
	d := chart.Chart{
		From: from, Step: 5 * time.Minute,
		Bars:  []chart.Series{{Name: "completed", Values: []float64{2, 0, 1, 0}}, {Name: "failed", Values: []float64{1, 0, 0, 0}}},
		Lines: []chart.Series{{Name: "median", Values: []float64{1, none, 2, 3}}},
	}.Draw()
	testkit.Require(t, !d.Empty && len(d.Bars) == 3 && len(d.Rows) >= 3, "drawing %+v", d)
	first, on := d.Bars[0], d.Bars[1]
	testkit.Check(t, first.X == on.X && math.Abs(on.Y+on.Height-first.Y) <= 0.11 && math.Abs(first.Height-2*on.Height) <= 0.11,
		"bars do not stand on each other: %+v, %+v", first, on)
	testkit.Check(t, first.Tip == "07:50 completed: 2", "a bar says %q", first.Tip)
	if line := d.Lines[0]; len(line.Dots) != 1 || line.Path == "" || line.Path[0] != 'M' {
		t.Errorf("the value without neighbours is no dot, or the others are no line: %+v", line)
	}
	testkit.Check(t, d.Times[0].Label == "07:50" || d.Times[0].Label == "07:55" || d.Times[0].Label == "08:00",
		"times begin with %+v", d.Times[0])
}

func TestLargeNumbersFitTheAxis(t *testing.T) {
	d := chart.Chart{Step: time.Minute, Bars: []chart.Series{{Name: "requests", Values: []float64{25_000, 3}}}}.Draw()
	if last := d.Rows[len(d.Rows)-1]; last.Label != "30k" || d.Bars[0].Tip != "00:00 requests: 25000" {
		t.Errorf("the axis ends with %q, and a bar says %q", last.Label, d.Bars[0].Tip)
	}
}

func TestNothingToDraw(t *testing.T) {
	for _, c := range []chart.Chart{{}, {Step: time.Minute, Bars: []chart.Series{{Values: []float64{0, 0}}}}, {Step: time.Minute, Lines: []chart.Series{{Values: []float64{math.NaN()}}}}} {
		testkit.Check(t, c.Draw().Empty, "%+v is not empty", c)
	}
}

// Where the clocks are set, a day has another length, and the next begins at midnight all the same.
func TestDaysBeginAtMidnight(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	c := chart.Chart{From: time.Date(2026, 10, 24, 0, 0, 0, 0, zone), Step: 24 * time.Hour}
	at := c.At(2)
	testkit.Check(t, at.Format(time.DateTime) == "2026-10-26 00:00:00", "the third day begins at %v", at)
	c.Step = time.Hour
	at = c.At(27)
	testkit.Check(t, at.Equal(c.From.Add(27*time.Hour)), "the 28th hour begins at %v", at)
}

// TestGraph draws a node that needs two others, of which one is gone. Five nodes need it, and in the
// end it needs one of these. Rows stay short, and every node is in the drawing once.
func TestGraph(t *testing.T) {
	all := []chart.Need{{ID: "first", Needs: []string{"late3"}}, {ID: "self", Needs: []string{"first", "gone"}}, {ID: "alone", Needs: []string{"gone"}}}
	for i := range 5 {
		all = append(all, chart.Need{ID: fmt.Sprint("late", i), Needs: []string{"self"}})
	}
	g := chart.NewGraph("self", all)
	testkit.Check(t, len(g.Needs) == 1 && len(g.NeededBy) == 5, "it needs %v, and %v need it; want 1 and 5", g.Needs, g.NeededBy)
	seen, more := make(map[string]bool), 0
	for _, n := range g.Nodes {
		if more += n.More; n.More == 0 && seen[n.ID] {
			t.Errorf("%s is drawn twice", n.ID)
		}
		seen[n.ID] = true
		testkit.Check(t, n.X >= 0 && n.X+chart.NodeWidth <= g.Width && n.Y+chart.NodeHeight <= g.Height,
			"%+v is outside of %d × %d", n, g.Width, g.Height)
	}
	// Above: late3, which first needs, then first; below: two of those four that are left.
	testkit.Check(t, len(g.Nodes) == 6 && more == 2 && len(g.Edges) == 4,
		"%d nodes, %d left out, arrows %s", len(g.Nodes), more, strings.Join(g.Edges, " "))
	g = chart.NewGraph("alone", all)
	testkit.Check(t, len(g.Nodes) == 0, "a node alone is drawn: %+v", g)
}
