package daemon_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// poll takes an agent's triggers.
func (n *node) poll(agent string, wait time.Duration) []api.Trigger {
	n.w.Helper()
	got, err := client.Do(n.w.Context(), n.Client, api.OpPoll, api.PollInput{Name: agent, Body: &api.PollRequest{WaitSeconds: wait.Seconds()}})
	if err != nil {
		n.w.Fatal(err)
	}
	return got.Triggers
}

// about formats a trigger as "type title".
func about(t api.Trigger) string {
	if t.Task == nil {
		return string(t.Type)
	}
	return string(t.Type) + " " + t.Task.Title
}

// react takes and acknowledges an agent's triggers, and returns them as "type from: text", with the
// title of the task.
func (n *node) react(agent string, wait time.Duration) []string {
	n.w.Helper()
	triggers := n.poll(agent, wait)
	var texts, ids []string
	for _, t := range triggers {
		line := about(t)
		if t.From != "" {
			line += " from " + t.From
		}
		if t.Text != "" {
			line += ": " + t.Text
		}
		if t.Count > 0 {
			line += strings.Repeat(" one", t.Count)
		}
		texts, ids = append(texts, line), append(ids, t.ID)
		if t.Agent != agent || t.ID == "" || t.At.IsZero() {
			n.w.Errorf("a trigger for %s: %+v", agent, t)
		}
	}
	if len(ids) > 0 {
		acked, err := n.Ack(n.w.Context(), agent, api.AckRequest{IDs: ids}, "")
		if err != nil || len(acked.Unknown) > 0 || len(acked.Acknowledged) != len(ids) {
			n.w.Errorf("ack: %+v, %v", acked, err)
		}
	}
	return texts
}

// wantInbox checks an agent's triggers.
func (n *node) wantInbox(agent string, wait time.Duration, want ...string) {
	n.w.Helper()
	if diff := cmp.Diff(want, n.react(agent, wait)); diff != "" {
		n.w.Errorf("%s is told (-want +got):\n%s", agent, diff)
	}
}

func TestTriggersOfTasks(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) { c.Agents = nil })
		n := w.start(o)
		n.wantInbox("Oracle", 0)
		a := w.add("Alpha", nil)
		b := w.add("Beta", nil)
		n.wantInbox("Oracle", time.Minute, "tasks_available one one")
		n.wantInbox("Oracle", time.Minute)
		// A lead subscribes to finished tasks.
		if _, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: "Lead", Body: &api.PollRequest{Finished: true}}); err != nil {
			w.Fatal(err)
		}

		cl := n.mustClaim("Sandman", a)
		mustDo(w, n.complete(cl))
		n.stop()
		n = w.start(o)
		n.wantInbox("Lead", 0, "task_finished Alpha from Sandman: done")

		// A person removes the name from a held task, and puts another on it.
		n.mustClaim("Sandman", b)
		w.edit(b, map[string]any{"claimed_by": text("rich_text", "Maria")})
		lost := n.react("Sandman", time.Minute)
		if len(lost) == 0 || !strings.HasPrefix(lost[0], "claim_lost Beta from Maria: ") {
			w.Errorf("told %q, want the loss of Beta", lost)
		}
		n.wantInbox("Oracle", 0)
		c := w.add("Gamma", map[string]any{"claimed_by": text("rich_text", "Oracle")})
		n.wantInbox("Oracle", time.Minute, "task_assigned Gamma")
		// There were no ready tasks, and now there is one again.
		w.add("Delta", nil)
		n.wantInbox("Oracle", time.Minute, "tasks_available one one") // Gamma, too
		n.mustClaim("Oracle", c)
		n.wantInbox("Oracle", time.Minute)
		n.stop()
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mesh := w.notion.Databases().MeshLog
		write := func(title string, props map[string]any) {
			all := map[string]any{"Name": text("title", title)}
			for name, value := range props {
				all[name] = value
			}
			if _, err := w.notion.CreatePage(mesh, all); err != nil {
				w.Fatal(err)
			}
		}
		write("@Oracle the plan has changed", nil)
		o := w.options(nil)
		n := w.start(o)
		n.wantInbox("Oracle", 0, "message: @Oracle the plan has changed")

		send := func(n *node, from, to, body string) api.Message {
			w.Helper()
			m, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: from, To: to, Text: body}))
			if err != nil {
				w.Fatal(err)
			}
			return m
		}
		send(n, "Sandman", "Oracle", "hello\nthere")
		n.wantInbox("Oracle", 0, "message from Sandman: hello\nthere")
		n.wantInbox("Merlin", 0)
		if m := send(n, "Sandman", "all", "to everybody"); !slices.Equal(m.Agents, []string{"Merlin", "Oracle"}) {
			w.Errorf("sent to %q", m.Agents)
		}
		n.wantInbox("Oracle", 0, "message from Sandman: to everybody")
		n.wantInbox("Merlin", 0, "message from Sandman: to everybody")
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"message: ", "message: "}, slices.DeleteFunc(w.mesh(), func(s string) bool { return s == ": " })); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}

		write("from another program", map[string]any{"from": text("rich_text", "cron"), "to": text("rich_text", "Oracle; Merlin"), "message": text("rich_text", "backup done")})
		n.wantInbox("Oracle", time.Minute, "message from cron: backup done")
		n.wantInbox("Merlin", time.Minute, "message from cron: backup done")
		n.stop()
		n = w.start(o)
		n.wantInbox("Oracle", 2*time.Minute) // each once, even with restarts

		// Another daemon's messages arrive, its entries about claims do not. Oracle cannot take the
		// task meanwhile.
		id := w.add("ask @Oracle about it", map[string]any{"claimed_by": text("rich_text", "Ghost")})
		other := w.daemon(nil)
		cl := other.mustClaim("Ghost", id)
		send(other, "Ghost", "Oracle", "from afar")
		if err := other.complete(cl); err != nil {
			w.Error(err)
		}
		n.wantInbox("Oracle", 10*time.Minute, "message from Ghost: from afar")
		n.wantInbox("Oracle", 10*time.Minute)
		other.stop()
		n.stop()
	})
}

func TestOffers(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		a := w.add("Alpha", nil)
		n := w.daemon(func(c *config.Config) { c.Claim.MaxPerAgent = 1 })
		offer := func(id string) error {
			_, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(id), "", api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "you know this"}))
			return err
		}
		refused := func(agent, id string) {
			w.Helper()
			if _, err := n.claim(agent, id); code(err) != denied(claim.CodeReserved) {
				w.Errorf("%s: err = %v, want reserved", agent, err)
			}
		}
		n.wantInbox("Oracle", 0, "tasks_available one")

		// An open task is offered, and accepted.
		mustDo(w, offer(a))
		if p := w.page(a); p.Text("claimed_by") != "Oracle" {
			w.Errorf("the page shows %q", p.Text("claimed_by"))
		}
		n.wantInbox("Oracle", 0, "task_offered Alpha from Sandman: you know this")
		refused("Sandman", a)
		refused("Merlin", a)
		shown, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: a})
		if err != nil || shown.Offer == nil || shown.Offer.State != "reviewing" || shown.Offer.From != "Sandman" || shown.Offer.To != "Oracle" {
			w.Errorf("the task is shown as %+v, %v", shown.Offer, err)
		}
		cl, err := client.Do(w.Context(), n.Client, api.OpAccept, api.OnTask(task.ID(a), "", api.AcceptRequest{Agent: "Oracle"}))
		if err != nil || cl.Agent != "Oracle" {
			w.Fatalf("accepted: %+v, %v", cl, err)
		}
		if shown, _ := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: a}); shown.Offer != nil {
			w.Errorf("the offer is there after it was accepted: %+v", shown.Offer)
		}
		n.wantInbox("Oracle", time.Minute)

		// A held task is offered to an agent that has reached its limit, and declined.
		b := w.add("Beta", nil)
		time.Sleep(time.Minute)
		n.react("Oracle", 0)
		n.mustClaim("Sandman", b)
		if err := offer(a); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		mustDo(w, offer(b))
		n.wantInbox("Oracle", time.Minute, "task_offered Beta from Sandman: you know this")
		if _, err := client.Do(w.Context(), n.Client, api.OpDecline, api.OnTask(task.ID(b), "", api.DeclineRequest{Agent: "Merlin"})); code(err) != denied(claim.CodeReserved) {
			w.Errorf("err = %v, want reserved", err)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpDecline, api.OnTask(task.ID(b), "", api.DeclineRequest{Agent: "Oracle", Reason: "no time"})); err != nil {
			w.Fatal(err)
		}
		if told := n.react("Sandman", 0); !slices.Contains(told, "message Beta from Oracle: declined: no time") {
			w.Errorf("Sandman is told %q", told)
		}
		if p := w.page(b); p.Text("claimed_by") != "" {
			w.Errorf("the page shows %q", p.Text("claimed_by"))
		}

		// An offer that nobody answers.
		mustDo(w, offer(b))
		time.Sleep(config.Default().Inbox.Offer + time.Minute)
		if p := w.page(b); p.Text("claimed_by") != "" {
			w.Errorf("the page shows %q after the offer ended", p.Text("claimed_by"))
		}
		n.wantInbox("Sandman", 0, "message Beta from Oracle: not answered in time; the task is open to all again", "tasks_available one")
		for _, line := range n.react("Oracle", 0) {
			if strings.HasPrefix(line, "task_") && !strings.HasPrefix(line, "tasks_available") {
				w.Errorf("Oracle is told %q of an offer that is over", line)
			}
		}
		n.mustClaim("Merlin", b)
		n.stop()

		// The record tells who did what, and of no claim that was made to hand a task on.
		var told []string
		for _, p := range w.notion.Pages(w.notion.Databases().MeshLog) {
			if event := p.Select("event"); event != "contested" && event != "denied" {
				told = append(told, fmt.Sprint(event, " ", p.Text("agent"), " ", p.Text("holder")))
			}
		}
		slices.Sort(told)
		want := []string{
			"accepted Oracle Sandman", "declined Oracle Sandman", "expired Sandman Oracle", "granted Merlin ", "granted Sandman ",
			"offered Sandman Oracle", "offered Sandman Oracle", "offered Sandman Oracle",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			w.Errorf("the mesh log (-want +got):\n%s", diff)
		}
	})
}

// A message is sent once per key, even if the daemon is killed before it has saved the answer.
func TestSendOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		n := w.start(o)
		send := func(key string) api.Message {
			w.Helper()
			m, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed(key, api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}))
			mustDo(w, err)
			return m
		}
		first := send("key")
		n.stop()
		db, err := sql.Open("sqlite", filepath.Join(o.Config.StateDir, journal.FileName))
		mustDo(w, err)
		_, err = db.ExecContext(w.Context(), "UPDATE requests SET status = 0") // as after a kill
		mustDo(w, errors.Join(err, db.Close()))
		n = w.start(o)
		if again := send("key"); again.ID != first.ID {
			w.Errorf("message %s, and then %s", first.ID, again.ID)
		}
		time.Sleep(time.Minute)
		n.wantInbox("Oracle", time.Second, "message from Sandman: hello")
		if n := len(w.notion.Pages(w.notion.Databases().MeshLog)); n != 1 {
			w.Errorf("%d rows of the mesh log", n)
		}
		send("another key")
		n.wantInbox("Oracle", time.Second, "message from Sandman: hello")
	})
}

// The inbox costs nothing while nobody polls, and one query per interval for all who do.
func TestWhatTheInboxCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(quiet) // an interval of an hour
		cost := func(what string, do func(), want ...string) {
			w.Helper()
			w.notion.ResetRequests()
			do()
			time.Sleep(10 * time.Second)
			got := w.requests()
			slices.Sort(got) // log entries come at any time
			if diff := cmp.Diff(want, got); diff != "" {
				w.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		hand := func() {
			if _, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(id), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"})); err != nil {
				w.Error(err)
			}
		}
		cost("a poll that finds something", func() { n.react("Oracle", 0) })
		cost("the first poll that does not", func() { n.react("Oracle", 0) }, "POST query")
		cost("others in the same interval", func() {
			n.react("Oracle", 30*time.Minute)
			n.react("Merlin", time.Minute)
			n.react("Merlin", time.Minute)
		})
		cost("a message", func() {
			if _, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{To: "Oracle", Text: "hello"})); err != nil {
				w.Error(err)
			}
			n.react("Oracle", 0)
		}, "POST pages")
		cost("an offer of an open task", hand,
			"GET page", "GET page", "GET page", "PATCH page", "PATCH page", "POST pages")
		cost("its refusal", func() {
			if _, err := client.Do(w.Context(), n.Client, api.OpDecline, api.OnTask(task.ID(id), "", api.DeclineRequest{Agent: "Oracle"})); err != nil {
				w.Error(err)
			}
		}, "GET page", "GET page", "GET page", "PATCH page", "PATCH page", "POST pages")
		n.mustClaim("Sandman", id)
		time.Sleep(10 * time.Second)
		cost("an offer of a held task", hand, "GET page", "PATCH page", "POST pages")
		n.stop()
	})
}

// Comments on a task go to its holder while that agent polls. Notion is asked at most once a
// minute.
func TestComments(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(quiet)
		n := w.start(o)
		n.react("Sandman", 0)
		say := func(text, name string) {
			w.Helper()
			body := map[string]any{
				"parent": map[string]any{"page_id": id}, "rich_text": []any{map[string]any{"text": map[string]any{"content": text}}},
			}
			if name != "" {
				body["display_name"] = map[string]any{"type": "custom", "custom": map[string]any{"name": name}}
			}
			w.post("/v1/comments", body)
		}
		say("long ago", "Maria")
		time.Sleep(2 * time.Minute)
		n.mustClaim("Sandman", id)
		n.wantInbox("Sandman", 0)
		say("look at page 2", "Maria")
		say("as I said", "Sandman") // written by a daemon
		n.wantInbox("Sandman", 2*time.Minute, "comment Alpha from Maria: look at page 2")
		n.stop()
		n = w.start(o)
		n.wantInbox("Sandman", 2*time.Minute)
		w.notion.ResetRequests()
		n.react("Sandman", 10*time.Minute)
		n.react("Oracle", 10*time.Minute)
		asked := 0
		for _, r := range w.notion.Requests() {
			if strings.Contains(r.Path, "comments") {
				asked++
			}
		}
		if asked < 9 || asked > 11 {
			w.Errorf("asked for comments %d times in ten minutes", asked)
		}
		n.stop()
	})
}

// post sends another program's request to Notion.
func (w *world) post(path string, body any) {
	w.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "https://api.notion.com"+path, bytes.NewReader(data))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.notion.Token())
	r.Header.Set("Notion-Version", "2022-06-28")
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.notion.Client().Transport.RoundTrip(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s", path, resp.Status)
	}
}

// Who polls while somebody else's poll has the mesh log read, and Notion takes its time, does not
// wait for that longer than for Notion.
func TestPollsWaitForOneAnother(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		time.Sleep(time.Minute)
		w.notion.Inject(emulator.Fault{Kind: emulator.Delay, Delay: 3 * time.Second, Path: "/v1/data_sources/" + w.notion.DataSource(w.notion.Databases().MeshLog)})
		began := time.Now()
		var polls sync.WaitGroup
		for _, agent := range []string{"Sandman", "Oracle"} {
			polls.Go(func() {
				if _, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: agent, Body: &api.PollRequest{}}); err != nil {
					w.Error(err)
				}
			})
		}
		polls.Wait()
		if took := time.Since(began); took < 3*time.Second || took > 10*time.Second {
			w.Errorf("two polls took %v", took)
		}
	})
}
