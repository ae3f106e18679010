package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A story is drawn from top to bottom: a line for each agent, and the page between them. A second
// has the same length everywhere, and long waits are left out.
const (
	storyWidth      = 960
	pageLeft        = 425
	pageRight       = 535
	storyTop        = 128
	pixelsPerSecond = 110.0
	waitHeight      = 84.0 // of a wait that is left out
	longWait        = 5 * time.Second
)

// lanes are where the agents' lines stand.
var lanes = [2]float64{270, 690}

// tints are the colors of the page while it shows an agent's name.
var tints = [2]string{"#d6e9f5", "#fbe3d0"}

// inks are the agents' own colors.
var inks = [2]string{blue, orange}

// span is a stretch of the story without a long wait.
type span struct {
	from, to time.Time
	top      float64
}

// sequence is the drawing of a story in progress.
type sequence struct {
	*drawing
	*tale
	spans  []span
	lowest [2]float64 // the last label of each agent
}

// Draw draws the story as an SVG picture.
func (s Story) Draw() []byte {
	q := &sequence{tale: s.told, spans: s.told.spans()}
	last := q.spans[len(q.spans)-1]
	bottom := last.top + last.height()
	q.drawing = newDrawing(storyWidth, math.Ceil(bottom+40))
	q.text(40, 32, fromStart, "Two agents ask for one task", `font-size="17"`, `font-weight="bold"`)
	q.text(40, 52, fromStart, fmt.Sprintf("write window %gs, settle %gs, latency %s, seed %d", s.WriteWindowSeconds, s.SettleSeconds, s.Latency, s.Seed))
	q.text((pageLeft+pageRight)/2, storyTop-34, middle, "the task's page", `font-weight="bold"`)
	q.text((pageLeft+pageRight)/2, storyTop-18, middle, "in Notion")
	for i, agent := range storytellers {
		q.text(lanes[i], storyTop-34, middle, agent, `font-weight="bold"`)
		q.text(lanes[i], storyTop-18, middle, "and its daemon")
	}
	q.page(bottom)
	for i := range lanes {
		q.lane(i, bottom)
	}
	for i := 1; i < len(q.spans); i++ {
		q.wait(q.spans[i-1], q.spans[i])
	}
	all := q.requests()
	for _, r := range all {
		q.request(r)
	}
	asks := slices.Clone(q.asks)
	slices.SortFunc(asks, func(a, b ask) int { return a.began.Compare(b.began) })
	for _, a := range asks {
		q.ask(a, all)
	}
	return q.done()
}

func (s span) height() float64 { return s.to.Sub(s.from).Seconds()*pixelsPerSecond + 20 }

// spans divides the story at its long waits.
func (t *tale) spans() []span {
	asks := slices.Clone(t.asks)
	slices.SortFunc(asks, func(a, b ask) int { return a.began.Compare(b.began) })
	var all []span
	for _, a := range asks {
		last := len(all) - 1
		switch {
		case last >= 0 && a.began.Sub(all[last].to) < longWait:
			if a.ended.After(all[last].to) {
				all[last].to = a.ended
			}
		case last >= 0:
			all = append(all, span{a.began, a.ended, all[last].top + all[last].height() + waitHeight})
		default:
			all = append(all, span{a.began, a.ended, storyTop})
		}
	}
	return all
}

// y is where a moment lies. One within a long wait lies in the middle of it.
func (q *sequence) y(at time.Time) float64 {
	for _, s := range q.spans {
		switch {
		case at.Before(s.from):
			return s.top - waitHeight/2
		case !at.After(s.to):
			return s.top + at.Sub(s.from).Seconds()*pixelsPerSecond
		}
	}
	last := q.spans[len(q.spans)-1]
	return last.top + last.height()
}

// page draws what the page shows.
func (q *sequence) page(bottom float64) {
	history := q.register.History(page)
	for i, v := range history {
		top, end, tint := q.y(v.From), bottom, "#eeeeee"
		if i == 0 {
			top = storyTop - 8
		}
		if i+1 < len(history) {
			end = q.y(history[i+1].From)
		}
		if who := slices.Index(storytellers[:], v.Task.ClaimedBy); who >= 0 {
			tint = tints[who]
		}
		q.rectangle(pageLeft, top, pageRight-pageLeft, end-top, tint)
		q.text((pageLeft+pageRight)/2, top+15, middle, shown(v.Task), `font-weight="bold"`)
	}
}

// lane draws an agent's line, dashed while its machine sleeps.
func (q *sequence) lane(i int, bottom float64) {
	x := lanes[i]
	if i != q.winner {
		q.line(x, storyTop-8, x, bottom, stroke{grey, 1.5, ""})
		return
	}
	slept, awoke := q.y(q.slept), q.y(q.awoke)
	q.line(x, storyTop-8, x, slept, stroke{grey, 1.5, ""})
	q.line(x, slept, x, awoke, stroke{grey, 1.5, "2 5"})
	q.line(x, awoke, x, bottom, stroke{grey, 1.5, ""})
	q.beside(i, slept+4, "sleeps, and renews nothing")
	q.beside(i, awoke+4, "wakes up")
}

// wait marks a long wait between two spans.
func (q *sequence) wait(a, b span) {
	from, to := a.top+a.height(), b.top-16
	q.rectangle(pageLeft-120, (from+to)/2-12, pageRight-pageLeft+240, 24, "#ffffff")
	q.text((pageLeft+pageRight)/2, (from+to)/2+4, middle, fmt.Sprintf("%.0f minutes later", b.from.Sub(a.to).Minutes()), `font-style="italic"`)
}

// request draws a request: there, its effect on the page, and back.
func (q *sequence) request(r request) {
	x, edge := lanes[r.by], float64(pageLeft)
	if r.by == 1 {
		edge = pageRight
	}
	there, back := stroke{inks[r.by], 1.5, "5 3"}, stroke{pale, 1.5, ""}
	word, off := "reads", -5.0
	if r.writes { // its word stands below the line: a read comes shortly before
		there, word, off = stroke{inks[r.by], 2.5, ""}, "writes", 15
	}
	sent, landed := q.y(r.sent), q.y(r.landed)
	q.line(edge, landed, x, q.y(r.answered), back)
	q.line(x, sent, edge, landed, there)
	q.dot(edge, landed, inks[r.by])
	q.text((x+edge)/2, (sent+landed)/2+off, middle, word)
}

// ask draws what an agent does between a command and its answer: from its first request on it must
// write within the window, and then it waits.
func (q *sequence) ask(a ask, all []request) {
	q.beside(a.by, q.y(a.began)+4, a.command)
	var own []request
	for _, r := range all {
		if r.by == a.by && !r.sent.Before(a.began) && !r.sent.After(a.ended) {
			own = append(own, r)
		}
	}
	if wrote := slices.IndexFunc(own, func(r request) bool { return r.writes }); wrote > 0 && wrote+1 < len(own) {
		began, written, again := own[0].sent, own[wrote].answered, own[wrote+1].sent
		q.bar(a.by, began, written, inks[a.by])
		q.bar(a.by, written, again, tints[a.by])
		q.beside(a.by, (q.y(began)+q.y(written))/2+4, fmt.Sprintf("read and written in %.2fs of %v", written.Sub(began).Seconds(), q.WriteWindow))
		q.beside(a.by, (q.y(written)+q.y(again))/2+4, fmt.Sprintf("waits %v, to settle", again.Sub(written).Round(100*time.Millisecond)))
	}
	q.beside(a.by, q.y(a.ended)+4, a.answer, `font-weight="bold"`)
}

// bar draws a stretch of time on an agent's line.
func (q *sequence) bar(i int, from, to time.Time, color string) {
	q.rectangle(lanes[i]-5, q.y(from), 10, q.y(to)-q.y(from), color)
}

// beside writes a label on the outer side of an agent's line, below the one before it.
func (q *sequence) beside(i int, y float64, s string, attributes ...string) {
	if y < q.lowest[i]+15 && y > q.lowest[i]-15 {
		y = q.lowest[i] + 15
	}
	q.lowest[i] = y
	if i == 0 {
		q.text(lanes[i]-12, y, toEnd, s, attributes...)
		return
	}
	q.text(lanes[i]+12, y, fromStart, s, attributes...)
}
