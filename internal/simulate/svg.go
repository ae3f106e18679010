package simulate

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// drawing is an SVG picture in progress. Positions and sizes are in pixels.
type drawing struct{ bytes.Buffer }

func newDrawing(width, height float64) *drawing {
	d := &drawing{}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="12">`, width, height)
	d.rectangle(0, 0, width, height, "#ffffff")
	return d
}

// done completes the picture and returns it.
func (d *drawing) done() []byte {
	d.printf("</svg>")
	return d.Bytes()
}

func (d *drawing) printf(format string, args ...any) {
	fmt.Fprintf(&d.Buffer, format+"\n", args...)
}

func (d *drawing) rectangle(x, y, width, height float64, color string) {
	d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, width, height, color)
}

// stroke is the style of a line; dashes are as in SVG's stroke-dasharray.
type stroke struct {
	color  string
	width  float64
	dashes string
}

func (s stroke) attributes() string {
	a := fmt.Sprintf(`stroke="%s" stroke-width="%g"`, s.color, s.width)
	if s.dashes != "" {
		a += fmt.Sprintf(` stroke-dasharray="%s"`, s.dashes)
	}
	return a
}

func (d *drawing) line(x1, y1, x2, y2 float64, s stroke) {
	d.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, s.attributes())
}

func (d *drawing) dot(x, y float64, color string) {
	d.printf(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, x, y, color)
}

// anchor says which point of a text its position is.
type anchor string

const (
	fromStart anchor = "start"
	middle    anchor = "middle"
	toEnd     anchor = "end"
)

// text writes s on one line, with further attributes.
func (d *drawing) text(x, y float64, a anchor, s string, attributes ...string) {
	all := strings.Join(append(attributes, `fill="`+black+`"`), " ")
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`, x, y, a, all, html.EscapeString(s))
}
