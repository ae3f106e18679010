package board

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/door/board/chart"
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

// spans are how many days the page can reach back: one by hour, more by day.
var spans = []int{1, 7, 30}

// numbers are what the page begins with.
type number struct{ Name, Value, Change string }

// insights shows how it goes: four numbers, four charts, and the report.
func (b *Board) insights(ctx context.Context, q url.Values) (view, error) {
	v := view{Name: "insights", Title: "Insights", Template: "insights.html", Every: 30 * time.Second}
	report, days, err := b.report(ctx, q)
	if err != nil {
		return v, err
	}
	body := struct {
		api.Report
		Length  int
		Spans   []choice
		Names   []string // the fields by which the report can be
		Numbers []number
		Figures []figure
		Field   string
		Rows    []api.Row
	}{Report: report, Length: days, Names: names(b.state.current().Cards)[1:], Numbers: numbersOf(report), Figures: figuresOf(report)}
	body.Field, body.Rows = report.Rows()
	for _, n := range spans {
		name := many(n, "day", "days")
		if n == 1 {
			name = "24 hours"
		}
		body.Spans = append(body.Spans, choice{Name: name, URL: fmt.Sprintf("/insights?days=%d", n), On: n == days})
	}
	v.Body = body
	return v, nil
}

// chartCSV answers with the numbers of one figure.
func (b *Board) chartCSV(w http.ResponseWriter, r *http.Request) {
	report, _, err := b.report(r.Context(), r.URL.Query())
	if err != nil {
		b.refuse(w, r, view{Name: "insights", Title: "Insights"}, err)
		return
	}
	figures := figuresOf(report)
	i := slices.IndexFunc(figures, func(f figure) bool { return f.Key() == r.URL.Query().Get("figure") })
	if i < 0 {
		b.say(w, http.StatusNotFound, "There is no such chart", "The page of insights has a link to the numbers of each.")
		return
	}
	attach(w, figures[i].Key(), figures[i].table())
}

func (b *Board) reportCSV(w http.ResponseWriter, r *http.Request) {
	report, _, err := b.report(r.Context(), r.URL.Query())
	if err != nil {
		b.refuse(w, r, view{Name: "insights", Title: "Report"}, err)
		return
	}
	attach(w, "report", report.Table())
}

// attach answers with a table as a file.
func attach(w http.ResponseWriter, name string, t api.Table) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=dibs-%s.csv", name))
	t.CSV(w)
}

// report returns the report of the days that an address asks for: of a week, if it does not say.
func (b *Board) report(ctx context.Context, q url.Values) (report api.Report, days int, err error) {
	days, err = strconv.Atoi(cmp.Or(q.Get("days"), "7"))
	if err != nil || days < 1 || days > 366 {
		return report, 0, &missing{"There is no such report", "A report is about the last days, 1 to 366 of them."}
	}
	report, err = client.Do(ctx, b.Daemon, api.OpReport, api.ReportInput{Days: days, By: q.Get("by"), Tasks: q.Get("tasks") != ""})
	return report, days, err
}

// shownAgents is how many agents a chart tells apart.
const shownAgents = 5

// figuresOf returns the figures of a report: by hour if it has hours. They begin where something
// happened.
func figuresOf(report api.Report) []figure {
	year, month, day := report.From.Local().Date()
	periods, from, step := report.Days, time.Date(year, month, day, 0, 0, 0, 0, time.Local), 24*time.Hour
	if len(report.Hours) > 0 {
		periods, from, step = report.Hours, report.From.Local().Truncate(time.Hour), time.Hour
	}
	at := chart.Chart{From: from, Step: step}
	for len(periods) > leastSteps && periods[0].Granted+len(periods[0].Agents) == 0 && periods[0].Held == 0 {
		periods, at.From = periods[1:], at.At(1)
	}
	counted := func(name, class string, of func(api.Period) float64) chart.Series {
		s := chart.Series{Name: name, Class: class, Values: make([]float64, len(periods))}
		for i, p := range periods {
			s.Values[i] = of(p)
		}
		return s
	}
	orNaN := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	agents := slices.SortedStableFunc(slices.Values(report.Agents), func(a, b api.AgentWork) int { return cmp.Compare(b.Completed, a.Completed) })
	agents = slices.DeleteFunc(agents, func(a api.AgentWork) bool { return a.Completed == 0 })
	place := make(map[string]int)
	total := 0
	for i, a := range agents {
		place[a.Agent] = min(i, shownAgents)
		total += a.Completed
	}
	var byAgent []chart.Series
	for i, a := range agents[:min(len(agents), shownAgents+1)] {
		s := counted(text(a.Agent, 80), fmt.Sprintf("hue%d", hue(text(a.Agent, 80))), func(p api.Period) (n float64) {
			for _, a := range p.Agents {
				if is, ok := place[a.Agent]; ok && is == i {
					n += float64(a.Completed)
				}
			}
			return n
		})
		if i == shownAgents {
			s.Name, s.Class = "others", "tone0"
		} else {
			s.Agent = s.Name
		}
		byAgent = append(byAgent, s)
	}
	done := draw(at, "Done", "", chart.Chart{Bars: byAgent})
	done.Says = grouped(total) + " by agents"

	var causes []chart.Series
	for i, how := range []string{"lost", "overridden", "swept"} {
		s := chart.Series{Name: map[string]string{"lost": "taken by people", "overridden": "taken over when stale", "swept": "opened when stale"}[how], Class: fmt.Sprintf("tone%d", i+1), Values: make([]float64, len(periods))}
		for _, l := range report.Losses {
			i := max(0, slices.IndexFunc(periods, func(p api.Period) bool { return p.From.After(l.At.Time) })-1)
			if last := len(periods) - 1; last >= 0 && !periods[last].From.After(l.At.Time) {
				i = last
			}
			if l.How == how && len(periods) > 0 {
				s.Values[i]++
			}
		}
		if len(s.Values) > 0 && slices.Max(s.Values) > 0 {
			causes = append(causes, s)
		}
	}
	lost := draw(at, "Lost claims, by cause", "", chart.Chart{Bars: causes})
	lost.Says = many(len(report.Losses), "claim", "claims")
	return []figure{
		done,
		draw(at, "Waiting and held", "", chart.Chart{Lines: []chart.Series{
			counted("ready", "tone2", func(p api.Period) float64 { return p.Waiting }), counted("held", "tone1", func(p api.Period) float64 { return p.Held }),
		}, Format: trim}),
		draw(at, "How long it took", "", chart.Chart{
			Lines: []chart.Series{
				counted("ready to claimed", "tone2", func(p api.Period) float64 { return orNaN(p.WaitP50) }),
				counted("claimed to done", "tone1", func(p api.Period) float64 { return orNaN(p.WorkP50) }),
			},
			Format: spoken,
		}),
		lost,
	}
}

// leastSteps is how many steps a chart has at least.
const leastSteps = 3

// draw makes a figure of a chart. did is the verb for the counted things; empty if they are not
// counted.
func draw(at chart.Chart, title, did string, c chart.Chart) figure {
	c.From, c.Step = at.From, at.Step
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

// numbersOf returns what the page begins with, each with the change to the time before, as long.
func numbersOf(report api.Report) []number {
	is, was := report.Total, report.Before
	change := func(is, was float64) string {
		switch {
		case was == 0:
			return ""
		case is == was:
			return "as before"
		}
		return fmt.Sprintf("%+.0f%% to the time before", 100*(is-was)/was)
	}
	took := "–"
	if is.MedianSeconds != nil {
		took = spoken(*is.MedianSeconds)
	}
	return []number{
		{"Done", grouped(is.Completed), change(float64(is.Completed), float64(was.Completed))},
		{"Median time", took, change(is.Took().Seconds(), was.Took().Seconds())},
		{"Lost", grouped(is.Lost), change(float64(is.Lost), float64(was.Lost))},
		{"Spent", dollars(is.USD), change(is.USD, was.USD)},
	}
}

// dollars writes an amount; a dash for none.
func dollars(usd float64) string {
	if usd == 0 {
		return "–"
	}
	return fmt.Sprintf("$%.2f", usd)
}
