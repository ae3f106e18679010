package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
)

// details is a task with its record.
type details struct {
	card
	Of       api.Task
	Note     string // all of it
	Assigned string
	Fields   []field
	Reserved []api.Reservation // with its claim
	Graph    graph
	Said     content
	Actions  []action
	Done     string // what was just done
	History  []entry
	Earlier  string // the URL of earlier entries, if there are more
}

// field is a further property of a task.
type field struct{ Name, Value string }

// entry is a line of a task's history.
type entry struct {
	At    api.Time
	Kind  string
	Agent string
	Hue   int
	Text  string
}

// maxHistory limits the entries of a task's history on one page.
const maxHistory = 500

func (b *Board) taskPage(w http.ResponseWriter, r *http.Request) {
	t, ok := b.taskOf(w, r)
	if !ok {
		return
	}
	id := t.ID
	after := r.URL.Query().Get("after")
	record, err := client.Do(r.Context(), b.Daemon, api.OpLog, api.LogInput{Task: string(id), Limit: maxHistory, After: after})
	if err != nil {
		b.refuse(w, r, "board", "Task", err)
		return
	}
	g := b.state.current()
	d := details{
		card: cardOf(t), Of: t, Note: task.Plain(t.Note), Assigned: text(t.AssignedTo, 80), Said: b.contents.of(t), Actions: b.actions(t),
	}
	d.Done = doneOf(r.URL.Query().Get("done"))
	d.Graph = graphOf(g.Cards, d.card)
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		if value := task.FieldText(t.Fields[name]); value != "" {
			d.Fields = append(d.Fields, field{text(name, 80), text(value, maxLine)})
		}
	}
	if t.ClaimID != "" {
		all, err := client.Do(r.Context(), b.Daemon, api.OpReservations, api.ListReservationsInput{Agent: t.Agent})
		if err != nil {
			b.refuse(w, r, "board", "Task", err)
			return
		}
		d.Reserved = slices.DeleteFunc(all.Reservations, func(one api.Reservation) bool { return one.ClaimID != t.ClaimID })
	}
	for _, e := range record.Entries {
		d.History = append(d.History, entryOf(e))
	}
	if after == "" {
		slices.Reverse(d.History)
	}
	if len(record.Entries) == maxHistory && after == "" {
		d.Earlier = fmt.Sprintf("/tasks/%s?after=%s", id, beginning)
	} else if len(record.Entries) == maxHistory {
		d.Earlier = fmt.Sprintf("/tasks/%s?after=%s", id, url.QueryEscape(record.Entries[maxHistory-1].ID))
	}
	render(w, http.StatusOK, "task.html", b.page("task", d.Title, g, d))
}

// doneOf says what was just done.
func doneOf(verb string) string {
	if verb == "add" {
		return "The task was made."
	}
	a, _ := actionOf(verb)
	return a.Done
}

// beginning sorts before every entry of the record.
const beginning = "00000000000000000000000000"

func entryOf(e api.LogEntry) entry {
	out := entry{At: e.At, Kind: string(e.Kind), Agent: text(e.Agent, 80)}
	out.Hue = hue(out.Agent)
	parts := []string{string(e.Code), e.Detail, e.Summary}
	if e.Holder != "" && !strings.Contains(e.Detail, e.Holder) {
		parts = append(parts, "other party: "+e.Holder)
	}
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d times", e.Count))
	}
	var said bytes.Buffer
	for _, part := range parts {
		if part == "" {
			continue
		}
		if said.Len() > 0 {
			said.WriteString("; ")
		}
		said.WriteString(part)
	}
	out.Text = text(said.String(), 2*maxLine)
	return out
}

// contentPage shows the content of a task's page: for browsers without JavaScript, and for the module to
// put it into the task's own page.
func (b *Board) contentPage(w http.ResponseWriter, r *http.Request) {
	t, ok := b.taskOf(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), contentWait, errors.New("it takes too long to answer"))
	defer cancel()
	one, err := b.contents.read(ctx, t)
	if err != nil {
		if gone(r) {
			return
		}
		one = b.contents.of(t)
		one.Load, one.Problems = false, []string{"What the page says could not be read: " + text(err.Error(), 2*maxLine)}
	}
	render(w, http.StatusOK, "said.html", b.page("task", "What the page says", b.state.current(), struct {
		card
		Said content
	}{cardOf(t), one}))
}
