package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// mint returns the name of a session.
func (n *node) mint(session string) (api.Minted, error) {
	return client.Do(n.w.Context(), n.Client, api.OpMint, api.MintInput{Body: &api.MintRequest{Session: session}})
}

func (n *node) agent(name string) api.Agent {
	n.w.Helper()
	a, err := client.Do(n.w.Context(), n.Client, api.OpGetAgent, api.GetAgentInput{Name: name})
	if err != nil {
		n.w.Fatal(err)
	}
	return a
}

// A session keeps its name across restarts, new names are allowed by the last loaded configuration,
// and none of this costs a request to Notion.
func TestNames(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("work", nil)
		o := w.options(quiet)
		n := w.start(o)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		first, err := n.mint("one")
		mustDo(w, err)
		if _, err := n.mint(strings.Repeat("s", api.MaxSession+1)); code(err) != "invalid_request" {
			w.Errorf("a long session: %v", err)
		}
		n.agent(first.Agent)
		if sent := w.requests(); len(sent) != 0 {
			w.Errorf("it took %q", sent)
		}
		n.stop()
		n = w.start(o)
		if got, err := n.mint("one"); got.Agent != first.Agent || err != nil {
			w.Errorf("after a restart %+v, %v; want %q", got, err, first.Agent)
		}
		o.Config.Agents = []config.Agent{{Name: first.Agent, MaxPerAgent: new(2)}}
		mustDo(w, n.daemon.Reload(o.Config))
		if got, err := n.mint("two"); code(err) != "forbidden_agent" {
			w.Errorf("after a reload that lists no minted names: %+v, %v", got, err)
		}
		if who := n.agent(first.Agent); !who.Allowed || who.MaxPerAgent != 2 {
			w.Errorf("agent %+v", who)
		}
		n.mustClaim(first.Agent, "")
	})
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

// A daemon speaks the words of its board, and understands them.
func TestWords(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		b := speaking(w, dialectOf([]string{"status", "rich_text", "german", "german", "there", "missing", "there", "full"}))
		mustDo(w, w.notion.EditSchema(b.ids.Tasks, map[string]any{b.names.Priority: typed("select", "Später", "low", "Hoch", "Notfall")}))
		b.d.priority = "select"
		b.task("Roof", task.Open, "Hoch")
		b.task("Attic", task.Open, "Später")
		n := b.daemon(func(c *config.Config) {
			b.configure(c)
			c.Tasks.Priorities = config.Priorities{High: []string{"notfall", "hoch"}, Medium: []string{"low"}}
		})
		defer n.stop()
		for _, query := range []string{"priority=hoch", "where=priority%3DHIGH&status=offen"} {
			var list api.Tasks
			if mustDo(w, json.Unmarshal([]byte(n.get("/v1/tasks?"+query)), &list)); len(list.Tasks) != 1 || list.Tasks[0].Title != "Roof" || list.Tasks[0].StatusName != "Offen" {
				w.Errorf("%s selects %+v", query, list.Tasks)
			}
		}
		if made := n.mustAdd(api.AddRequest{Title: "Gate", Priority: "notfall"}, ""); made.Priority != "high" || made.PriorityName != "Notfall" || made.StatusName != "Offen" {
			w.Errorf("made %+v", made.TaskRef)
		}
		if diff := cmp.Diff(&api.Words{
			Statuses: map[task.Status]string{
				task.Open: "Offen", task.InProgress: "In Arbeit", task.Blocked: "Blockiert", task.Completed: "Erledigt", task.Cancelled: "Gestrichen – für immer",
			},
			Priorities: []string{"Später", "low", "Hoch", "Notfall"},
		}, n.status().Words); diff != "" {
			w.Errorf("words (-want +got):\n%s", diff)
		}
	})
}

// A name in another form of Unicode is the same name: on the page, and from whoever calls.
func TestNamesInAnotherForm(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		const composed, apart = "J\u00f6rg", "Jo\u0308rg"
		id := w.add("His", map[string]any{"claimed_by": text("rich_text", apart)})
		n := w.daemon(nil)
		defer n.stop()
		for _, name := range []string{composed, apart} {
			cl, err := n.claim(name, id)
			mustDo(w, err)
			if cl.Agent != composed {
				w.Errorf("%+q claimed as %+q", name, cl.Agent)
			}
			_, err = client.Do(w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: apart}))
			mustDo(w, err)
			synctest.Wait()
			opened, err := client.Do(w.Context(), n.Client, api.OpReopenFailed, api.Keyed("", api.ReopenFailedRequest{FailedBy: []string{apart}}))
			if err != nil || len(opened.Reopened) != 1 {
				w.Errorf("reopened: %v, %v", opened.Reopened, err)
			}
		}
		if added := n.mustAdd(api.AddRequest{Title: "More", For: apart}, ""); added.AssignedTo != composed {
			w.Errorf("added for %+q", added.AssignedTo)
		}
	})
}

// One user cannot poll under ever new names, nor send long messages to all of them: both store
// something for each name. What is known, and short, is not bounded so.
func TestMadeUpNamesAreBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		poll := func(agent string) error {
			_, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: agent, Body: &api.PollRequest{}})
			return err
		}
		send := func(to, text string) error {
			_, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: "A0", To: to, Text: text}))
			return err
		}
		// taken is how often something is done before it is refused; it is done again after the wait.
		taken := func(do func(i int) error) (times int) {
			w.Helper()
			for ; times < 1000; times++ {
				p, refused := errors.AsType[*api.Problem](do(times))
				if !refused {
					continue
				}
				if p.Code != api.Code(claim.CodeLimitReached) || p.Status != 429 || p.RetryAfter == 0 {
					w.Fatalf("%v, want limit_reached", p)
				}
				mustDo(w, poll("A0"))
				time.Sleep(time.Duration(p.RetryAfter) * time.Second)
				mustDo(w, do(times))
				return times
			}
			return times
		}
		if got := taken(func(i int) error { return poll(fmt.Sprint("A", i)) }); got < 200 || got > 300 {
			w.Errorf("%d names were taken up", got)
		}
		time.Sleep(time.Hour)
		if got := taken(func(int) error { return send("all", strings.Repeat("y", 16<<10)) }); got > 10 {
			w.Errorf("%d long messages to 200 agents were taken", got)
		}
		time.Sleep(time.Hour)
		for range 100 {
			mustDo(w, send("A1", "go on"))
		}
	})
}
