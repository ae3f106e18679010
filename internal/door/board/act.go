package board

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// action is something that a person may do to a task.
type action struct {
	Verb   string      // in the URL
	Name   string      // on the button
	Will   string      // what will happen, in one line
	Done   string      // what the page says afterwards
	To     task.Status // the column into which a card is dragged for it
	Status task.Status // what the task is set to, where dibs is asked for just that
	Say    string      // the label of a field for a text; empty for none
	Must   bool        // the text is needed
	Long   bool        // it may have several lines
	Hand   bool        // it asks for an agent
	Strong bool        // it takes something from somebody
}

// The actions. Will may name who has the task, or whom it is offered to.
var (
	release = action{Verb: "release", Name: "Release", To: task.Open, Say: whyLabel, Strong: true, Done: "The task was released.",
		Will: "Take the task from %s and open it to all? That agent is told that it lost the claim, by whom and why, and is not offered the task for an hour."}
	accept = action{Verb: "accept", Name: "Accept", To: task.InProgress, Done: "The offer was accepted.",
		Will: "Accept the offer for %s? The claim is that agent's, from now on."}
	decline = action{Verb: "decline", Name: "Decline", To: task.Open, Say: whyLabel, Strong: true, Done: "The offer was declined.",
		Will: "Decline the offer in the place of %s? The task is open to all again, and who offered it is told."}
	answer = action{Verb: "answer", Name: "Answer", Say: "Your answer", Must: true, Long: true, Done: "The answer is a comment on the page, and the task is open again.",
		Will: "Put your answer on the page as a comment, and open the task again? The agent that asked is told, and any agent may claim it."}
	remark = action{Verb: "comment", Name: "Comment", Say: "Your comment", Must: true, Long: true, Done: "The comment is on the page.",
		Will: "Put a comment on the page? An agent that works on the task is told; its status stays."}
	offer = action{Verb: "offer", Name: "Hand to", To: task.InProgress, Say: "What to tell that agent, if anything", Hand: true, Done: "The task is offered.",
		Will: "Offer the task to one agent? Nobody else gets it until that agent has accepted or declined, or the offer has run out."}
	approve = action{Verb: "approve", Name: "Approve", To: task.Completed, Status: task.Completed, Say: whyLabel, Done: "The task is completed.",
		Will: "Set the task to COMPLETED? What waits for it may then be claimed."}
	reopen = action{Verb: "reopen", Name: "Reopen", To: task.Open, Say: whyLabel, Done: "The task is open again.",
		Will: "Put the task back to OPEN, for anybody to claim?"}
	block = action{Verb: "block", Name: "Block", To: task.Blocked, Status: task.Blocked, Say: whyLabel, Done: "The task is blocked.",
		Will: "Set the task to BLOCKED? No agent gets it until somebody opens it again."}
	cancel = action{Verb: "cancel", Name: "Cancel the task", To: task.Cancelled, Status: task.Cancelled, Say: whyLabel, Strong: true, Done: "The task was cancelled.",
		Will: "Set the task to CANCELLED? No agent gets it, and what waits for it waits on."}

	actions = []action{release, accept, decline, answer, approve, offer, remark, reopen, block, cancel}
)

// whyLabel is the label of a field for a reason.
const whyLabel = "Why, if you like to say"

func actionOf(verb string) (action, bool) {
	i := slices.IndexFunc(actions, func(a action) bool { return a.Verb == verb })
	if i < 0 {
		return action{}, false
	}
	return actions[i], true
}

// actions returns the actions possible on a task. What an agent holds can only be released. A task
// cannot get a status that the board does without.
func (b *Board) actions(t api.Task) []action {
	if b.ReadOnly || t.Trashed {
		return nil
	}
	return slices.DeleteFunc(actionsOn(t), func(a action) bool { return a.Status != "" && !b.state.has(a.Status) })
}

func actionsOn(t api.Task) []action {
	switch {
	case t.ClaimID != "":
		return []action{release, remark}
	case t.Offer != nil:
		return []action{accept, decline, remark}
	}
	switch t.Status {
	case task.Open:
		if t.AssignedTo != "" {
			return []action{remark, block, cancel}
		}
		return []action{offer, remark, block, cancel}
	case task.InProgress:
		if t.Agent == "" && t.AssignedTo == "" {
			return []action{remark, reopen, block, cancel}
		}
	case task.Blocked:
		return []action{answer, remark, reopen, cancel}
	case task.Review:
		return []action{approve, remark, reopen, cancel}
	case task.Failed:
		return []action{answer, remark, reopen, block, cancel}
	case task.Completed, task.Cancelled:
		return []action{remark, reopen}
	}
	return []action{remark}
}

func (b *Board) possible(t api.Task, a action) bool {
	return slices.ContainsFunc(b.actions(t), func(other action) bool { return other.Verb == a.Verb })
}

// question is a form that asks for confirmation.
type question struct {
	action
	Task    card
	Text    string
	Key     string // the idempotency key of the request
	Seen    shown
	Differs []difference // what is otherwise than in the form that was sent
	Since   []event      // what happened to the task since then
	Agents  []string     // the agents to choose from
	Said    string       // the text, if the form is shown again
	For     string       // the agent, likewise
	Problem string       // why the action failed
	Refused string       // why there is no form
	Instead []action     // what can be done, if there is no form
}

// confirm asks for confirmation of an action, or of that by which a card gets into a column.
func (b *Board) confirm(w http.ResponseWriter, r *http.Request) {
	a, known := actionOf(r.PathValue("action"))
	to := task.Status(r.URL.Query().Get("to"))
	moved := r.PathValue("action") == "move" && slices.Contains(task.AllStatuses(), to)
	if !known && !moved {
		b.say(w, http.StatusNotFound, "There is no such thing to do", "What can be done to a task is on its page.")
		return
	}
	t, ok := b.taskOf(w, r)
	if !ok {
		return
	}
	if moved {
		can := b.actions(t)
		i := slices.IndexFunc(can, func(a action) bool { return a.To == to })
		if i < 0 {
			a = action{Verb: "move", Name: "Move to " + b.state.current().called(columnOf(string(to))).Name, To: to}
		} else {
			a = can[i]
		}
	}
	b.ask(w, r, http.StatusOK, t, question{action: a})
}

// ask shows a question, or why the action is not possible.
func (b *Board) ask(w http.ResponseWriter, r *http.Request, status int, t api.Task, q question) {
	g := b.state.current()
	q.Task, q.Key, q.Seen = cardOf(t), cmp.Or(q.Key, rand.Text()), shownOf(t)
	if !b.possible(t, q.action) {
		q.Refused, q.Instead = refusal(t, q), b.actions(t)
	}
	q.Text = q.Will
	if strings.Contains(q.Will, "%s") {
		q.Text = fmt.Sprintf(q.Will, cmp.Or(q.Task.OfferedTo, q.Task.Agent, "its agent"))
	}
	for _, s := range task.AllStatuses() {
		q.Text = strings.ReplaceAll(q.Text, string(s), text(cmp.Or(g.words[s], string(s)), 80))
	}
	if q.Hand {
		q.Agents = b.agentNames(r.Context())
	}
	render(w, status, "confirm.html", b.page("task", q.Name, g, q))
}

// refusal says why an action is not possible on a task.
func refusal(t api.Task, q question) string {
	switch {
	case t.Trashed:
		return "The task is in the trash: restore it in Notion first."
	case q.To == t.Status && t.Status != "":
		return fmt.Sprintf("It is %s already.", q.Task.Standing)
	case t.ClaimID != "":
		return fmt.Sprintf("%s works on it: release it first, and then go on.", q.Task.Agent)
	case t.Offer != nil:
		return fmt.Sprintf("It is offered to %s: accept or decline the offer first.", q.Task.OfferedTo)
	case q.Task.Agent != "" && t.Status == task.InProgress:
		return fmt.Sprintf("%s has it, and not through this daemon: that has to be changed where it was claimed, or in Notion.", q.Task.Agent)
	case q.Verb == "move":
		return "People do not set this status here: it comes from what agents do."
	}
	return fmt.Sprintf("It is %s now, and that cannot be done.", q.Task.Standing)
}

// agentNames returns the agents seen lately; none if the daemon does not say.
func (b *Board) agentNames(ctx context.Context) (names []string) {
	agents, err := client.Do(ctx, b.Daemon, api.OpListAgents, api.ListAgentsInput{})
	if err != nil {
		return nil
	}
	for _, a := range agents.Agents {
		names = append(names, text(a.Agent, 80))
	}
	return names
}

// maxText limits a text of several lines, in characters.
const maxText = 4000

// written returns a text from a form, with its lines.
func written(s string) string {
	s = strings.TrimSpace(task.Plain(s))
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText])
	}
	return s
}

func (b *Board) act(w http.ResponseWriter, r *http.Request) {
	a, known := actionOf(r.PathValue("action"))
	if !known {
		b.say(w, http.StatusNotFound, "There is no such thing to do", "What can be done to a task is on its page.")
		return
	}
	t, ok := b.taskOf(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		b.say(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return
	}
	q := question{action: a, Said: text(r.PostForm.Get("text"), maxLine), For: text(strings.TrimSpace(r.PostForm.Get("agent")), 80), Key: cmp.Or(keyOf(r), rand.Text())}
	if to, done := b.finished.of(q.Key); done { // sent twice
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	if a.Long {
		q.Said = written(r.PostForm.Get("text"))
	}
	q.Seen = parseShown(r.PostForm.Get("seen"))
	switch {
	case a.Must && q.Said == "":
		q.Problem = "Nothing was done: say something first."
	case a.Hand && q.For == "":
		q.Problem = "Nothing was done: say to which agent."
	}
	// What somebody else did meanwhile is shown before it is overwritten.
	if q.Differs = q.Seen.differences(t); len(q.Differs) > 0 {
		q.Key, q.Since = "", b.since(t.ID, q.Seen.At)
	}
	if q.Problem != "" || len(q.Differs) > 0 || !b.possible(t, a) {
		b.ask(w, r, http.StatusConflict, t, q)
		return
	}
	if err := b.do(r.Context(), t, &q); err != nil {
		if gone(r) {
			return
		}
		if now, err := client.Do(r.Context(), b.Daemon, api.OpGetTask, api.GetTaskInput{ID: string(t.ID)}); err == nil {
			q.Differs, q.Since, t = q.Seen.differences(now), b.since(t.ID, q.Seen.At), now // to be seen before a new attempt
		}
		q.Problem = text(err.Error(), 2*maxLine)
		if _, refused := errors.AsType[*api.Problem](err); refused {
			q.Key = "" // else it may have been done: the same key does it once
		}
		b.Log.Warn("an action on the board was refused", "action", a.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
			claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrError, err)
		b.ask(w, r, http.StatusConflict, t, q)
		return
	}
	b.Log.Info("done on the board", "action", a.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
		claim.AttrAgent, cmp.Or(q.For, t.Agent, t.AssignedTo), claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrReason, claim.Brief(q.Said))
	b.follower.invalidate(t.ID)
	b.contents.forget(t.ID)
	to := fmt.Sprintf("/tasks/%s?done=%s", t.ID, a.Verb)
	if r.PostForm.Get("back") != "" {
		to = "/?done=" + a.Verb
	}
	b.finished.add(q.Key, to)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// keyOf returns the idempotency key of a form; empty for none.
func keyOf(r *http.Request) string {
	key := r.PostFormValue("key")
	if api.ValidateKey(key) != nil {
		return ""
	}
	return key
}

// do does what q asks for, to the claim, the offer or the status that the person saw.
func (b *Board) do(ctx context.Context, t api.Task, q *question) error {
	why, holder := b.signed(q.Said), cmp.Or(t.AssignedTo, t.Agent)
	var err error
	switch q.Verb {
	case "release":
		if q.Said == "" {
			why = "on the board" // who is said already
		}
		_, err = client.Do(ctx, b.Daemon, api.OpRelease, api.On(string(t.ClaimID), q.Key, api.StopRequest{By: b.User, Reason: why}))
	case "accept":
		_, err = client.Do(ctx, b.Daemon, api.OpAccept, api.OnTask(t.ID, q.Key, api.AcceptRequest{Agent: t.Offer.To, Note: "accepted " + b.signed("")}))
	case "decline":
		_, err = client.Do(ctx, b.Daemon, api.OpDecline, api.OnTask(t.ID, q.Key, api.DeclineRequest{Agent: t.Offer.To, Reason: why}))
	case "offer":
		_, err = client.Do(ctx, b.Daemon, api.OpOffer, api.OnTask(t.ID, q.Key, api.OfferRequest{Agent: b.User, To: q.For, Text: why}))
	case "comment":
		_, err = client.Do(ctx, b.Daemon, api.OpComment, api.OnTask(t.ID, q.Key, api.CommentRequest{Text: why}))
	case "answer":
		if _, err = client.Do(ctx, b.Daemon, api.OpComment, api.OnTask(t.ID, q.Key, api.CommentRequest{Text: why})); err != nil {
			return err
		}
		if _, err = client.Do(ctx, b.Daemon, api.OpReopen, api.ReopenInput{ID: string(t.ID), Key: q.Key + " reopen", Body: &api.ReopenRequest{Note: "answered " + b.signed(""), Was: string(t.Status), Holder: holder}}); err != nil {
			q.action, q.Said = reopen, "" // the answer is not to be said twice
			return fmt.Errorf("the answer is on the page, and %w", err)
		}
	default: // a change of status
		_, err = client.Do(ctx, b.Daemon, api.OpReopen, api.ReopenInput{ID: string(t.ID), Key: q.Key, Body: &api.ReopenRequest{Note: why, Was: string(t.Status), Holder: holder, Status: string(q.Status)}})
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
	done, err := client.Do(r.Context(), b.Daemon, api.OpSweep, api.SweepOf(keyOf(r), api.SweepRequest{Note: "swept " + b.signed("")}))
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

// sync has the daemon bring its copy of the board up to date.
func (b *Board) sync(w http.ResponseWriter, r *http.Request) {
	if _, err := client.Do(r.Context(), b.Daemon, api.OpSync, api.Keyed("", &api.SyncRequest{})); err != nil {
		b.Log.Warn("an action on the board was refused", "action", "sync", claim.AttrBy, b.User, claim.AttrError, err)
		b.refuse(w, r, "health", "Sync", err)
		return
	}
	b.Log.Info("done on the board", "action", "sync", claim.AttrBy, b.User)
	http.Redirect(w, r, "/health", http.StatusSeeOther)
}

// since returns what happened to a task after a moment, as far as the board knows.
func (b *Board) since(id task.ID, ms int64) (events []event) {
	for _, e := range b.state.current().Events {
		if e.Task == id && e.At > ms {
			events = append(events, e)
		}
	}
	return events[max(0, len(events)-5):]
}

func (b *Board) pause(w http.ResponseWriter, r *http.Request) {
	done, err := client.Do(r.Context(), b.Daemon, api.OpPause, api.Keyed("", &api.PauseRequest{By: b.User, Reason: "on the board"}))
	b.braked(w, r, "Pause", done, err)
}

func (b *Board) resume(w http.ResponseWriter, r *http.Request) {
	done, err := client.Do(r.Context(), b.Daemon, api.OpResume, api.Keyed("", &api.ResumeRequest{Agent: r.FormValue("agent"), By: b.User}))
	b.braked(w, r, "Resume", done, err)
}

// braked goes back to the board, which shows what is paused by now.
func (b *Board) braked(w http.ResponseWriter, r *http.Request, action string, done api.Paused, err error) {
	if err != nil {
		b.Log.Warn("an action on the board was refused", "action", action, claim.AttrBy, b.User, claim.AttrError, err)
		b.refuse(w, r, "health", action, err)
		return
	}
	b.Log.Info("done on the board", "action", action, claim.AttrBy, b.User)
	b.state.setPauses(done.Pauses)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

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
	made, err := client.Do(r.Context(), b.Daemon, api.OpAddTask, api.AddInput{Key: key, Body: api.AddRequest{
		Title: d.Title, Body: d.Text, Priority: d.Priority, For: d.For,
		DependsOn: strings.FieldsFunc(d.Needs, func(c rune) bool { return c == ',' || c == ' ' }),
	}})
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
