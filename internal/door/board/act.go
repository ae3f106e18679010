package board

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	offer = action{Verb: "offer", Name: "Hand over", To: task.InProgress, Say: "What to tell that agent, if anything", Hand: true, Done: "The task is offered.",
		Will: "Offer the task to one agent? Nobody else gets it until that agent has accepted or declined, or the offer has run out."}
	approve = action{Verb: "approve", Name: "Approve", To: task.Completed, Status: task.Completed, Say: whyLabel, Done: "The task is completed.",
		Will: "Set the task to COMPLETED? What waits for it may then be claimed."}
	giveBack = action{Verb: "return", Name: "Return", To: task.Open, Say: "What is to be done otherwise", Must: true, Long: true, Done: "The task was returned.",
		Will: "Return the task to %s? It is the first that this agent is offered, with your remarks."}
	reopen = action{Verb: "reopen", Name: "Reopen", To: task.Open, Say: whyLabel, Done: "The task is open again.",
		Will: "Put the task back to OPEN, for anybody to claim?"}
	block = action{Verb: "block", Name: "Block", To: task.Blocked, Status: task.Blocked, Say: whyLabel, Done: "The task is blocked.",
		Will: "Set the task to BLOCKED? No agent gets it until somebody opens it again."}
	cancel = action{Verb: "cancel", Name: "Cancel the task", To: task.Cancelled, Status: task.Cancelled, Say: whyLabel, Strong: true, Done: "The task was cancelled.",
		Will: "Set the task to CANCELLED? No agent gets it, and what waits for it waits on."}

	actions = []action{release, accept, decline, answer, approve, giveBack, offer, remark, reopen, block, cancel}
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

// actions returns the actions possible on a task, the first of which is what its state asks for. What
// an agent holds can only be released. A task cannot get a status that the board does without.
func (b *Board) actions(c card) []action {
	if b.ReadOnly || c.Trashed {
		return nil
	}
	return slices.DeleteFunc(actionsOn(c), func(a action) bool { return a.Status != "" && !b.state.has(a.Status) })
}

// primary is the first of them; it has no verb if there is none.
func (b *Board) primary(c card) action {
	if all := b.actions(c); len(all) > 0 {
		return all[0]
	}
	return action{}
}

func actionsOn(c card) []action {
	switch {
	case c.Claim != "":
		return []action{release, remark}
	case c.OfferedTo != "":
		return []action{accept, decline, remark}
	}
	switch c.Status {
	case task.Open:
		if c.Assigned {
			return []action{block, remark, cancel}
		}
		return []action{offer, remark, block, cancel}
	case task.InProgress:
		if c.Agent == "" {
			return []action{reopen, remark, block, cancel}
		}
	case task.Blocked:
		if c.Asks || c.ByAgent {
			return []action{answer, reopen, remark, cancel}
		}
		return []action{reopen, answer, remark, cancel}
	case task.Review:
		return []action{approve, giveBack, remark, cancel}
	case task.Failed:
		return []action{answer, reopen, remark, block, cancel}
	case task.Completed, task.Cancelled:
		return []action{reopen, remark}
	}
	return []action{remark}
}

func (b *Board) possible(c card, a action) bool {
	return slices.ContainsFunc(b.actions(c), func(other action) bool { return other.Verb == a.Verb })
}

// question is a form that asks for confirmation.
type question struct {
	action
	Task    card
	Text    string
	Key     string // the idempotency key of the request
	Seen    shown
	Differs []difference // what is otherwise than in the form that was opened, or sent
	Since   []event      // what happened to the task since then
	Agents  []string     // the agents to choose from
	Said    string       // the text, if the form is shown again
	For     string       // the agent, likewise
	Sure    string       // an agent that nobody has seen, if that was said
	Problem string       // why the action failed
	Refused string       // why there is no form
	Instead []action     // what can be done, if there is no form
}

// confirmPage asks for confirmation, as a page of its own.
func (b *Board) confirmPage(w http.ResponseWriter, r *http.Request) {
	v, err := b.asked(r.Context(), r.PathValue("id"), r.PathValue("action"), r.URL.Query())
	b.answer(w, r, http.StatusOK, v, err)
}

// asked asks for confirmation of an action, or of that by which a card gets into a column.
func (b *Board) asked(ctx context.Context, id, verb string, q url.Values) (view, error) {
	a, known := actionOf(verb)
	to := task.Status(q.Get("to"))
	moved := verb == "move" && slices.Contains(task.AllStatuses(), to)
	if !known && !moved {
		return view{}, &missing{"There is no such thing to do", "What can be done to a task is on its page."}
	}
	t, err := b.find(ctx, id)
	if err != nil {
		return view{Title: "Task"}, err
	}
	if moved {
		can := b.actions(cardOf(t))
		if i := slices.IndexFunc(can, func(a action) bool { return a.To == to }); i >= 0 {
			a = can[i]
		} else {
			a = action{Verb: "move", Name: "Move to " + b.state.current().word(columnOf(string(to))), To: to}
		}
	}
	form := question{action: a}
	if was := q.Get("was"); was != "" { // an open page asks what is otherwise by now
		form.Seen = parseShown(was)
		form.Differs, form.Since = form.Seen.differences(t), b.since(t.ID, form.Seen.At)
	}
	return b.ask(ctx, t, form), nil
}

// ask shows a question, or why the action is not possible.
func (b *Board) ask(ctx context.Context, t api.Task, q question) view {
	g := b.state.current()
	q.Task, q.Key, q.Seen = cardOf(t), cmp.Or(q.Key, newKey()), shownOf(t)
	if !b.possible(q.Task, q.action) {
		q.Refused, q.Instead = refusal(t, q), b.actions(q.Task)
	}
	q.Text = q.Will
	if strings.Contains(q.Will, "%s") {
		q.Text = fmt.Sprintf(q.Will, cmp.Or(q.Task.OfferedTo, q.Task.Agent, "its agent"))
	}
	for _, s := range task.AllStatuses() {
		q.Text = strings.ReplaceAll(q.Text, string(s), g.word(columnOf(string(s))))
	}
	if q.Hand {
		q.Agents = b.knownAgents(ctx)
	}
	return view{Name: "task", Title: q.Name + ": " + q.Task.Title, Template: "confirm.html", Body: q}
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

// knownAgents returns the agents seen lately; none if the daemon does not say.
func (b *Board) knownAgents(ctx context.Context) (names []string) {
	agents, err := client.Do(ctx, b.Daemon, api.OpListAgents, api.ListAgentsInput{})
	if err != nil {
		return nil
	}
	for _, a := range agents.Agents {
		if a.Agent != b.User { // who offers is no agent yet
			names = append(names, text(a.Agent, 80))
		}
	}
	return names
}

// seen reports whether an agent of that name was seen lately, as far as anything is known.
func (b *Board) seen(ctx context.Context, name string) bool {
	known := b.knownAgents(ctx)
	return len(known) == 0 || slices.Contains(known, name)
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
	t, err := b.find(r.Context(), r.PathValue("id"))
	if err != nil {
		b.refuse(w, r, view{Name: "task", Title: "Task"}, err)
		return
	}
	if !b.formOf(w, r) {
		return
	}
	q := question{action: a, Said: text(r.PostForm.Get("text"), maxLine), For: text(strings.TrimSpace(r.PostForm.Get("agent")), 80), Key: cmp.Or(keyOf(r), newKey())}
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
	case a.Hand && r.PostForm.Get("sure") != q.For && !b.seen(r.Context(), q.For):
		q.Sure, q.Problem = q.For, fmt.Sprintf("Nothing was done: no agent %s was seen in the last seven days. Send it again if that is its name.", q.For)
	}
	// What somebody else did meanwhile is shown before it is overwritten.
	if q.Differs = q.Seen.differences(t); len(q.Differs) > 0 {
		q.Key, q.Since = "", b.since(t.ID, q.Seen.At)
	}
	if q.Problem != "" || len(q.Differs) > 0 || !b.possible(cardOf(t), a) {
		b.again(w, r, t.ID, b.ask(r.Context(), t, q), nil)
		return
	}
	if err := b.do(r.Context(), t, &q); err != nil {
		if gone(r) {
			return
		}
		if now, err := b.find(r.Context(), string(t.ID)); err == nil {
			q.Differs, q.Since, t = q.Seen.differences(now), b.since(t.ID, q.Seen.At), now // to be seen before a new attempt
		}
		q.Problem = text(err.Error(), 2*maxLine)
		if _, refused := errors.AsType[*api.Problem](err); refused {
			q.Key = "" // else it may have been done: the same key does it once
		}
		b.again(w, r, t.ID, b.ask(r.Context(), t, q), nil)
		return
	}
	b.finished.add(q.Key, b.done(w, r, t.ID, a.Verb, fmt.Sprintf("/tasks/%s?done=%s", t.ID, a.Verb)))
}

// newKey returns an idempotency key.
func newKey() string { return rand.Text() }

// keyOf returns the idempotency key of a form; empty for none.
func keyOf(r *http.Request) string {
	key := r.PostFormValue("key")
	if api.ValidateKey(key) != nil {
		return ""
	}
	return key
}

// do does what q asks for, to the claim, the offer or the status that the person saw, and logs it.
func (b *Board) do(ctx context.Context, t api.Task, q *question) error {
	err := b.request(ctx, t, q)
	if err != nil {
		b.Log.Warn("an action on the board was refused", "action", q.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
			claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrError, err)
		return err
	}
	b.Log.Info("done on the board", "action", q.Verb, claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title),
		claim.AttrAgent, cmp.Or(q.For, t.Agent, t.AssignedTo), claim.AttrBy, b.User, claim.AttrTask, t.ID, claim.AttrReason, claim.Brief(q.Said))
	b.contents.forget(t.ID)
	if now, err := b.find(ctx, string(t.ID)); err == nil { // the next page has it
		b.state.change([]card{cardOf(now)}, nil)
	}
	b.follower.invalidate(t.ID)
	return nil
}

func (b *Board) request(ctx context.Context, t api.Task, q *question) error {
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
	case "return":
		_, err = client.Do(ctx, b.Daemon, api.OpReopen, api.ReopenInput{ID: string(t.ID), Key: q.Key, Body: &api.ReopenRequest{Note: why, Was: string(t.Status), Holder: holder}})
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

// formPage asks for what belongs to no task, as a page of its own.
func (b *Board) formPage(w http.ResponseWriter, r *http.Request) {
	v, err := b.form(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query())
	b.answer(w, r, http.StatusOK, v, err)
}

// form returns a form that belongs to no task.
func (b *Board) form(ctx context.Context, do string, q url.Values) (view, error) {
	switch do {
	case "new":
		return b.draft(ctx, draft{Needs: text(q.Get("after"), maxLine)}), nil
	case "sweep":
		return view{Name: "health", Title: "Sweep", Template: "sweep.html", Body: question{Key: newKey()}}, nil
	case "pause":
		return view{Name: "health", Title: "Pause", Template: "pause.html", Body: b.knownAgents(ctx)}, nil
	}
	return view{}, &missing{"There is no such thing to do", "The board has forms for a new task, a sweep and a pause."}
}

func (b *Board) sweep(w http.ResponseWriter, r *http.Request) {
	done, err := client.Do(r.Context(), b.Daemon, api.OpSweep, api.SweepOf(keyOf(r), api.SweepRequest{Note: "swept " + b.signed("")}))
	if b.logged(w, r, "sweep", err, claim.AttrCount, len(done.Swept)) {
		var swept []card
		for _, s := range done.Swept {
			b.follower.invalidate(s.Task)
			swept = append(swept, card{ID: s.Task, Title: cmp.Or(text(s.Title, maxTitle), "Untitled"), Agent: text(s.Agent, 80)})
		}
		v := view{Name: "health", Title: "Sweep", Template: "swept.html", Body: swept, Every: answered}
		if at := b.back(r); at != nil {
			b.showList(w, r, http.StatusOK, at, &v)
			return
		}
		b.answer(w, r, http.StatusOK, v, nil)
	}
}

// sync has the daemon bring its copy of the board up to date.
func (b *Board) sync(w http.ResponseWriter, r *http.Request) {
	_, err := client.Do(r.Context(), b.Daemon, api.OpSync, api.Keyed("", &api.SyncRequest{}))
	if b.logged(w, r, "sync", err) {
		http.Redirect(w, r, "/health", http.StatusSeeOther)
	}
}

func (b *Board) pause(w http.ResponseWriter, r *http.Request) {
	minutes, err := strconv.ParseFloat(cmp.Or(r.FormValue("minutes"), "0"), 64)
	if err != nil {
		b.say(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return
	}
	agent := text(strings.TrimSpace(r.FormValue("agent")), 80)
	done, err := client.Do(r.Context(), b.Daemon, api.OpPause, api.Keyed("", &api.PauseRequest{
		By: b.User, Agent: agent, ForSeconds: 60 * minutes, Reason: cmp.Or(text(r.FormValue("text"), maxLine), "on the board"),
	}))
	if b.logged(w, r, "pause", err, claim.AttrAgent, agent) {
		b.state.setPauses(done.Pauses)
		b.done(w, r, "", "pause", "/?done=pause")
	}
}

func (b *Board) resume(w http.ResponseWriter, r *http.Request) {
	done, err := client.Do(r.Context(), b.Daemon, api.OpResume, api.Keyed("", &api.ResumeRequest{Agent: r.FormValue("agent"), By: b.User}))
	if b.logged(w, r, "resume", err) {
		b.state.setPauses(done.Pauses)
		b.done(w, r, "", "resume", "/?done=resume")
	}
}

// logged logs what became of an action that belongs to no task, and answers if it was refused: then
// it returns false.
func (b *Board) logged(w http.ResponseWriter, r *http.Request, action string, err error, more ...any) bool {
	if err != nil {
		b.Log.Warn("an action on the board was refused", "action", action, claim.AttrBy, b.User, claim.AttrError, err)
		b.refuse(w, r, view{Name: "health", Title: action}, err)
		return false
	}
	b.Log.Info("done on the board", append([]any{"action", action, claim.AttrBy, b.User}, more...)...)
	return true
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

// draft is the form for a new task.
type draft struct {
	Title, Text, Priority, Needs, For string
	Key                               string
	Sample                            string // the key of some task
	Agents                            []string
	Problem                           string
}

// Priorities are those to choose from.
func (draft) Priorities() []string { return []string{"critical", "high", "medium", "low"} }

func (b *Board) draft(ctx context.Context, d draft) view {
	d.Key, d.Agents = cmp.Or(d.Key, newKey()), b.knownAgents(ctx)
	if cards := b.state.current().Cards; len(cards) > 0 {
		d.Sample = cards[0].Key
	}
	return view{Name: "task", Title: "New task", Template: "new.html", Body: d}
}

// add makes a task. A form that is sent again makes no second one: it keeps its key.
func (b *Board) add(w http.ResponseWriter, r *http.Request) {
	if !b.formOf(w, r) {
		return
	}
	key := keyOf(r)
	d := draft{
		Title: text(strings.TrimSpace(r.PostFormValue("title")), maxTitle), Text: written(r.PostFormValue("text")), Key: key,
		Priority: text(r.PostFormValue("priority"), 80), Needs: text(r.PostFormValue("needs"), maxLine), For: text(strings.TrimSpace(r.PostFormValue("agent")), 80),
	}
	if d.Title == "" {
		d.Problem = "Nothing was done: a task needs a title."
		b.again(w, r, "", b.draft(r.Context(), d), nil)
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
		if _, refused := errors.AsType[*api.Problem](err); refused {
			d.Key = "" // else it may have been made: the same key makes it once
		}
		d.Problem = text(err.Error(), 2*maxLine)
		b.again(w, r, "", b.draft(r.Context(), d), nil)
		return
	}
	b.Log.Info("done on the board", "action", "add", claim.AttrKey, made.Task.Key, claim.AttrTitle, claim.Brief(d.Title), claim.AttrBy, b.User, claim.AttrTask, made.Task.ID)
	b.follower.invalidate(made.Task.ID)
	b.done(w, r, made.Task.ID, "add", fmt.Sprintf("/tasks/%s?done=add", made.Task.ID))
}

// bulk is a form about several tasks.
type bulk struct {
	action
	Tasks  []question
	Agents []string
	For    string
	Did    bool // it was sent: each task has a Problem, or was done
	Key    string
}

// bulkOf is the address of the form.
func bulkOf(verb string, ids []task.ID) string {
	q := url.Values{"do": {verb}}
	for _, id := range ids {
		q.Add("task", string(id))
	}
	return "/bulk?" + q.Encode()
}

// bulkActions are what can be done to several tasks at once, and maxBulk is to how many.
var bulkActions = []action{reopen, offer}

const maxBulk = 50

// bulkPage asks whether to do something to several tasks, and does it to those that are as they were
// shown.
func (b *Board) bulkPage(w http.ResponseWriter, r *http.Request) {
	if !b.formOf(w, r) {
		return
	}
	i := slices.IndexFunc(bulkActions, func(a action) bool { return a.Verb == r.Form.Get("do") })
	ids := r.Form["task"]
	if i < 0 || len(ids) == 0 || len(ids) > maxBulk {
		b.say(w, http.StatusBadRequest, "There is nothing to do", fmt.Sprintf("Select 1 to %d tasks on the board, and then what to do with them.", maxBulk))
		return
	}
	form := bulk{action: bulkActions[i], For: text(strings.TrimSpace(r.Form.Get("agent")), 80), Did: r.Method == http.MethodPost && r.Form.Get("key") != "", Key: cmp.Or(keyOf(r), newKey())}
	if form.Agents = b.knownAgents(r.Context()); form.Did && form.Hand && form.For == "" {
		b.say(w, http.StatusBadRequest, "Nothing was done", "Say to which agent: go back.")
		return
	}
	for n, id := range ids {
		t, err := b.find(r.Context(), id)
		q := question{action: form.action, Task: cardOf(t), Seen: shownOf(t), For: form.For, Said: text(r.Form.Get("text"), maxLine), Key: fmt.Sprintf("%s-%s", form.Key, id)}
		_, did := b.finished.of(q.Key) // sent twice
		switch seen := r.Form["seen"]; {
		case err != nil:
			q.Task = card{Title: text(id, 80)}
			q.Problem = text(err.Error(), 2*maxLine)
		case form.Did && did:
		case !b.possible(q.Task, form.action):
			q.Problem = refusal(t, q)
		case !form.Did:
		case n >= len(seen) || len(parseShown(seen[n]).differences(t)) > 0:
			q.Problem = "Somebody changed it since: look at it first."
		default:
			if err := b.do(r.Context(), t, &q); err != nil {
				q.Problem = text(err.Error(), 2*maxLine)
			} else {
				b.finished.add(q.Key, "")
			}
		}
		form.Tasks = append(form.Tasks, q)
	}
	v := view{Name: "tasks", Title: form.Name, Template: "bulk.html", Body: form}
	if form.Did {
		v.Every = answered
	}
	b.answer(w, r, http.StatusOK, v, nil)
}
