package board

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// action is something that a person may do to a task.
type action struct {
	Verb   string // in the URL
	Name   string // on the button
	Asks   string // the question to confirm
	Done   string // what the page says afterwards
	Reason bool   // it asks for a reason
	Strong bool   // it takes something from somebody
}

var actions = map[string]action{
	"release": {"release", "Release", "Take the task from %s and open it to all? That agent is told that it lost the claim, by whom and why, and is not offered the task for an hour.", "The task was released.", true, true},
	"reopen":  {"reopen", "Reopen", "Put the task back to %s, for anybody to claim?", "The task is open again.", true, false},
	"accept":  {"accept", "Accept", "Accept the offer for %s? The claim is that agent's, from now on.", "The offer was accepted.", false, false},
	"decline": {"decline", "Decline", "Decline the offer in the place of %s? The task is open to all again, and who offered it is told.", "The offer was declined.", true, true},
}

// actions returns the actions possible on a task.
func (b *Board) actions(t api.Task) []action {
	if b.ReadOnly || t.Trashed {
		return nil
	}
	var out []action
	switch {
	case t.ClaimID != "":
		out = append(out, actions["release"])
	case t.Offer != nil:
		out = append(out, actions["accept"], actions["decline"])
	}
	switch t.Status {
	case task.Blocked, task.Failed, task.Review, task.Completed, task.Cancelled:
		out = append(out, actions["reopen"])
	}
	return out
}

// question is a form that asks for confirmation.
type question struct {
	action
	Task    card
	Text    string
	Key     string // the idempotency key of the request
	Said    string // the reason, if the form is shown again
	Problem string // why the action failed
}

// asked finds the task and the action of a request.
func (b *Board) asked(w http.ResponseWriter, r *http.Request) (api.Task, action, bool) {
	id, err := task.ParseTaskID(r.PathValue("id"))
	a, known := actions[r.PathValue("action")]
	if err != nil || !known {
		b.say(w, http.StatusNotFound, "There is no such thing to do", "A task can be released or reopened, and an offer accepted or declined.")
		return api.Task{}, a, false
	}
	t, err := b.Daemon.Task(r.Context(), id)
	if err != nil {
		b.refuse(w, r, "task", a.Name, err)
		return api.Task{}, a, false
	}
	return t, a, true
}

func (b *Board) confirm(w http.ResponseWriter, r *http.Request) {
	t, a, ok := b.asked(w, r)
	if ok {
		b.ask(w, http.StatusOK, t, question{action: a})
	}
}

func (b *Board) ask(w http.ResponseWriter, status int, t api.Task, q question) {
	g := b.state.current()
	q.Task, q.Key = cardOf(t), cmp.Or(q.Key, rand.Text())
	what := q.Task.Agent
	switch {
	case q.Verb == "reopen":
		what = text(cmp.Or(g.words[task.Open], string(task.Open)), 80)
	case t.Offer != nil:
		what = q.Task.OfferedTo
	}
	q.Text = fmt.Sprintf(q.Asks, cmp.Or(what, "its agent"))
	render(w, status, "confirm.html", b.page("task", q.Name, g, q))
}

func (b *Board) act(w http.ResponseWriter, r *http.Request) {
	t, a, ok := b.asked(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		b.say(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return
	}
	q := question{action: a, Said: text(r.PostForm.Get("reason"), maxLine), Key: r.PostForm.Get("key")}
	if api.ValidateKey(q.Key) != nil {
		q.Key = ""
	}
	// Act on the claim, the offer or the status that the person saw.
	was := r.PostForm.Get("was")
	if !slices.Contains(task.AllStatuses(), task.Status(was)) {
		was = "" // the daemon then checks the status
	}
	if err := b.do(r.Context(), t, q, r.PostForm.Get("claim"), was); err != nil {
		if gone(r) {
			return
		}
		if now, err := b.Daemon.Task(r.Context(), t.ID); err == nil {
			t = now // to be seen before a new attempt
		}
		q.Problem, q.Key = text(err.Error(), 2*maxLine), ""
		b.Log.Warn("an action on the board was refused", "action", a.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
			claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrError, err)
		b.ask(w, http.StatusConflict, t, q)
		return
	}
	b.Log.Info("done on the board", "action", a.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
		claim.AttrAgent, cmp.Or(t.Agent, t.AssignedTo), claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrReason, claim.Brief(q.Said))
	b.follower.invalidate(t.ID)
	http.Redirect(w, r, fmt.Sprintf("/tasks/%s?done=%s", t.ID, a.Verb), http.StatusSeeOther)
}

func (b *Board) do(ctx context.Context, t api.Task, q question, claim, was string) error {
	why := b.signed(q.Said)
	var err error
	switch q.Verb {
	case "release":
		if claim == "" || claim != string(t.ClaimID) {
			return errors.New("the claim that this was about is over: nothing was done; look at the task as it is now")
		}
		if q.Said == "" {
			why = "on the board" // who is said already
		}
		_, err = b.Daemon.Release(ctx, claim, api.StopRequest{By: b.User, Reason: why}, q.Key)
	case "reopen":
		_, err = b.Daemon.Reopen(ctx, t.ID, api.ReopenRequest{Note: why, Was: was}, q.Key)
	case "accept", "decline":
		if t.Offer == nil || t.Offer.To != claim {
			return fmt.Errorf("the offer to %s is no longer there: it was answered, or taken back", claim)
		}
		if q.Verb == "accept" {
			_, err = b.Daemon.Accept(ctx, t.ID, api.AcceptRequest{Agent: claim, Note: "accepted " + b.signed("")}, q.Key)
		} else {
			_, err = b.Daemon.Decline(ctx, t.ID, api.DeclineRequest{Agent: claim, Reason: why}, q.Key)
		}
	}
	return err
}

// signed adds the user to a reason.
func (b *Board) signed(reason string) string {
	if reason == "" {
		return fmt.Sprintf("by %s on the board", b.User)
	}
	return fmt.Sprintf("%s (%s on the board)", reason, b.User)
}

func (b *Board) confirmSweep(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "sweep.html", b.page("health", "Sweep", b.state.current(), question{Key: rand.Text()}))
}

func (b *Board) sweep(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("key")
	if api.ValidateKey(key) != nil {
		key = ""
	}
	done, err := b.Daemon.SweepFor(r.Context(), api.SweepRequest{Note: "swept " + b.signed("")}, key)
	if err != nil {
		b.Log.Warn("an action on the board was refused", "action", "sweep", claim.AttrBy, b.User, claim.AttrError, err)
		b.refuse(w, r, "health", "Sweep", err)
		return
	}
	b.Log.Info("done on the board", "action", "sweep", claim.AttrBy, b.User, claim.AttrCount, len(done.Swept))
	var swept []card
	for _, s := range done.Swept {
		b.follower.invalidate(s.Task)
		swept = append(swept, card{ID: s.Task, Title: cmp.Or(text(s.Title, maxTitle), "Untitled"), Agent: text(s.Agent, 80)})
	}
	render(w, http.StatusOK, "swept.html", b.page("health", "Sweep", b.state.current(), swept))
}
