package board

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/board/chart"
)

// spans are the periods that charts can show, in hours.
var spans = []int{1, 6, 24, 168}

// figure is a chart with its description.
type figure struct {
	Title   string
	Says    string // a summary in one line
	Legend  []chart.Series
	Drawing chart.Drawing
	Times   []api.Time
	Rows    []row // the values as a table
	Empty   string
}

// row is one step of a figure, as numbers.
type row struct {
	At     api.Time
	Values []string
}

func (b *Board) chartsPage(w http.ResponseWriter, r *http.Request) {
	hours, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("hours"), "6"))
	if err != nil || !slices.Contains(spans, hours) {
		b.say(w, http.StatusNotFound, "There are no such charts", "Charts show the last hour, 6 or 24 hours, or the last 7 days.")
		return
	}
	h, err := b.Daemon.History(r.Context(), hours, 60)
	if err != nil {
		b.refuse(w, r, "charts", "Charts", err)
		return
	}
	render(w, http.StatusOK, "charts.html", b.page("charts", "Charts", b.state.current(), struct {
		Hours   int
		Spans   []int
		Step    time.Duration
		Figures []figure
	}{hours, spans, time.Duration(h.StepSeconds) * time.Second, figuresOf(h)}))
}

func figuresOf(h api.History) []figure {
	counted := func(name, class string, values []int) chart.Series {
		return chart.Series{Name: name, Class: class, Values: floats(values)}
	}
	var refused []chart.Series
	for i, code := range slices.Sorted(maps.Keys(h.Denied)) {
		refused = append(refused, counted(strings.ReplaceAll(code, "_", " "), fmt.Sprintf("tone%d", i%6+1), h.Denied[code]))
	}
	return []figure{
		draw(h, "Claims", "granted", chart.Chart{Bars: []chart.Series{counted("granted", "tone1", h.Granted)}}),
		draw(h, "Finished work", "finished", chart.Chart{Bars: []chart.Series{counted("completed", "tone2", h.Completed), counted("failed", "tone6", h.Failed)}}),
		draw(h, "Refusals", "refused", chart.Chart{Bars: refused}),
		draw(h, "Lost races", "lost", chart.Chart{Bars: []chart.Series{counted("lost", "tone5", h.Denied["lost_race"])}}),
		draw(h, "Claims that ended otherwise", "ended", chart.Chart{Bars: []chart.Series{counted("lost", "tone6", h.Lost), counted("swept", "tone4", h.Swept)}}),
		draw(h, "Waiting time of tasks", "", chart.Chart{
			Lines:  []chart.Series{{Name: "median", Class: "tone1", Values: seconds(h.WaitP50)}, {Name: "nine of ten", Class: "tone3", Values: seconds(h.WaitP90)}},
			Format: spoken,
		}),
		draw(h, "Requests to Notion", "sent", chart.Chart{Bars: []chart.Series{counted("requests", "tone3", h.Requests)}, Limit: float64(h.Budget)}),
	}
}

// draw makes a figure of a chart. did is the verb for the counted things; empty if they are not
// counted.
func draw(h api.History, title, did string, c chart.Chart) figure {
	c.From, c.Step = h.From.Local(), time.Duration(h.StepSeconds)*time.Second
	f := figure{Title: title, Drawing: c.Draw(), Legend: slices.Concat(c.Bars, c.Lines)}
	write := c.Format
	if write == nil {
		write = func(v float64) string { return grouped(int(v)) }
	}
	var says []string
	steps := 0
	for _, s := range f.Legend {
		sum, last := 0.0, math.NaN()
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				sum, last = sum+v, v
			}
		}
		steps = max(steps, len(s.Values))
		switch {
		case did != "":
			says = append(says, fmt.Sprintf("%s %s", write(sum), s.Name))
		case !math.IsNaN(last):
			says = append(says, fmt.Sprintf("%s last %s", s.Name, write(last)))
		}
	}
	f.Says = cmp.Or(strings.Join(says, ", "), "nothing")
	if c.Limit > 0 {
		f.Says += fmt.Sprintf("; room for %s in each step", write(c.Limit))
	}
	for i := range steps {
		r := row{At: api.Time{Time: c.From.Add(time.Duration(i) * c.Step)}}
		some := false
		for _, s := range f.Legend {
			said := "–"
			if i < len(s.Values) && !math.IsNaN(s.Values[i]) {
				said, some = write(s.Values[i]), some || s.Values[i] != 0
			}
			r.Values = append(r.Values, said)
		}
		if some {
			f.Rows = append(f.Rows, r)
		}
	}
	return f
}

// grouped formats a number with thousands separators.
func grouped(n int) string {
	out := strconv.Itoa(n)
	for i := len(out) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return out
}

func floats(of []int) []float64 {
	out := make([]float64, len(of))
	for i, n := range of {
		out[i] = float64(n)
	}
	return out
}

func seconds(of []*float64) []float64 {
	out := make([]float64, len(of))
	for i, v := range of {
		if out[i] = math.NaN(); v != nil {
			out[i] = *v
		}
	}
	return out
}

// spoken formats a number of seconds in the largest unit that fits.
func spoken(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 3600:
		return trim(seconds/60) + " min"
	case seconds < 48*3600:
		return trim(seconds/3600) + " h"
	}
	return trim(seconds/86400) + " d"
}

func trim(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
