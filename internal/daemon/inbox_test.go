package daemon_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
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

// An agent is told of tasks: that there are some, again once there were none; that it lost one, is
// assigned one, or that one was finished, if it asked for that; also after a restart.
func TestTriggersOfTasks(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		n := w.start(o)
		n.wantInbox("Oracle", 0)
		a, b := w.add("Alpha", nil), w.add("Beta", nil)
		n.wantInbox("Oracle", time.Minute, "tasks_available one one")
		if _, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: "Lead", Body: &api.PollRequest{Finished: true}}); err != nil {
			w.Fatal(err)
		}
		mustDo(w, n.complete(n.mustClaim("Sandman", a)))
		n.stop()
		n = w.start(o)
		n.wantInbox("Lead", 0, "task_finished Alpha from Sandman: done")
		n.mustClaim("Sandman", b)
		w.edit(b, map[string]any{"claimed_by": text("rich_text", "Maria")})
		if lost := n.react("Sandman", time.Minute); len(lost) == 0 || !strings.HasPrefix(lost[0], "claim_lost Beta from Maria: ") {
			w.Errorf("told %q, want the loss of Beta", lost)
		}
		n.wantInbox("Oracle", 0)
		w.add("Gamma", map[string]any{"claimed_by": text("rich_text", "Oracle")})
		n.wantInbox("Oracle", time.Minute, "task_assigned Gamma")
		w.add("Delta", nil)
		n.wantInbox("Oracle", time.Minute, "tasks_available one one") // Gamma, too
		n.stop()
	})
}

// Messages come from the socket, from people and programs in the mesh log, and from another daemon's
// agents, each once; entries about claims do not.
func TestMessages(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		write := func(title string, props map[string]any) {
			all := map[string]any{"Name": text("title", title)}
			maps.Copy(all, props)
			_, err := w.notion.CreatePage(w.notion.Databases().MeshLog, all)
			mustDo(w, err)
		}
		write("@Oracle the plan has changed", nil)
		o := w.options(nil)
		n := w.start(o)
		n.wantInbox("Oracle", 0, "message: @Oracle the plan has changed")
		send := func(n *node, from, body string) {
			w.Helper()
			_, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: from, To: "Oracle", Text: body}))
			mustDo(w, err)
		}
		send(n, "Sandman", "hello")
		n.wantInbox("Oracle", 0, "message from Sandman: hello")
		write("from another program", map[string]any{"from": text("rich_text", "cron"), "to": text("rich_text", "Oracle; Merlin"), "message": text("rich_text", "backup done")})
		n.wantInbox("Oracle", time.Minute, "message from cron: backup done")
		n.wantInbox("Merlin", time.Minute, "message from cron: backup done")
		n.stop()
		n = w.start(o)
		n.wantInbox("Oracle", 2*time.Minute) // each once, even with restarts

		// Oracle cannot take the task meanwhile.
		id := w.add("ask @Oracle about it", map[string]any{"claimed_by": text("rich_text", "Ghost")})
		other := w.daemon(nil)
		cl := other.mustClaim("Ghost", id)
		send(other, "Ghost", "from afar")
		mustDo(w, other.complete(cl))
		n.wantInbox("Oracle", 10*time.Minute, "message from Ghost: from afar")
		n.wantInbox("Oracle", 10*time.Minute)
		other.stop()
		n.stop()
	})
}

// An offer that nobody answers is taken back in time, and the mesh log tells who did what.
func TestOffers(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(nil)
		for range 2 {
			if _, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(id), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"})); err != nil {
				w.Fatal(err)
			}
			if p := w.page(id); p.Text("claimed_by") != "Oracle" {
				w.Errorf("offered, the page shows %q", p.Text("claimed_by"))
			}
			time.Sleep(config.Default().Inbox.Offer + time.Minute)
			if p := w.page(id); p.Text("claimed_by") != "" {
				w.Errorf("the page shows %q after the offer ended", p.Text("claimed_by"))
			}
		}
		n.mustClaim("Merlin", id)
		n.stop()
		want := []string{"expired: Sandman", "expired: Sandman", "granted: Merlin", "offered: Sandman", "offered: Sandman"}
		if diff := cmp.Diff(want, w.mesh()); diff != "" {
			w.Errorf("the mesh log (-want +got):\n%s", diff)
		}
	})
}

// The inbox costs nothing while nobody polls, one query per interval for all who do, and a row for a message.
func TestWhatTheInboxCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("Alpha", nil)
		n := w.daemon(quiet) // an interval of an hour
		cost := func(what string, do func(), want ...string) {
			w.Helper()
			w.notion.ResetRequests()
			do()
			time.Sleep(10 * time.Second)
			if diff := cmp.Diff(want, w.requests()); diff != "" {
				w.Errorf("%s (-want +got):\n%s", what, diff)
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
			_, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{To: "Oracle", Text: "hello"}))
			mustDo(w, err)
			n.react("Oracle", 0)
		}, "POST pages")
		n.stop()
	})
}

// Comments on a task go to its holder while that agent polls, each once, from when it was claimed.
// Notion is asked at most once a minute.
func TestComments(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(quiet)
		n := w.start(o)
		n.react("Sandman", 0)
		w.say(id, "Maria", "long ago")
		time.Sleep(2 * time.Minute)
		n.mustClaim("Sandman", id)
		n.wantInbox("Sandman", 0)
		w.say(id, "Maria", "look at page 2")
		w.say(id, "Sandman", "as I said") // written by a daemon
		n.wantInbox("Sandman", 2*time.Minute, "comment Alpha from Maria: look at page 2")
		n.stop()
		n = w.start(o)
		n.wantInbox("Sandman", 2*time.Minute)
		w.notion.ResetRequests()
		n.react("Sandman", 10*time.Minute)
		n.react("Oracle", 10*time.Minute)
		if asked := w.asksFor(); asked < 9 || asked > 11 {
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
