// Package chart computes layouts: of numbers over time, as stacked bars and as lines, of what agents
// did, and of a graph. It draws nothing; a template writes the SVG.
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The size of a chart, in units of its view box, and the margins for its axes.
const (
	Width, Height            = 480, 170
	left, right, top, bottom = 40, 8, 10, 20
	plotWidth, plotHeight    = Width - left - right, Height - top - bottom
	gap                      = 0.25 // between bars, as a fraction of a step
	wantTimes                = 5
)

// Chart is a set of numbers over time. All series have one value for each step, oldest first.
type Chart struct {
	From        time.Time     // when the first step begins, in the zone of the labels
	Step        time.Duration // the length of a step
	Bars, Lines []Series
	// Format formats a value for people; nil writes plain numbers.
	Format func(float64) string
}

// Series is one row of numbers. NaN means no value.
type Series struct {
	Name   string
	Class  string // its class in the style sheet
	Values []float64
}

// Drawing is the layout of a chart.
type Drawing struct {
	Rows  []Tick // of the value axis: Y and Label
	Times []Tick // of the time axis: X and Label
	Bars  []Bar
	Lines []Line
	Empty bool // there is nothing to show
}

// Tick is a position on an axis.
type Tick struct {
	X, Y  float64
	Label string
}

// Bar is a rectangle.
type Bar struct {
	X, Y, Width, Height float64
	Class, Tip          string
}

// Line is an open path; Dots are values without neighbours.
type Line struct {
	Class, Path string
	Dots        []Tick
}

// Draw computes the layout.
func (c Chart) Draw() Drawing {
	steps, peak := 0, 0.0
	for _, s := range append(c.Bars[:len(c.Bars):len(c.Bars)], c.Lines...) {
		steps = max(steps, len(s.Values))
	}
	d := Drawing{Empty: true}
	if steps == 0 {
		return d
	}
	for i := range steps {
		sum := 0.0
		for _, s := range c.Bars {
			sum += s.at(i)
		}
		for _, s := range c.Lines {
			if i < len(s.Values) && !math.IsNaN(s.Values[i]) {
				peak, d.Empty = max(peak, s.Values[i]), false
			}
		}
		peak, d.Empty = max(peak, sum), d.Empty && sum == 0
	}
	unit := Unit(peak, 3)
	ceiling := max(unit, unit*math.Ceil(peak/unit))
	y := func(v float64) float64 { return top + plotHeight*(1-v/ceiling) }
	x := func(i float64) float64 { return left + plotWidth*i/float64(steps) }

	for v := 0.0; v <= ceiling*1.0001; v += unit {
		d.Rows = append(d.Rows, Tick{Y: round(y(v)), Label: c.label(v)})
	}
	d.Times = c.times(steps, x)
	for i := range steps {
		floor := 0.0
		for _, s := range c.Bars {
			v := s.at(i)
			if v <= 0 {
				continue
			}
			d.Bars = append(d.Bars, Bar{
				X: round(x(float64(i) + gap/2)), Width: round(plotWidth / float64(steps) * (1 - gap)),
				Y: round(y(floor + v)), Height: round(y(floor) - y(floor+v)),
				Class: s.Class, Tip: fmt.Sprintf("%s %s: %s", c.At(i).Format(layout(c.Step)), s.Name, c.format(v)),
			})
			floor += v
		}
	}
	for _, s := range c.Lines {
		d.Lines = append(d.Lines, s.line(x, y))
	}
	return d
}

// At returns when a step begins. Where a step is a day, its length differs when the clocks are set.
func (c Chart) At(i int) time.Time {
	const day = 24 * time.Hour
	return c.From.AddDate(0, 0, i*int(c.Step/day)).Add(time.Duration(i) * (c.Step % day))
}

func (c Chart) format(v float64) string {
	if c.Format != nil {
		return c.Format(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// label formats a value of the axis, where space is short.
func (c Chart) label(v float64) string {
	if c.Format == nil && v >= 10_000 {
		return c.format(v/1000) + "k"
	}
	return c.format(v)
}

// times returns the ticks of the time axis: round moments, roughly wantTimes of them.
func (c Chart) times(steps int, x func(float64) float64) []Tick {
	whole := time.Duration(steps) * c.Step
	every := whole
	for _, d := range []time.Duration{
		time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
		6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
	} {
		if whole/d <= wantTimes+1 {
			every = d
			break
		}
	}
	if every <= 0 {
		return nil
	}
	_, zone := c.From.Zone()
	since := time.Duration((c.From.Unix()+int64(zone))%int64(max(every, time.Second)/time.Second)) * time.Second
	var out []Tick
	for at := (every - since) % every; at < whole; at += every {
		out = append(out, Tick{X: round(x(float64(at) / float64(c.Step))), Label: c.From.Add(at).Format(layout(every))})
	}
	return out
}

// layout returns the format of moments so far apart.
func layout(apart time.Duration) string {
	if apart >= 24*time.Hour {
		return "Jan 2"
	}
	return "15:04"
}

// at returns a bar's value; zero for none.
func (s Series) at(i int) float64 {
	if i >= len(s.Values) || math.IsNaN(s.Values[i]) {
		return 0
	}
	return s.Values[i]
}

// line joins neighbouring values.
func (s Series) line(x, y func(float64) float64) Line {
	out := Line{Class: s.Class}
	var path strings.Builder
	none := func(i int) bool { return i < 0 || i >= len(s.Values) || math.IsNaN(s.Values[i]) }
	for i, v := range s.Values {
		if none(i) {
			continue
		}
		px, py := round(x(float64(i)+0.5)), round(y(v))
		switch {
		case none(i-1) && none(i+1):
			out.Dots = append(out.Dots, Tick{X: px, Y: py})
		case none(i - 1):
			fmt.Fprintf(&path, "M%g %g", px, py)
		default:
			fmt.Fprintf(&path, "L%g %g", px, py)
		}
	}
	out.Path = path.String()
	return out
}

// Unit returns the smallest round number (1, 2 or 5 times a power of ten) of which at most rows
// make peak. It is at least 1, as things are counted.
func Unit(peak float64, rows int) float64 {
	power := 1.0
	for {
		for _, n := range []float64{1, 2, 5} {
			if u := n * power; u*float64(rows) >= peak {
				return u
			}
		}
		power *= 10
	}
}

func round(v float64) float64 { return math.Round(v*10) / 10 }
