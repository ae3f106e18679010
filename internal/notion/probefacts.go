package notion

import (
	"fmt"
	"net/http"
	"time"

	"dibs/internal/kit/clock"
)

// Fact says whether Notion behaved in a way in every trial of a probe. It names nothing of the
// workspace.
type Fact struct {
	Name     string `json:"name"`
	Holds    bool   `json:"holds"`
	Measured string `json:"measured"`
}

// The names of the facts.
const (
	ReadAfterWrite = "read_after_write"
	WriteLateness  = "write_lateness"
	WriteKept      = "acknowledged_write_kept"
	QueryLag       = "query_lag"
	DateMinutes    = "date_minutes"
	DateHeader     = "date_header"
	AppendOrder    = "append_order"
	TrashOnce      = "trash_once"
)

// probePatience is how long a write that was answered may take to show.
const probePatience = 30 * time.Second

func upTo(behind time.Duration) string {
	if behind == 0 {
		return ""
	}
	return fmt.Sprintf(", reads were behind for %v at most", behind.Round(time.Millisecond))
}

func within(late time.Duration) string {
	if late == 0 {
		return "when it was first looked for"
	}
	return fmt.Sprintf("%v later at most", late.Round(time.Millisecond))
}

func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", n, what)
}

// lags counts queries right after a write, and those that did not show it.
type lags struct {
	trials, behind int
	most           time.Duration
	never          bool // one did not show its write at all
}

func (l *lags) add(behind time.Duration) {
	if l.trials++; behind > 0 {
		l.behind++
		l.most = max(l.most, behind)
	}
}

func (l *lags) fact() Fact {
	said := fmt.Sprintf("%d of %d queries after a write showed it", l.trials-l.behind, l.trials)
	switch {
	case l.never:
		said += fmt.Sprintf(", one not within %v", probePatience)
	case l.behind > 0:
		said += fmt.Sprintf(", others lagged for %v at most", l.most.Round(time.Millisecond))
	}
	return Fact{QueryLag, l.trials > 0 && l.behind == 0, said}
}

// cutDates counts dates that were written with seconds, and those that were cut to the minute.
type cutDates struct {
	trials, cut int
	off         time.Duration // of the last one that was not
}

// compare adds a date that was sent and the property that shows it.
func (m *cutDates) compare(sent time.Time, shown *property) {
	m.trials++
	if shown == nil || shown.Date == nil {
		return
	}
	kept, err := time.Parse(time.RFC3339, shown.Date.Start)
	if off := kept.Sub(sent.Truncate(time.Minute)); err == nil && off == 0 {
		m.cut++
	} else if err == nil {
		m.off = off
	}
}

func (m *cutDates) fact() Fact {
	said := fmt.Sprintf("%d of %d dates with seconds were cut to the minute", m.cut, m.trials)
	if m.off != 0 {
		said += fmt.Sprintf(", one was off by %v", m.off)
	}
	return Fact{DateMinutes, m.trials > 0 && m.cut == m.trials, said}
}

// dates compares the Date headers of answers, which come one after the other, with this machine's
// clock.
type dates struct {
	answers, undated, far, back int
	still                       bool
	least, most                 time.Duration // Notion's clock minus this one
	last                        time.Time
	since                       time.Time // when the first answer with the last Date came
	sent                        time.Time // when the last request that was answered was sent
}

// hear is told of each answer.
func (d *dates) hear(header string, took time.Duration) {
	received := time.Now()
	d.sent = received.Add(-took)
	d.answers++
	date, err := http.ParseTime(header)
	if err != nil {
		d.undated++
		return
	}
	// A Date is cut to the second, and from between the request and its answer.
	from, to := date.Sub(received), date.Sub(received)+time.Second+took
	if from > clock.Tolerance || to < -clock.Tolerance {
		d.far++
	}
	if off := (from + to) / 2; d.last.IsZero() {
		d.least, d.most = off, off
	} else {
		d.least, d.most = min(d.least, off), max(d.most, off)
	}
	switch {
	case date.Before(d.last):
		d.back++
	case date.Equal(d.last):
		d.still = d.still || d.sent.Sub(d.since) >= time.Second
		return
	}
	d.last, d.since = date, received
}

func (d *dates) fact() Fact {
	const tenth = 100 * time.Millisecond
	said := fmt.Sprintf("%d answers, their clock between %v and %v ahead of this machine's", d.answers-d.undated, d.least.Round(tenth), d.most.Round(tenth))
	said += counted(d.far, "off by more than 5s") + counted(d.back, "earlier than the one before") + counted(d.undated, "without a Date")
	if d.still {
		said += ", it stood still"
	}
	return Fact{DateHeader, d.answers > 0 && !d.still && d.far+d.back+d.undated == 0, said}
}
