package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The picture has two panels with the same x axis, one above the other, and a legend beside each.
const (
	plotWidth, plotHeight = 900, 640
	plotLeft, plotRight   = 70, 620
	legendLeft            = plotRight + 25
)

// Colors for all kinds of color vision.
const (
	black, grey, pale   = "#222222", "#777777", "#dddddd"
	blue, orange        = "#0072b2", "#d55e00"
	green, purple, rose = "#009e73", "#cc79a7", "#fdf0ee"
)

// series is a line of a panel: a value for each settle wait.
type series struct {
	label  string
	values []float64
	stroke stroke
	// flat is set for a protocol without a settle wait, which has one value.
	flat bool
}

// group is the series under one heading of the legend.
type group struct {
	heading string
	series  []series
}

// panel is one diagram of the picture.
type panel struct {
	title       string
	top, bottom float64
	groups      []group
}

// axis maps values from 0 to end to positions between from and to.
type axis struct{ end, from, to float64 }

func (a axis) at(value float64) float64 { return a.from + value/a.end*(a.to-a.from) }

// Plot draws the report as an SVG picture: the rates of failures and the time of claiming, by
// settle wait.
func (r Report) Plot() []byte {
	var dibs, byHand []Row
	for _, row := range r.Rows {
		if row.SettleSeconds == nil {
			byHand = append(byHand, row)
		} else {
			dibs = append(dibs, row)
		}
	}
	settles := values(dibs, func(row Row) float64 { return *row.SettleSeconds })
	double := func(row Row) float64 { return 100 * row.DoubleRate }
	median := func(row Row) float64 { return row.P50Seconds }

	d := newDrawing(plotWidth, plotHeight)
	d.text(plotLeft, 26, fromStart, "Races for one task, by settle wait", `font-size="17"`, `font-weight="bold"`)
	d.text(plotLeft, 46, fromStart, fmt.Sprintf("%d races a point, %s claimers starting within %gs, %s of writes late, latency %s, seed %d",
		r.Races, r.Claimers, r.SpreadSeconds, number(100*r.Late)+"%", r.Latency, r.Seed))
	x := axis{end: 1.04 * max(slices.Max(settles), r.WriteWindowSeconds), from: plotLeft, to: plotRight}
	for _, p := range []panel{
		{"Share of races (%)", 80, 310, []group{
			{"dibs", []series{
				{"double grants", values(dibs, double), stroke{blue, 2.5, ""}, false},
				{"lost writes", values(dibs, func(row Row) float64 { return 100 * row.LostRate }), stroke{orange, 1.5, ""}, false},
				{"lost writes not repaired", values(dibs, func(row Row) float64 { return 100 * row.NotRepairedRate }), stroke{orange, 1.5, "6 4"}, false},
				{"no winner", values(dibs, func(row Row) float64 { return 100 * row.NoWinnerRate }), stroke{grey, 1.5, ""}, false},
			}},
			{"by hand: double grants", each(byHand, double)},
		}},
		{"Time from asking to being granted (s)", 370, 565, []group{
			{"dibs", []series{
				{"median", values(dibs, median), stroke{blue, 2.5, ""}, false},
				{"99th percentile", values(dibs, func(row Row) float64 { return row.P99Seconds }), stroke{blue, 1.5, "6 4"}, false},
			}},
			{"by hand: median", each(byHand, median)},
		}},
	} {
		p.draw(d, x, settles, r.WriteWindowSeconds)
	}
	d.text((plotLeft+plotRight)/2, 610, middle, "settle wait of dibs (s)")
	d.rectangle(legendLeft, 602, 26, 10, rose)
	d.text(legendLeft+34, 611, fromStart, "not longer than the write window:")
	d.text(legendLeft+34, 626, fromStart, "refused, unless exclusive")
	return d.done()
}

// values returns of(row) for each row.
func values(rows []Row, of func(Row) float64) (all []float64) {
	for _, row := range rows {
		all = append(all, of(row))
	}
	return all
}

// each makes a flat series of each row.
func each(rows []Row, of func(Row) float64) (all []series) {
	for i, row := range rows {
		color := []string{green, purple, black}[i%3]
		all = append(all, series{row.Protocol, []float64{of(row)}, stroke{color, 1.5, "2 3"}, true})
	}
	return all
}

// draw draws the panel and its legend.
func (p panel) draw(d *drawing, x axis, settles []float64, window float64) {
	highest := 0.0
	for _, g := range p.groups {
		for _, s := range g.series {
			highest = max(highest, slices.Max(s.values))
		}
	}
	step := tick(highest, 5)
	y := axis{end: step * max(1, math.Ceil(highest/step)), from: p.bottom, to: p.top}

	d.rectangle(plotLeft, p.top, x.at(window)-plotLeft, p.bottom-p.top, rose)
	d.text(plotLeft, p.top-10, fromStart, p.title, `font-weight="bold"`)
	for v := 0.0; v <= y.end+step/2; v += step {
		d.line(plotLeft, y.at(v), plotRight, y.at(v), stroke{pale, 1, ""})
		d.text(plotLeft-8, y.at(v)+4, toEnd, number(v))
	}
	for v, step := 0.0, tick(x.end, 8); v <= x.end; v += step {
		d.line(x.at(v), p.bottom, x.at(v), p.bottom+5, stroke{black, 1, ""})
		d.text(x.at(v), p.bottom+18, middle, number(v))
	}
	d.line(plotLeft, p.bottom, plotRight, p.bottom, stroke{black, 1, ""})
	d.line(plotLeft, p.top, plotLeft, p.bottom, stroke{black, 1, ""})

	// Drawn in reverse: the first series matters most and lies on top.
	for _, g := range slices.Backward(p.groups) {
		for _, s := range slices.Backward(g.series) {
			s.draw(d, x, y, settles)
		}
	}
	at := p.top + 5
	for _, g := range p.groups {
		d.text(legendLeft, at, fromStart, g.heading, `font-weight="bold"`)
		at += 20
		for _, s := range g.series {
			d.line(legendLeft, at-4, legendLeft+26, at-4, s.stroke)
			d.text(legendLeft+34, at, fromStart, s.label)
			at += 20
		}
		at += 8
	}
}

func (s series) draw(d *drawing, x, y axis, settles []float64) {
	if s.flat {
		d.line(plotLeft, y.at(s.values[0]), plotRight, y.at(s.values[0]), s.stroke)
		return
	}
	for i, v := range s.values {
		if i > 0 {
			d.line(x.at(settles[i-1]), y.at(s.values[i-1]), x.at(settles[i]), y.at(v), s.stroke)
		}
		d.dot(x.at(settles[i]), y.at(v), s.stroke.color)
	}
}

// tick returns a round distance that divides 0 to end into about n parts.
func tick(end float64, n float64) float64 {
	if end <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(end/n)))
	for _, m := range []float64{1, 2, 5} {
		if end/(m*power) <= n {
			return m * power
		}
	}
	return 10 * power
}

// number formats a value without the noise of binary fractions.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
