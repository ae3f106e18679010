package board

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// details is a task with what happened to it.
type details struct {
	card
	Of       api.Task
	Note     string // what others wrote in it
	Fields   []want
	Reserved []api.Reservation // with its claim
	Graph    graph
	Page     content
	Primary  action
	Others   []action
	Done     string // what was just done
	Activity []entry
	Earlier  int    // how many entries are left out
	Once     string // the idempotency key of the comment
	Seen     shown
}

// entry is a line of a task's activity: a step of its story, or a comment.
type entry struct {
	At        api.Time
	Who, What string
	Text      string
	Comment   bool
}

// about is when it was, for the order: Notion has the time of a comment to the minute.
func (e entry) about() time.Time {
	if e.Comment {
		return e.At.Add(time.Minute - time.Millisecond)
	}
	return e.At.Time
}

// maxActivity limits the entries of a task's activity.
const maxActivity = 100

// taskPage shows a task as a page of its own.
func (b *Board) taskPage(w http.ResponseWriter, r *http.Request) {
	v, err := b.task(r.Context(), r.PathValue("id"), r.URL.Query())
	b.answer(w, r, http.StatusOK, v, err)
}

// contentPage is taskPage once what the task's page says has been read, for browsers without JavaScript.
func (b *Board) contentPage(w http.ResponseWriter, r *http.Request) {
	if t, err := b.find(r.Context(), r.PathValue("id")); err == nil {
		ctx, cancel := context.WithTimeoutCause(r.Context(), contentWait, errors.New("it takes too long to answer"))
		defer cancel()
		b.contents.read(ctx, t)
	}
	b.taskPage(w, r)
}

// task shows a task.
func (b *Board) task(ctx context.Context, id string, q url.Values) (view, error) {
	v := view{Name: "task", Title: "Task", Template: "task.html"}
	t, err := b.find(ctx, id)
	if err != nil {
		return v, err
	}
	d := details{card: cardOf(t), Of: t, Note: task.Plain(t.Note), Page: b.contents.of(t), Done: doneOf(q.Get("done"))}
	if d.Said != "" {
		d.Note = task.Plain(claim.Noted(t.Note, ""))
	}
	v.Title, d.Seen, d.Once = d.Title, d.shown(), newKey()
	// Comments have a form of their own.
	if all := slices.DeleteFunc(b.actions(d.card), func(a action) bool { return a.Verb == remark.Verb }); len(all) > 0 {
		d.Primary, d.Others = all[0], all[1:]
	}
	d.Graph = graphOf(b.state.current().Cards, d.card)
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		if value := task.FieldText(t.Fields[name]); value != "" {
			d.Fields = append(d.Fields, want{text(name, 80), text(value, maxLine)})
		}
	}
	if t.ClaimID != "" {
		all, err := client.Do(ctx, b.Daemon, api.OpReservations, api.ListReservationsInput{Agent: t.Agent})
		if err != nil {
			return v, err
		}
		d.Reserved = slices.DeleteFunc(all.Reservations, func(one api.Reservation) bool { return one.ClaimID != t.ClaimID })
	}
	story, err := client.Do(ctx, b.Daemon, api.OpStory, api.StoryInput{ID: string(t.ID)})
	if err != nil {
		return v, err
	}
	d.Activity = entriesOf(story.Story)
	for _, c := range d.Page.Comments {
		for i, e := range d.Activity { // what is said in a comment is not said twice
			if e.Text == text(c.Text, 2*maxLine) {
				d.Activity[i].Text = ""
			}
		}
		d.Activity = append(d.Activity, entry{At: c.At, Who: cmp.Or(c.By, "Somebody"), Text: c.Text, Comment: true})
	}
	slices.SortStableFunc(d.Activity, func(a, b entry) int { return a.about().Compare(b.about()) })
	d.Earlier = max(0, len(d.Activity)-maxActivity)
	d.Activity = d.Activity[d.Earlier:]
	v.Body, v.Every = d, time.Second
	return v, nil
}

// entriesOf returns the steps of a story. Whoever did one is named before it, and not once more in it.
func entriesOf(story []api.Step) (all []entry) {
	for _, s := range story {
		who := text(s.Who, 80)
		what, did := strings.CutPrefix(text(s.What, maxLine), who+" ")
		if !did {
			who = "" // the sentence says who
		}
		all = append(all, entry{At: s.At, Who: who, What: what, Text: text(s.Why, 2*maxLine)})
	}
	return all
}

// doneOf says what was just done.
func doneOf(verb string) string {
	switch verb {
	case "add":
		return "The task was made."
	case "pause":
		return "Paused."
	case "resume":
		return "Resumed."
	}
	a, _ := actionOf(verb)
	return a.Done
}
