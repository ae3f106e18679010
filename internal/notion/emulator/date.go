package emulator

import (
	"time"
	_ "time/tzdata" // IANA zones in dates have to work on machines without a zone database
)

func (d *date) encode() map[string]any {
	m := map[string]any{"start": d.Start, "end": nil, "time_zone": nil}
	if d.End != "" {
		m["end"] = d.End
	}
	return m
}

const (
	dayLayout = time.DateOnly
	// shownLayout has seconds as Notion does; they are always zero.
	shownLayout = "2006-01-02T15:04:05.000-07:00"
	// stampLayout is for created_time and last_edited_time.
	stampLayout = "2006-01-02T15:04:05.000Z"
)

var zonedLayouts = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00"}

var zonelessLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05"}

// moment is a parsed date or time, cut to the minute: Notion keeps and compares no more.
type moment struct {
	time.Time
	day bool // a date without a time
}

// parseMoment parses an ISO 8601 date or time. Without an offset it is in loc.
func parseMoment(s string, loc *time.Location) (m moment, zoned, ok bool) {
	m, zoned, ok = parseExact(s, loc)
	m.Time = toMinute(m.Time)
	return m, zoned, ok
}

// parseExact is parseMoment without the cut to the minute.
func parseExact(s string, loc *time.Location) (m moment, zoned, ok bool) {
	if t, err := time.ParseInLocation(dayLayout, s, time.UTC); err == nil {
		return moment{t, true}, false, true
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return moment{t, false}, true, true
		}
	}
	for _, layout := range zonelessLayouts {
		if t, err := time.ParseInLocation(layout, s, loc); err == nil {
			return moment{t, false}, false, true
		}
	}
	return moment{}, false, false
}

// toMinute cuts a time to the minute by the clock of its zone; offsets are whole minutes.
func toMinute(t time.Time) time.Time {
	return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
}

func (m moment) show() string {
	if m.day {
		return m.Format(dayLayout)
	}
	return m.Format(shownLayout)
}

// stamp formats created_time and last_edited_time, which pages keep to the minute.
func stamp(t time.Time) string { return toMinute(t.UTC()).Format(stampLayout) }

// up rounds a time up to a multiple of step.
func (m moment) up(step time.Duration) moment {
	return moment{m.Add(step - 1).Truncate(step), m.day}
}

// decodeDate decodes {start, end, time_zone}; nil for null.
func (tx *tx) decodeDate(n node) (*date, error) {
	if n.null() {
		return nil, nil
	}
	if _, err := n.object(); err != nil {
		return nil, err
	}
	loc := time.UTC
	zone := n.get("time_zone")
	if !zone.unset() {
		name, err := zone.text(maxShort)
		if err != nil {
			return nil, err
		}
		if loc, err = time.LoadLocation(name); err != nil || name == "" || name == "Local" {
			return nil, zone.should("a valid IANA time zone")
		}
	}
	read := func(n node) (moment, error) {
		s, err := n.text(maxContent)
		if err != nil {
			return moment{}, err
		}
		m, zoned, ok := parseMoment(s, loc)
		if ok && tx.step > 0 {
			exact, _, _ := parseExact(s, loc)
			m = exact.up(tx.step)
		}
		if !ok {
			return moment{}, n.should("a valid ISO 8601 date string")
		}
		if zoned && !zone.unset() {
			return moment{}, n.should("a date string without a UTC offset, because a time_zone is given")
		}
		return m, nil
	}
	start, err := read(n.get("start"))
	if err != nil {
		return nil, err
	}
	d := &date{Start: start.show()}
	if end := n.get("end"); !end.unset() {
		m, err := read(end)
		if err != nil {
			return nil, err
		}
		if m.Before(start.Time) {
			return nil, end.should("on or after start")
		}
		d.End = m.show()
	}
	return d, nil
}
