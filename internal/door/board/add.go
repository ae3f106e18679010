package board

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// draft is the form for a new task.
type draft struct {
	Title, Text, Priority, Needs, For string
	Key                               string
	Agents                            []string
	Problem                           string
}

// Priorities are those to choose from.
func (draft) Priorities() []string { return []string{"critical", "high", "medium", "low"} }

func (b *Board) newPage(w http.ResponseWriter, r *http.Request) {
	b.draft(w, r, http.StatusOK, draft{Needs: text(r.URL.Query().Get("after"), maxLine)})
}

func (b *Board) draft(w http.ResponseWriter, r *http.Request, status int, d draft) {
	d.Key, d.Agents = cmp.Or(d.Key, rand.Text()), b.agentNames(r.Context())
	render(w, status, "new.html", b.page("task", "New task", b.state.current(), d))
}

// add makes a task. A form that is sent again makes no second one: it keeps its key.
func (b *Board) add(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		b.say(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return
	}
	key := keyOf(r)
	d := draft{
		Title: text(strings.TrimSpace(r.PostFormValue("title")), maxTitle), Text: written(r.PostFormValue("text")), Key: key,
		Priority: text(r.PostFormValue("priority"), 80), Needs: text(r.PostFormValue("needs"), maxLine), For: text(strings.TrimSpace(r.PostFormValue("agent")), 80),
	}
	if d.Title == "" {
		d.Problem = "Nothing was done: a task needs a title."
		b.draft(w, r, http.StatusConflict, d)
		return
	}
	made, err := b.Daemon.Add(r.Context(), api.AddRequest{
		Title: d.Title, Body: d.Text, Priority: d.Priority, For: d.For,
		DependsOn: strings.FieldsFunc(d.Needs, func(c rune) bool { return c == ',' || c == ' ' }),
	}, key)
	if err != nil {
		if gone(r) {
			return
		}
		b.Log.Warn("an action on the board was refused", "action", "add", claim.AttrTitle, claim.Brief(d.Title), claim.AttrBy, b.User, claim.AttrError, err)
		d.Problem = text(err.Error(), 2*maxLine)
		b.draft(w, r, http.StatusConflict, d)
		return
	}
	b.Log.Info("done on the board", "action", "add", claim.AttrKey, made.Task.Key, claim.AttrTitle, claim.Brief(d.Title), claim.AttrBy, b.User, claim.AttrTask, made.Task.ID)
	b.follower.invalidate(made.Task.ID)
	http.Redirect(w, r, fmt.Sprintf("/tasks/%s?done=add", made.Task.ID), http.StatusSeeOther)
}
