// Package chart computes layouts: of numbers over time, as stacked bars and as lines, of what agents
// did, and of a graph. It draws nothing; a template writes the SVG.
package chart

import (
	"fmt"
	"math"
	"slices"
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
	Agent  string // whose it is; empty for nobody's
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
	Class, Agent, Tip   string
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
				Class: s.Class, Agent: s.Agent, Tip: fmt.Sprintf("%s %s: %s", c.At(i).Format(layout(c.Step)), s.Name, c.format(v)),
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
		if d%min(c.Step, 24*time.Hour) == 0 && whole/d <= wantTimes+1 {
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
		moment, how := c.From.Add(at), layout(every)
		if whole > 24*time.Hour && moment.Hour()+moment.Minute() == 0 {
			how = layout(24 * time.Hour)
		}
		out = append(out, Tick{X: round(x(float64(at) / float64(c.Step))), Label: moment.Format(how)})
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

// Scale places moments between two others, in percent: what is drawn with it fits any width.
type Scale struct{ From, To time.Time }

// X returns the place of a moment, at most at the edges.
func (s Scale) X(at time.Time) float64 {
	return round(100 * min(1, max(0, float64(at.Sub(s.From))/float64(s.To.Sub(s.From)))))
}

// Ticks returns round moments, roughly wantTimes of them.
func (s Scale) Ticks() []Tick {
	const steps = 1000
	return Chart{From: s.From, Step: s.To.Sub(s.From) / steps}.times(steps, func(i float64) float64 { return 100 * i / steps })
}

// The heights in a lane, in pixels.
const (
	laneRow    = 22
	laneBar    = 16
	laneMargin = 4
	leastBar   = 0.4 // percent of the width, so that a short bar can be seen and hit
)

// Lane is what one agent did, as bars below each other where they overlap, and marks.
type Lane struct {
	Height int
	Strips []Strip
	Spots  []Spot
	rows   []time.Time // when the last bar of each row ends
	scale  Scale
}

// Strip is a bar with the lease that goes on behind it.
type Strip struct {
	X, Width, LeaseX, LeaseWidth Percent
	Y, Height                    int
}

// Spot is the place of a mark.
type Spot struct {
	X Percent
	Y int
}

// Percent is a length in a template.
type Percent float64

func (p Percent) String() string { return fmt.Sprintf("%.4g%%", float64(p)) }

// NewLane returns an empty lane.
func NewLane(s Scale) *Lane { return &Lane{scale: s, Height: laneRow + 2*laneMargin} }

// Bar adds a bar, in the first row that is free. Bars are added in the order of their beginnings.
// lease is when its lease ends; a lease that ends before the bar is not drawn.
func (l *Lane) Bar(from, to, lease time.Time) Strip {
	row := 0
	for row < len(l.rows) && l.rows[row].After(from) {
		row++
	}
	if row == len(l.rows) {
		l.rows = append(l.rows, to)
	}
	x, end := l.scale.X(from), l.scale.X(to)
	width := max(end-x, leastBar)
	x = min(x, 100-width)
	s := Strip{X: Percent(x), Width: Percent(width), Y: laneMargin + row*laneRow, Height: laneBar}
	if until := l.scale.X(lease); until > x+width {
		s.LeaseX, s.LeaseWidth = Percent(x+width), Percent(until-x-width)
	}
	l.rows[row] = later(to, l.scale.From.Add(time.Duration((x+width)/100*float64(l.scale.To.Sub(l.scale.From)))))
	l.Height = max(l.Height, 2*laneMargin+len(l.rows)*laneRow)
	l.Strips = append(l.Strips, s)
	return s
}

// Mark adds a mark on the row of a strip; nil for the first row.
func (l *Lane) Mark(at time.Time, on *Strip) Spot {
	y := laneMargin + laneBar/2
	if on != nil {
		y = on.Y + on.Height/2
	}
	s := Spot{X: Percent(l.scale.X(at)), Y: y}
	l.Spots = append(l.Spots, s)
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Graph shows what a node needs, above it, and what needs it, below: two rows each way.
type Graph struct {
	Width, Height int
	Nodes         []Node
	Edges         []string // the paths of arrows, from a node to one that needs it
	// Needs is all that the node needs itself, and NeededBy all that need it themselves.
	Needs, NeededBy []string
}

// Need is a node, and what it needs.
type Need struct {
	ID    string
	Needs []string
}

// Node is a node's place, its top left corner, in a graph.
type Node struct {
	ID   string
	X, Y int
	More int // instead of a node: how many are left out of this row
}

// The measures of a graph, in units of its drawing, and how many nodes a row has.
const (
	NodeWidth  = 140
	NodeHeight = 26
	nodeGap    = 12
	rowGap     = 26
	mostInRow  = 3
	mostRows   = 2
)

// NewGraph returns the graph around one of the nodes. What a node needs that is none of them is left
// out. The graph is empty if the node needs nothing and nothing needs it.
func NewGraph(self string, all []Need) Graph {
	needs, neededBy := make(map[string][]string, len(all)), make(map[string][]string)
	for _, n := range all {
		needs[n.ID] = nil
	}
	for _, n := range all {
		for _, id := range n.Needs {
			if _, known := needs[id]; known {
				needs[n.ID] = append(needs[n.ID], id)
				neededBy[id] = append(neededBy[id], n.ID)
			}
		}
	}
	g := Graph{Needs: needs[self], NeededBy: neededBy[self]}
	if len(g.Needs)+len(g.NeededBy) == 0 {
		return g
	}
	seen := map[string]bool{self: true}
	above, below := rowsOf(self, needs, seen), rowsOf(self, neededBy, seen)
	slices.Reverse(above)
	rows := slices.Concat(above, [][]string{{self}}, below)
	g.Width = mostInRow*(NodeWidth+nodeGap) + nodeGap
	g.Height = len(rows)*(NodeHeight+rowGap) - rowGap + 2
	at := make(map[string]Node)
	for i, row := range rows {
		shown := row[:min(len(row), mostInRow)]
		left := (g.Width - len(shown)*(NodeWidth+nodeGap) + nodeGap) / 2
		for j, id := range shown {
			n := Node{ID: id, X: left + j*(NodeWidth+nodeGap), Y: 1 + i*(NodeHeight+rowGap)}
			if j == mostInRow-1 && len(row) > mostInRow {
				n.More = len(row) - mostInRow + 1
			} else {
				at[id] = n
			}
			g.Nodes = append(g.Nodes, n)
		}
	}
	for _, n := range g.Nodes {
		if n.More > 0 {
			continue
		}
		for _, need := range needs[n.ID] {
			if from, ok := at[need]; ok && from.Y < n.Y {
				x1, y1, x2, y2 := from.X+NodeWidth/2, from.Y+NodeHeight, n.X+NodeWidth/2, n.Y
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+rowGap/2, x2, y2-rowGap/2, x2, y2))
			}
		}
	}
	return g
}

// rowsOf returns the nodes at one step from id, at two, and so on, each once.
func rowsOf(id string, next map[string][]string, seen map[string]bool) (rows [][]string) {
	from := []string{id}
	for range mostRows {
		var row []string
		for _, id := range from {
			for _, n := range next[id] {
				if !seen[n] {
					seen[n] = true
					row = append(row, n)
				}
			}
		}
		if len(row) == 0 {
			break
		}
		rows, from = append(rows, row), row
	}
	return rows
}
