package board

import (
	"cmp"
	"context"
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
	Heads   []string // of the values
	Rows    []row    // the values as a table
}

// Key names the figure in addresses.
func (f figure) Key() string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(f.Title, ",", "")), " ", "-")
}

// table returns the values, with times as RFC 3339.
func (f figure) table() api.Table {
	t := api.Table{append([]string{"from"}, f.Heads...)}
	for _, r := range f.Rows {
		values := r.Values
		if r.Plain != nil {
			values = r.Plain
		}
		t = append(t, append([]string{r.At.UTC().Format(time.RFC3339)}, values...))
	}
	return t
}

// row is one step of a figure. Plain has the values for programs, if they differ.
type row struct {
	At            api.Time
	Values, Plain []string
}

func (b *Board) chartsPage(w http.ResponseWriter, r *http.Request) {
	hours, figures, step, ok := b.figures(w, r)
	if !ok {
		return
	}
	render(w, http.StatusOK, "charts.html", b.page("charts", "How it goes", b.state.current(), struct {
		Hours   int
		Spans   []int
		Step    time.Duration
		Figures []figure
	}{hours, spans, step, figures}))
}

// chartCSV answers with the numbers of one figure.
func (b *Board) chartCSV(w http.ResponseWriter, r *http.Request) {
	_, figures, _, ok := b.figures(w, r)
	if !ok {
		return
	}
	i := slices.IndexFunc(figures, func(f figure) bool { return f.Key() == r.URL.Query().Get("figure") })
	if i < 0 {
		b.say(w, http.StatusNotFound, "There is no such chart", "The page of charts has a link to the numbers of each.")
		return
	}
	attach(w, figures[i].Key(), figures[i].table())
}

// attach answers with a table as a file.
func attach(w http.ResponseWriter, name string, t api.Table) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=dibs-%s.csv", name))
	t.CSV(w)
}

// figures returns what the address asks for. ok is false if that was answered already.
func (b *Board) figures(w http.ResponseWriter, r *http.Request) (hours int, figures []figure, step time.Duration, ok bool) {
	hours, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("hours"), "0"))
	if err != nil || hours != 0 && !slices.Contains(spans, hours) {
		b.say(w, http.StatusNotFound, "There are no such charts", "Charts show the last hour, 6 or 24 hours, or the last 7 days.")
		return
	}
	if hours == 0 {
		hours, err = b.dataHours(r.Context())
	}
	var h api.History
	if err == nil {
		h, err = b.Daemon.History(r.Context(), hours, 60)
	}
	var week api.Report
	if err == nil {
		week, err = b.Daemon.Report(r.Context(), 7)
	}
	if err != nil {
		b.refuse(w, r, "charts", "How it goes", err)
		return
	}
	return hours, append(figuresOf(week), figuresOfHistory(h)...), time.Duration(h.StepSeconds) * time.Second, true
}

// dataHours returns the shortest span that has all that is known.
func (b *Board) dataHours(ctx context.Context) (int, error) {
	h, err := b.Daemon.History(ctx, spans[len(spans)-1], 500)
	if err != nil {
		return 0, err
	}
	first := len(h.Requests)
	for _, of := range append(slices.Collect(maps.Values(h.Denied)), h.Granted, h.Completed, h.Failed, h.Lost, h.Swept, h.Requests) {
		if i := slices.IndexFunc(of, func(n int) bool { return n > 0 }); i >= 0 {
			first = min(first, i)
		}
	}
	reach := time.Duration((len(h.Requests)-first)*h.StepSeconds) * time.Second
	for _, hours := range spans {
		if reach <= time.Duration(hours)*time.Hour {
			return hours, nil
		}
	}
	return spans[len(spans)-1], nil
}

// shownAgents is how many agents a chart tells apart.
const shownAgents = 5

// figuresOf returns the figures of a week.
func figuresOf(week api.Report) []figure {
	year, month, day := week.From.Local().Date()
	first := time.Date(year, month, day, 0, 0, 0, 0, time.Local)
	steps := int(week.To.Sub(first)/(24*time.Hour)) + 1
	agents := slices.SortedStableFunc(slices.Values(week.Agents), func(a, b api.AgentWork) int { return cmp.Compare(b.Completed, a.Completed) })
	agents = slices.DeleteFunc(agents, func(a api.AgentWork) bool { return a.Completed == 0 })
	var series []chart.Series
	of := make(map[string]int)
	for i, a := range agents {
		if i = min(i, shownAgents); i == len(series) {
			name := text(a.Agent, 80)
			if i == shownAgents {
				name = "others"
			}
			series = append(series, chart.Series{Name: name, Class: fmt.Sprintf("tone%d", i+1), Values: make([]float64, steps)})
		}
		of[a.Agent] = i
	}
	for _, d := range week.Days {
		at, err := time.ParseInLocation(time.DateOnly, d.Day, time.Local)
		i := int(at.Sub(first).Round(24*time.Hour) / (24 * time.Hour)) // a day may have 23 hours
		if err == nil && d.Completed > 0 && 0 <= i && i < steps {
			series[of[d.Agent]].Values[i] += float64(d.Completed)
		}
	}
	byDay := draw(first, 24*time.Hour, "Completed in seven days, by agent", "", chart.Chart{Bars: series})
	total := 0
	for _, a := range week.Agents {
		total += a.Completed
	}
	byDay.Says = fmt.Sprintf("%s completed", grouped(total))

	why := figure{Title: "Losses of seven days, and why", Says: "none", Heads: []string{"agent", "task", "how", "why"}}
	why.Drawing.Empty = true
	for _, l := range week.Losses {
		why.Rows = append(why.Rows, row{At: l.At, Values: []string{text(l.Agent, 80), text(l.Task.Title, maxTitle), l.How, text(l.Why, maxLine)}})
	}
	if n := len(why.Rows); n > 0 {
		why.Says = fmt.Sprintf("%d lost", n)
	}
	return []figure{byDay, why}
}

// figuresOfHistory returns the figures of the last hours.
func figuresOfHistory(h api.History) []figure {
	counted := func(name, class string, values []int) chart.Series {
		return chart.Series{Name: name, Class: class, Values: floats(values)}
	}
	var refused []chart.Series
	for i, code := range slices.Sorted(maps.Keys(h.Denied)) {
		refused = append(refused, counted(strings.ReplaceAll(code, "_", " "), fmt.Sprintf("tone%d", i%6+1), h.Denied[code]))
	}
	share := make([]float64, len(h.Requests))
	for i, n := range h.Requests {
		share[i] = 100 * float64(n) / float64(max(1, h.Budget))
	}
	draw := func(title, did string, c chart.Chart) figure {
		return draw(h.From.Local(), time.Duration(h.StepSeconds)*time.Second, title, did, c)
	}
	times := func(half, nine []*float64) chart.Chart {
		return chart.Chart{
			Lines:  []chart.Series{{Name: "median", Class: "tone1", Values: seconds(half)}, {Name: "nine of ten", Class: "tone3", Values: seconds(nine)}},
			Format: spoken,
		}
	}
	percent := func(v float64) string { return trim(v) + " %" }
	figures := []figure{
		draw("Claims", "granted", chart.Chart{Bars: []chart.Series{counted("granted", "tone1", h.Granted)}}),
		draw("Finished work", "finished", chart.Chart{Bars: []chart.Series{counted("completed", "tone2", h.Completed), counted("failed", "tone6", h.Failed)}}),
		draw("Backlog and held", "", chart.Chart{Lines: []chart.Series{{Name: "open", Class: "tone1", Values: seconds(h.Backlog)}, {Name: "held", Class: "tone2", Values: seconds(h.Held)}}, Format: trim}),
		draw("From open to claimed", "", times(h.WaitP50, h.WaitP90)),
		draw("From claimed to done", "", times(h.WorkP50, h.WorkP90)),
		draw("Claims that ended otherwise", "ended", chart.Chart{Bars: []chart.Series{counted("lost", "tone6", h.Lost), counted("swept", "tone4", h.Swept)}}),
		draw("Refusals", "refused", chart.Chart{Bars: refused}),
		draw("Share of the budget of requests", "", chart.Chart{Bars: []chart.Series{{Name: "of the budget", Class: "tone3", Values: share}}, Limit: 100, Format: percent}),
	}
	if slices.ContainsFunc(h.USD, func(v float64) bool { return v > 0 }) {
		figures = append(figures, draw("Money that agents reported", "", chart.Chart{Bars: []chart.Series{{Name: "US dollars", Class: "tone5", Values: h.USD}}, Format: func(v float64) string { return fmt.Sprintf("%.2f", v) }}))
	}
	if slices.ContainsFunc(h.Tokens, func(n int) bool { return n > 0 }) {
		figures = append(figures, draw("Tokens that agents reported", "used", chart.Chart{Bars: []chart.Series{counted("tokens", "tone4", h.Tokens)}}))
	}
	return figures
}

// draw makes a figure of a chart. did is the verb for the counted things; empty if they are not
// counted.
func draw(from time.Time, step time.Duration, title, did string, c chart.Chart) figure {
	c.From, c.Step = from, step
	f := figure{Title: title, Drawing: c.Draw(), Legend: slices.Concat(c.Bars, c.Lines)}
	write := c.Format
	if write == nil {
		write = func(v float64) string { return grouped(int(v)) }
	}
	var says []string
	steps := 0
	for _, s := range f.Legend {
		f.Heads = append(f.Heads, s.Name)
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
	if c.Limit > 0 && c.Format == nil {
		f.Says += fmt.Sprintf("; room for %s in each step", write(c.Limit))
	}
	for i := range steps {
		r := row{At: api.Time{Time: c.From.Add(time.Duration(i) * c.Step)}}
		some := false
		for _, s := range f.Legend {
			said, plain := "–", ""
			if i < len(s.Values) && !math.IsNaN(s.Values[i]) {
				said, some = write(s.Values[i]), some || s.Values[i] != 0
				plain = strconv.FormatFloat(s.Values[i], 'f', -1, 64)
			}
			r.Values, r.Plain = append(r.Values, said), append(r.Plain, plain)
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

// reportPage shows the report of the last days, to be printed.
func (b *Board) reportPage(w http.ResponseWriter, r *http.Request) {
	if report, ok := b.report(w, r); ok {
		days := int(report.To.Sub(report.From.Time).Round(24*time.Hour) / (24 * time.Hour))
		render(w, http.StatusOK, "report.html", b.page("charts", "Report", b.state.current(), struct {
			api.Report
			Length int
			Spans  []int
		}{report, days, []int{1, 7, 30}}))
	}
}

func (b *Board) reportCSV(w http.ResponseWriter, r *http.Request) {
	if report, ok := b.report(w, r); ok {
		attach(w, "report", report.Work())
	}
}

// report returns the report that the address asks for. ok is false if that was answered already.
func (b *Board) report(w http.ResponseWriter, r *http.Request) (report api.Report, ok bool) {
	days, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("days"), "7"))
	if err != nil || days < 1 || days > 366 {
		b.say(w, http.StatusNotFound, "There is no such report", "A report is about the last days, 1 to 366 of them.")
		return report, false
	}
	if report, err = b.Daemon.Report(r.Context(), days); err != nil {
		b.refuse(w, r, "charts", "Report", err)
	}
	return report, err == nil
}
