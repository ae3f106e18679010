package board

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/board/chart"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// ranges are the periods that the timeline can show.
var ranges = []struct {
	Key, Name string
	Length    time.Duration
}{
	{"10m", "10 min", 10 * time.Minute}, {"1h", "1 hour", time.Hour}, {"6h", "6 hours", 6 * time.Hour},
	{"1d", "1 day", 24 * time.Hour}, {"1w", "1 week", 7 * 24 * time.Hour},
}

// How much a timeline reads, and shows.
const (
	maxFacts  = 5000
	maxLanes  = 100
	maxMarked = 500
)

// bar is a claim on the timeline.
type bar struct {
	chart.Strip
	ID     claim.ID
	Task   task.ID
	Title  string
	Agent  string
	From   api.Time // zero: before the record that was read
	To     api.Time // zero: goes on
	Lease  api.Time
	How    string // how it ended, or that it is held
	Tip    string
	Class  string
	Closed bool
}

// mark is what happened at one moment.
type mark struct {
	chart.Spot
	At    api.Time
	Lane  string // the agent; empty for people
	What  string
	Task  task.ID
	Title string
	Tip   string
	Class string
	claim claim.ID
}

// track is the lane of one agent, or of people.
type track struct {
	Name   string
	People bool
	Height int
	Bars   []*bar
	Marks  []*mark
}

// timeline is what agents and people did in a time.
type timeline struct {
	From      api.Time
	Now       chart.Percent
	Ticks     []chart.Tick
	Tracks    []*track
	Bars      []*bar  // newest first
	Marks     []*mark // newest first
	More      int     // lanes that are not shown
	Truncated bool    // not all of the range was read
}

// happened is the page of activity: the timeline, and the events.
type happened struct {
	Range string
	Spans []choice
	Line  timeline
	Why   string // why there is no timeline

	Kind, Agent, Words string
	Kinds, Agents      []string // the choices
	Events             []event  // the newest first
	More               string   // the address with the others
}

// How many events are shown at first.
const firstEvents = 60

// activity shows what happened.
func (b *Board) activity(ctx context.Context, q url.Values) (view, error) {
	v := view{Name: "activity", Title: "Activity", Template: "activity.html", Every: 5 * time.Second}
	h := happened{Range: cmp.Or(q.Get("range"), "1h"), Kind: q.Get("kind"), Agent: q.Get("agent"), Words: q.Get("q")}
	address := func(name, value string) string {
		with := url.Values{}
		for _, key := range []string{"range", "kind", "agent", "q"} {
			if q.Get(key) != "" {
				with.Set(key, q.Get(key))
			}
		}
		with.Set(name, value)
		return "/activity?" + with.Encode()
	}
	var length time.Duration
	for _, span := range ranges {
		if span.Key == h.Range {
			length = span.Length
		}
		h.Spans = append(h.Spans, choice{Name: span.Name, URL: address("range", span.Key), On: span.Key == h.Range})
	}
	if length == 0 {
		return v, &missing{"There is no such timeline", "A timeline shows the last 10 minutes, hour, 6 hours, day or week."}
	}
	var err error
	if h.Line, err = b.timeline(ctx, time.Now(), length); err != nil {
		h.Why = text(err.Error(), 2*maxLine) // the events are known all the same
	}
	most := firstEvents
	if q.Get("all") != "" {
		most = maxEvents
	}
	for _, e := range slices.Backward(b.state.current().Events) {
		h.Kinds, h.Agents = append(h.Kinds, e.Kind), append(h.Agents, e.Agent)
		switch {
		case !h.selects(e):
		case len(h.Events) < most:
			h.Events = append(h.Events, e)
		default:
			h.More = address("all", "1")
		}
	}
	h.Kinds, h.Agents = choices(h.Kinds, h.Kind), choices(h.Agents, h.Agent)
	v.Body = h
	return v, nil
}

func (h happened) selects(e event) bool {
	return (h.Kind == "" || h.Kind == e.Kind) && (h.Agent == "" || h.Agent == e.Agent) &&
		card{Title: e.Title, Agent: e.Agent, Why: e.Kind, Note: e.Text}.matches(h.Words)
}

func (b *Board) timeline(ctx context.Context, now time.Time, length time.Duration) (timeline, error) {
	from := now.Add(-length)
	record, err := client.Do(ctx, b.Daemon, api.OpLog, api.LogInput{Since: from.Format(time.RFC3339), Seen: true, Limit: maxFacts})
	if err != nil {
		return timeline{}, err
	}
	held, err := client.Do(ctx, b.Daemon, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return timeline{}, err
	}
	bars, marks := follow(record.Entries, held.Claims)
	scale := chart.Scale{From: from, To: now.Add(length / 10)} // with room for what is left of leases
	out := timeline{From: api.Time{Time: from}, Now: chart.Percent(scale.X(now)), Ticks: scale.Ticks(), Truncated: len(record.Entries) == maxFacts}
	out.Tracks, out.More = tracks(scale, now, bars, marks)
	slices.SortStableFunc(bars, func(a, b *bar) int { return b.From.Compare(a.From.Time) })
	slices.SortStableFunc(marks, func(a, b *mark) int { return b.At.Compare(a.At.Time) })
	out.Bars, out.Marks = bars[:min(len(bars), maxMarked)], marks[:min(len(marks), maxMarked)]
	return out, nil
}

// follow makes bars and marks of a record, and of the claims that are held now.
func follow(record []api.LogEntry, held []api.Claim) (bars []*bar, marks []*mark) {
	known := make(map[claim.ID]*bar)
	of := func(id claim.ID, agent string, e api.LogEntry) *bar {
		if known[id] == nil {
			known[id] = &bar{ID: id, Agent: text(agent, 80), Task: e.Task, Title: cmp.Or(text(e.Title, maxTitle), "Untitled")}
			bars = append(bars, known[id])
		}
		return known[id]
	}
	end := func(c *bar, e api.LogEntry, how string) {
		if !c.Closed {
			c.Closed, c.To, c.How, c.Class = true, e.At, how, "b-"+string(e.Kind)
		}
	}
	point := func(e api.LogEntry, lane, what string) {
		marks = append(marks, &mark{
			At: e.At, Lane: text(lane, 80), What: what, Task: e.Task, Title: cmp.Or(text(e.Title, maxTitle), "Untitled"), Class: "m-" + string(e.Kind), claim: e.Claim,
		})
	}
	for _, e := range record {
		word := wordOf(e)
		switch {
		case e.Seen:
			c := known[e.Claim]
			if what := edit(e, c); what != "" && c != nil {
				point(e, c.Agent, what)
			} else if what != "" {
				point(e, "", what)
			}
		case e.Kind == claim.KindReopened || e.Kind == claim.KindAdded:
			point(e, e.Agent, word)
		case e.Claim == "":
		case e.Kind.Grants():
			c := of(e.Claim, e.Agent, e)
			c.From, c.Lease = e.At, e.Expires
		case e.Kind == claim.KindRenewed:
			of(e.Claim, e.Agent, e).Lease = e.Expires
			point(e, e.Agent, word)
		case e.Kind == claim.KindOverridden && e.Former != "":
			end(of(e.Former, e.Holder, e), e, word)
			e.Claim = e.Former
			point(e, e.Holder, word)
		case e.Kind == claim.KindSwept:
			end(of(e.Claim, e.Holder, e), e, word)
			point(e, e.Holder, word)
		case slices.Contains([]claim.Kind{claim.KindLost, claim.KindBlocked}, e.Kind):
			end(of(e.Claim, e.Agent, e), e, word)
			point(e, e.Agent, word)
		case (e.Kind == claim.KindOffered || e.Kind == claim.KindDeclined) && e.Started.IsZero(): // nobody worked on it
			point(e, e.Agent, word)
		case slices.Contains([]claim.Kind{claim.KindCompleted, claim.KindReview, claim.KindFailed, claim.KindReleased, claim.KindOffered, claim.KindDeclined}, e.Kind):
			c := of(e.Claim, e.Agent, e)
			if c.From.IsZero() {
				c.From = e.Started
			}
			end(c, e, word)
		case e.Kind == claim.KindConflict || e.Kind == claim.KindOrphaned || e.Kind == claim.KindExpiring:
			point(e, e.Agent, word)
		}
	}
	for _, h := range held {
		c := of(h.ID, h.Agent, api.LogEntry{Task: h.Task.ID, Title: h.Task.Title})
		c.Lease = h.ExpiresAt
		if !c.Closed {
			c.How, c.Class, c.To = "held", "b-held", api.Time{}
		}
	}
	for _, c := range bars {
		if c.How == "" { // its end is not on record
			c.How, c.Closed, c.To, c.Class = "over", true, c.Lease, "b-over"
		}
	}
	return bars, marks
}

// edit says what people did to a task, as the board showed it; empty if that only shows what is on
// record. c is the claim that it touches; nil for none.
func edit(e api.LogEntry, c *bar) string {
	switch e.Kind {
	case claim.KindEdited, claim.KindReassigned, claim.KindCreated, claim.KindCancelled, claim.KindTrashed, claim.KindRestored:
		return wordOf(e)
	case claim.KindReopened, claim.KindUnblocked:
		if e.By == "" {
			return wordOf(e)
		}
	case claim.KindCompleted, claim.KindBlocked, claim.KindReview, claim.KindFailed:
		if c == nil || !c.Closed || c.How == string(claim.KindLost) {
			return wordOf(e)
		}
	}
	return ""
}

// wordOf says what happened. What others wrote in it is short.
func wordOf(e api.LogEntry) string {
	return wording.Mark(claim.Fact{
		Kind: e.Kind, Agent: text(e.Agent, 80), Holder: text(e.Holder, 80), Changed: []string{text(strings.Join(e.Changed, ", "), maxLine)},
	})
}

// tracks lays bars and marks out in lanes, in the order of their names; more is the number of lanes
// left out.
func tracks(scale chart.Scale, now time.Time, bars []*bar, marks []*mark) (out []*track, more int) {
	lanes := make(map[string]*track)
	laid := make(map[string]*chart.Lane)
	lane := func(name string) (*track, *chart.Lane) {
		if lanes[name] == nil {
			lanes[name], laid[name] = &track{Name: cmp.Or(name, "People"), People: name == ""}, chart.NewLane(scale)
			out = append(out, lanes[name])
		}
		return lanes[name], laid[name]
	}
	begun := func(c *bar) time.Time { return cmp.Or(c.From, api.Time{Time: scale.From}).Time }
	slices.SortStableFunc(bars, func(a, b *bar) int { return begun(a).Compare(begun(b)) })
	strips := make(map[claim.ID]*chart.Strip)
	for _, c := range bars {
		t, l := lane(c.Agent)
		to, lease := cmp.Or(c.To, api.Time{Time: now}).Time, c.Lease.Time
		if c.Closed {
			lease = time.Time{}
		}
		c.Strip = l.Bar(begun(c), to, lease)
		strips[c.ID] = &c.Strip
		c.Tip = fmt.Sprintf("%s, “%s”: %s to %s, %s", c.Agent, c.Title, cmp.Or(short(c.From), "before"), cmp.Or(short(c.To), "now"), c.How)
		if !c.Closed {
			c.Tip += ", lease until " + short(c.Lease)
		}
		t.Bars = append(t.Bars, c)
	}
	for _, m := range marks {
		t, l := lane(m.Lane)
		m.Spot = l.Mark(m.At.Time, strips[m.claim])
		m.Tip = fmt.Sprintf("%s %s, “%s”", short(m.At), m.What, m.Title)
		t.Marks = append(t.Marks, m)
	}
	for name, t := range lanes {
		t.Height = laid[name].Height
	}
	slices.SortFunc(out, func(a, b *track) int { // people first
		first := func(t *track) int { return map[bool]int{false: 1}[t.People] }
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Name, b.Name))
	})
	more = max(0, len(out)-maxLanes)
	return out[:len(out)-more], more
}

// short writes a moment for a tip; empty for none.
func short(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	if time.Since(t.Time) < 20*time.Hour {
		return t.Local().Format("15:04:05")
	}
	return t.Local().Format("Jan 2 15:04")
}

// storyPage tells what happened to a task, or to one claim.
func (b *Board) storyPage(w http.ResponseWriter, r *http.Request) {
	v := view{Name: "activity", Title: "Story", Template: "story.html", Every: 3 * time.Second}
	story, err := client.Do(r.Context(), b.Daemon, api.OpStory, api.StoryInput{ID: r.PathValue("id")})
	if err == nil {
		title := cmp.Or(text(story.Task.Title, maxTitle), "Untitled")
		_, isClaim := claim.ParseID(r.PathValue("id"))
		v.Title, v.Body = "The story of "+title, struct {
			ID    task.ID
			Title string
			Claim bool
			Steps []entry
		}{story.Task.ID, title, isClaim, entriesOf(story.Story)}
	}
	b.answer(w, r, http.StatusOK, v, err)
}
