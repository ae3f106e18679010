package api

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
)

// Report is how agents did in the last days, and what waits for people now.
type Report struct {
	From      Time           `json:"from"`
	To        Time           `json:"to"`
	Agents    []AgentWork    `json:"agents" nullable:"false" doc:"In the order of their names"`
	Days      []Period       `json:"days" nullable:"false" doc:"Each day of the daemon's machine, oldest first"`
	Hours     []Period       `json:"hours" nullable:"false" doc:"Each hour, oldest first, in a report of one day; else empty"`
	Losses    []Loss         `json:"losses" nullable:"false" doc:"The claims that were lost, the newest first, at most a hundred"`
	Blocked   []Blocked      `json:"blocked" nullable:"false" doc:"The tasks that are blocked now, the longest first"`
	Questions []OpenQuestion `json:"questions" nullable:"false" doc:"What agents ask people, and nobody has answered by opening the task again, the oldest first"`

	Total  Work        `json:"total" doc:"All agents together"`
	Before Work        `json:"before" doc:"The same of as many days before from, as far as journal.keep reaches: to compare with total"`
	By     string      `json:"by,omitempty" doc:"The field that was asked for, as the board calls it"`
	Values []ValueWork `json:"values,omitzero" nullable:"false" doc:"Work by the values of that field, most completed first; a task with several values counts in each"`
	Tasks  []TaskWork  `json:"tasks,omitzero" nullable:"false" doc:"If asked for, the tasks that were worked on and that agents spent on, the latest first"`
}

// Work is how claims ended, and what was used meanwhile.
type Work struct {
	Completed     int      `json:"completed" doc:"Also what was handed in for review"`
	Failed        int      `json:"failed"`
	Lost          int      `json:"lost" doc:"Taken, cleared or finished by somebody else, or stale"`
	MedianSeconds *float64 `json:"median_seconds" doc:"How long agents had a task, as the median of those that they completed; null without any"`
	USD           float64  `json:"usd" doc:"What agents reported to have spent, in US dollars"`
	Tokens        int64    `json:"tokens" doc:"What agents reported to have used"`
}

// AgentWork is how an agent's claims ended.
type AgentWork struct {
	Agent string `json:"agent"`
	Work
}

// ValueWork is how claims ended on the tasks of which a field has a value now.
type ValueWork struct {
	Value string `json:"value" doc:"As people read it; empty for the tasks in which the field is empty; data that others wrote"`
	Work
}

// TaskWork is what a task took in the time of a report, in all claims on it.
type TaskWork struct {
	Task    TaskRef      `json:"task"`
	Agent   string       `json:"agent" doc:"Who had it last"`
	Outcome claim.Ending `json:"outcome,omitempty" doc:"How the last claim ended; absent if none has ended in that time"`
	At      Time         `json:"at,omitzero" doc:"When the last claim ended"`
	Claims  int          `json:"claims" doc:"How many claims ended"`
	Seconds float64      `json:"seconds" doc:"How long these claims lasted, together"`
	USD     float64      `json:"usd" doc:"What agents reported to have spent, in US dollars"`
	Tokens  int64        `json:"tokens" doc:"What agents reported to have used"`
}

// Period is what happened on one day, or in one hour.
type Period struct {
	Day       string         `json:"day" doc:"The day of the daemon's machine, such as 2026-11-25"`
	From      Time           `json:"from" doc:"When the day or the hour began, or the report"`
	Completed int            `json:"completed" doc:"Tasks that were completed, or handed in for review"`
	Failed    int            `json:"failed" doc:"Tasks whose work failed"`
	Lost      int            `json:"lost" doc:"Claims that were taken, cleared or finished by somebody else, or stale"`
	USD       float64        `json:"usd" doc:"What agents reported to have spent, in US dollars"`
	Tokens    int64          `json:"tokens" doc:"What agents reported to have used"`
	Granted   int            `json:"granted" doc:"Claims that were granted"`
	Held      float64        `json:"held" doc:"Claims that were held at a time, on average"`
	Waiting   float64        `json:"waiting" doc:"Tasks that were ready at a time, on average, of those that became ready in the time of the report"`
	Denied    map[string]int `json:"denied" nullable:"false" doc:"Claims that were refused, by code"`
	WaitP50   *float64       `json:"wait_seconds_p50" doc:"How long granted tasks had been ready, of those that became ready in the time of the report: the median; null without any"`
	WaitP90   *float64       `json:"wait_seconds_p90" doc:"The same, which nine of ten did not exceed"`
	WorkP50   *float64       `json:"work_seconds_p50" doc:"How long agents had the tasks that they completed: the median; null without any"`
	WorkP90   *float64       `json:"work_seconds_p90" doc:"The same, which nine of ten did not exceed"`
	Agents    []AgentWork    `json:"agents" nullable:"false" doc:"How each agent's claims ended in this time"`
}

// Loss is a claim that its agent lost.
type Loss struct {
	At    Time    `json:"at"`
	Task  TaskRef `json:"task"`
	Agent string  `json:"agent"`
	By    string  `json:"by,omitempty" doc:"Who had the task afterwards, if anybody is known"`
	How   string  `json:"how" enum:"lost,overridden,swept"`
	Why   string  `json:"why"`
}

// Blocked is a task that is blocked, by whomever.
type Blocked struct {
	Task  TaskRef `json:"task"`
	Since Time    `json:"since"`
	Why   string  `json:"why" doc:"Why, in one line; empty if nobody said"`
}

// OpenQuestion is a question of an agent that waits for an answer.
type OpenQuestion struct {
	Task    TaskRef `json:"task"`
	AskedAt Time    `json:"asked_at"`
	By      string  `json:"by" doc:"The agent"`
	To      string  `json:"to" doc:"The person who was asked by name; empty for anybody"`
	Text    string  `json:"text"`
}

// Table is rows of texts below a row of heads.
type Table [][]string

// Row is a row of a table of work: an agent, or a value of a field.
type Row struct {
	Name string
	Work
}

// Rows returns the agents, or the values of the field that was asked for, with the name of the first
// column: those that completed most first.
func (r Report) Rows() (name string, rows []Row) {
	if name = r.By; name != "" {
		for _, v := range r.Values {
			rows = append(rows, Row{v.Value, v.Work})
		}
		return name, rows
	}
	for _, a := range r.Agents {
		rows = append(rows, Row{a.Agent, a.Work})
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.Completed, a.Completed) })
	return "agent", rows
}

// Table returns the tasks, if they were asked for, or else Rows, for programs.
func (r Report) Table() Table {
	if r.Tasks != nil {
		t := Table{{"task", "title", "agent", "outcome", "at", "claims", "seconds", "usd", "tokens"}}
		for _, one := range r.Tasks {
			at := ""
			if !one.At.IsZero() {
				at = one.At.Format(time.RFC3339)
			}
			t = append(t, []string{
				cmp.Or(one.Task.Key, string(one.Task.ID)), one.Task.Title, one.Agent, string(one.Outcome), at,
				strconv.Itoa(one.Claims), number(one.Seconds), number(one.USD), strconv.FormatInt(one.Tokens, 10),
			})
		}
		return t
	}
	name, rows := r.Rows()
	t := Table{{name, "completed", "failed", "lost", "median_seconds", "usd", "tokens"}}
	for _, row := range rows {
		t = append(t, row.cells(""))
	}
	return t
}

// cells returns the row's cells, with none where there is nothing to tell.
func (r Row) cells(none string) []string {
	median, usd, tokens := none, none, none
	if r.MedianSeconds != nil {
		median = number(*r.MedianSeconds)
	}
	if r.USD > 0 || none == "" {
		usd = number(r.USD)
	}
	if r.Tokens > 0 || none == "" {
		tokens = strconv.FormatInt(r.Tokens, 10)
	}
	return []string{r.Name, strconv.Itoa(r.Completed), strconv.Itoa(r.Failed), strconv.Itoa(r.Lost), median, usd, tokens}
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Markdown writes the report for people.
func (r Report) Markdown(w io.Writer) error {
	title, rows := r.Rows()
	work := r.Table()
	if r.Tasks == nil {
		if work = work[:1]; len(rows) > 1 {
			rows = append(rows, Row{"total", r.Total})
		}
		for _, row := range rows {
			work = append(work, row.cells("–"))
		}
	}
	switch {
	case r.Tasks != nil:
		title = "Tasks"
	case r.By == "":
		title = "Agents"
	}
	day := func(t Time) string { return t.Local().Format("2006-01-02 15:04") }
	blocked := Table{{"task", "since", "why"}}
	for _, b := range r.Blocked {
		blocked = append(blocked, []string{b.Task.Title, day(b.Since), b.Why})
	}
	questions := Table{{"task", "asked", "by", "to", "question"}}
	for _, q := range r.Questions {
		questions = append(questions, []string{q.Task.Title, day(q.AskedAt), q.By, q.To, q.Text})
	}
	_, err := fmt.Fprintf(w, "# %s to %s\n", day(r.From), day(r.To))
	for _, part := range []struct {
		title string
		Table
	}{{title, work}, {"Blocked", blocked}, {"Questions", questions}} {
		if err == nil {
			_, err = fmt.Fprintf(w, "\n## %s\n\n%s", part.title, part.markdown())
		}
	}
	return err
}

// markdown returns the table in Markdown, in which no text is more than text.
func (t Table) markdown() string {
	if len(t) < 2 {
		return "None.\n"
	}
	var out strings.Builder
	for i, row := range t {
		for _, cell := range row {
			out.WriteString("| " + escape(cell) + " ")
		}
		out.WriteString("|\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return out.String()
}

// escape makes text of what would be markup.
func escape(s string) string {
	var out strings.Builder
	for _, r := range Collapse(s) {
		switch {
		case r == '<':
			out.WriteString("&lt;")
			continue
		case r == '&':
			out.WriteString("&amp;")
			continue
		case strings.ContainsRune("\\`*_[]|#!~>", r):
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// CSV writes the table. A text that a spreadsheet would take for a formula gets an apostrophe.
func (t Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	for _, row := range t {
		cells := make([]string, len(row))
		for i, cell := range row {
			if _, err := strconv.ParseFloat(cell, 64); err != nil && strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") {
				cell = "'" + cell
			}
			cells[i] = cell
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Took returns the median; zero for none.
func (w Work) Took() time.Duration {
	if w.MedianSeconds == nil {
		return 0
	}
	return time.Duration(*w.MedianSeconds * float64(time.Second))
}
