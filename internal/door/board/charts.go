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
	"dibs/internal/api/client"
	"dibs/internal/door/board/chart"
	"dibs/internal/task"
)

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

// chartDays are how many days charts can show: one by hour, more by day.
var chartDays = []int{1, 7, 30}

func (b *Board) chartsPage(w http.ResponseWriter, r *http.Request) {
	if report, days, ok := b.charted(w, r); ok {
		now := b.state.current()
		render(w, http.StatusOK, "charts.html", b.page("charts", "How it goes", now, struct {
			Days    int
			Spans   []int
			Figures []figure
		}{days, chartDays, figuresOf(report, now.Cards)}))
	}
}

// chartCSV answers with the numbers of one figure.
func (b *Board) chartCSV(w http.ResponseWriter, r *http.Request) {
	report, _, ok := b.charted(w, r)
	if !ok {
		return
	}
	figures := figuresOf(report, nil)
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

// charted returns the report of the days that the address asks for: of a week, or of a day if
// nothing happened before. ok is false if that was answered already.
func (b *Board) charted(w http.ResponseWriter, r *http.Request) (report api.Report, days int, ok bool) {
	days, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("days"), "0"))
	if err != nil || days != 0 && !slices.Contains(chartDays, days) {
		b.say(w, http.StatusNotFound, "There are no such charts", "Charts show 24 hours, 7 days or 30 days.")
		return report, 0, false
	}
	report, err = client.Do(r.Context(), b.Daemon, api.OpReport, api.ReportInput{Days: cmp.Or(days, 7)})
	if err == nil && days == 0 {
		days = 7
		if i := slices.IndexFunc(report.Days, func(p api.Period) bool { return p.Granted+len(p.Denied)+len(p.Agents) > 0 }); i < 0 || i == len(report.Days)-1 {
			days = 1
			report, err = client.Do(r.Context(), b.Daemon, api.OpReport, api.ReportInput{Days: days})
		}
	}
	if err != nil {
		b.refuse(w, r, "charts", "How it goes", err)
	}
	return report, days, err == nil
}

// shownAgents is how many agents a chart tells apart.
const shownAgents = 5

// figuresOf returns the figures of a report: by hour if it has hours. Their last values are those of
// now, as the cards have them.
func figuresOf(report api.Report, cards []card) []figure {
	year, month, day := report.From.Local().Date()
	periods, from, step := report.Days, time.Date(year, month, day, 0, 0, 0, 0, time.Local), 24*time.Hour
	if len(report.Hours) > 0 {
		periods, from, step = report.Hours, report.From.Local().Truncate(time.Hour), time.Hour
	}
	counted := func(name, class string, of func(api.Period) float64) chart.Series {
		s := chart.Series{Name: name, Class: class, Values: make([]float64, len(periods))}
		for i, p := range periods {
			s.Values[i] = of(p)
		}
		return s
	}
	draw := func(title, did string, c chart.Chart) figure { return draw(from, step, title, did, c) }

	agents := slices.SortedStableFunc(slices.Values(report.Agents), func(a, b api.AgentWork) int { return cmp.Compare(b.Completed, a.Completed) })
	agents = slices.DeleteFunc(agents, func(a api.AgentWork) bool { return a.Completed == 0 })
	shown := make(map[string]int)
	total := 0
	for i, a := range agents {
		shown[a.Agent] = min(i, shownAgents)
		total += a.Completed
	}
	var byAgent []chart.Series
	for i, a := range agents[:min(len(agents), shownAgents+1)] {
		name := text(a.Agent, 80)
		if i == shownAgents {
			name = "others"
		}
		byAgent = append(byAgent, counted(name, fmt.Sprintf("tone%d", i+1), func(p api.Period) (n float64) {
			for _, a := range p.Agents {
				if at, ok := shown[a.Agent]; ok && at == i {
					n += float64(a.Completed)
				}
			}
			return n
		}))
	}
	completed := draw("Completed, by agent", "", chart.Chart{Bars: byAgent})
	completed.Says = grouped(total) + " completed"

	why := figure{Title: "Losses, and why", Says: "none", Heads: []string{"agent", "task", "how", "why"}}
	why.Drawing.Empty = true
	for _, l := range report.Losses {
		why.Rows = append(why.Rows, row{At: l.At, Values: []string{text(l.Agent, 80), text(l.Task.Title, maxTitle), l.How, text(l.Why, maxLine)}})
	}
	if n := len(why.Rows); n > 0 {
		why.Says = fmt.Sprintf("%d lost", n)
	}

	held := draw("Held at a time", "", chart.Chart{Lines: []chart.Series{counted("held", "tone2", func(p api.Period) float64 { return p.Held })}, Format: trim})
	in := func(column task.Status) (n int) {
		for _, c := range cards {
			if c.Column == string(column) {
				n++
			}
		}
		return n
	}
	held.Says = fmt.Sprintf("now %d held and %d open", in(task.InProgress), in(task.Open))

	codes := make(map[string]bool)
	for _, p := range periods {
		for code := range p.Denied {
			codes[code] = true
		}
	}
	var refused []chart.Series
	for i, code := range slices.Sorted(maps.Keys(codes)) {
		refused = append(refused, counted(strings.ReplaceAll(code, "_", " "), fmt.Sprintf("tone%d", i%6+1), func(p api.Period) float64 { return float64(p.Denied[code]) }))
	}
	times := func(half, nine func(api.Period) *float64) chart.Chart {
		seconds := func(of func(api.Period) *float64) func(api.Period) float64 {
			return func(p api.Period) float64 {
				if v := of(p); v != nil {
					return *v
				}
				return math.NaN()
			}
		}
		return chart.Chart{
			Lines:  []chart.Series{counted("median", "tone1", seconds(half)), counted("nine of ten", "tone3", seconds(nine))},
			Format: spoken,
		}
	}
	figures := []figure{
		completed, why,
		draw("Claims", "granted", chart.Chart{Bars: []chart.Series{counted("granted", "tone1", func(p api.Period) float64 { return float64(p.Granted) })}}),
		draw("How claims ended", "ended", chart.Chart{Bars: []chart.Series{
			counted("completed", "tone2", func(p api.Period) float64 { return float64(p.Completed) }),
			counted("failed", "tone6", func(p api.Period) float64 { return float64(p.Failed) }),
			counted("lost", "tone4", func(p api.Period) float64 { return float64(p.Lost) }),
		}}),
		held,
		draw("From open to claimed", "", times(func(p api.Period) *float64 { return p.WaitP50 }, func(p api.Period) *float64 { return p.WaitP90 })),
		draw("From claimed to done", "", times(func(p api.Period) *float64 { return p.WorkP50 }, func(p api.Period) *float64 { return p.WorkP90 })),
		draw("Refusals", "refused", chart.Chart{Bars: refused}),
	}
	some := func(s chart.Series) bool { return slices.Max(s.Values) > 0 }
	if usd := counted("US dollars", "tone5", func(p api.Period) float64 { return p.USD }); some(usd) {
		figures = append(figures, draw("Money that agents reported", "", chart.Chart{Bars: []chart.Series{usd}, Format: func(v float64) string { return fmt.Sprintf("%.2f", v) }}))
	}
	if tokens := counted("tokens", "tone4", func(p api.Period) float64 { return float64(p.Tokens) }); some(tokens) {
		figures = append(figures, draw("Tokens that agents reported", "used", chart.Chart{Bars: []chart.Series{tokens}}))
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
	for i := range steps {
		r := row{At: api.Time{Time: c.At(i)}}
		some := false
		for _, s := range f.Legend {
			cell, plain := "–", ""
			if i < len(s.Values) && !math.IsNaN(s.Values[i]) {
				cell, some = write(s.Values[i]), some || s.Values[i] != 0
				plain = strconv.FormatFloat(s.Values[i], 'f', -1, 64)
			}
			r.Values, r.Plain = append(r.Values, cell), append(r.Plain, plain)
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
	if report, err = client.Do(r.Context(), b.Daemon, api.OpReport, api.ReportInput{Days: days}); err != nil {
		b.refuse(w, r, "charts", "Report", err)
	}
	return report, err == nil
}
