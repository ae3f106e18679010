package chart

import (
	"fmt"
	"time"
)

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
