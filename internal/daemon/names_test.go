package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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

func (n *node) mustMint(session string) string {
	n.w.Helper()
	got, err := n.mint(session)
	if err != nil {
		n.w.Fatal(err)
	}
	return got.Agent
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
		for range 3 {
			w.add("work", nil)
		}
		o := w.options(func(c *config.Config) {
			c.Sync.Interval, c.Claim.MaxPerAgent = time.Hour, 1
		})
		n := w.start(o)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		first := n.mustMint("one")
		if !strings.HasPrefix(first, "agent-") || n.mustMint("one") != first || n.mustMint("") == first {
			w.Errorf("minted %q", first)
		}
		if who := n.agent(first); !who.Allowed || who.MaxPerAgent != 1 {
			w.Errorf("agent %+v", who)
		}
		for name, err := range map[string]error{
			"an agent":       second(client.Do(w.Context(), n.Client, api.OpGetAgent, api.GetAgentInput{Name: "auto"})),
			"a claim":        second(n.claim("auto", "")),
			"a message":      second(client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{To: "auto", Text: "hello"}))),
			"a long session": second(n.mint(strings.Repeat("s", api.MaxSession+1))),
		} {
			if code(err) != "invalid_request" {
				w.Errorf("%s: err = %v", name, err)
			}
		}
		if sent := w.requests(); len(sent) != 0 {
			w.Errorf("it took %q", sent)
		}
		n.stop()

		n = w.start(o)
		if got := n.mustMint("one"); got != first {
			w.Errorf("after a restart %q, want %q", got, first)
		}
		n.mustClaim(first, "")
		if _, err := n.claim(first, ""); code(err) != denied(claim.CodeLimitReached) {
			w.Errorf("beyond the limit: err = %v", err)
		}
		c := o.Config
		c.Agents = []config.Agent{{Name: first, MaxPerAgent: new(2)}, {Name: "Sandman", UIDs: []int{4711}}}
		mustDo(w, n.daemon.Reload(c))
		if got, err := n.mint("two"); code(err) != "forbidden_agent" {
			w.Errorf("after a reload that lists no minted names: %+v, %v", got, err)
		}
		n.mustClaim(first, "")                                                // which has its own limit now
		if _, err := n.claim("Sandman", ""); code(err) != "forbidden_agent" { // the caller of these tests is unknown
			w.Errorf("a name of another user: err = %v", err)
		}
	})
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

// Queries and bodies take the board's words and dibs's, in any case. Answers keep dibs's beside the
// board's, and what people read has the board's.
func TestWords(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		b := speaking(w, dialectOf([]string{"status", "rich_text", "german", "german", "there", "missing", "there", "full"}))
		mustDo(w, w.notion.EditSchema(b.ids.Tasks, map[string]any{b.names.Priority: typed("select", "Später", "low", "Hoch", "Notfall")}))
		b.d.priority = "select"
		roof := b.task("Roof", task.Open, "Hoch")
		b.task("Fence", task.Open, "low", roof)
		b.task("Attic", task.Open, "Später")
		n := b.daemon(func(c *config.Config) {
			b.configure(c)
			c.Tasks.Priorities = config.Priorities{High: []string{"notfall", "hoch"}, Medium: []string{"low"}}
		})
		defer n.stop()
		titles := func(query string) string {
			w.Helper()
			var list api.Tasks
			mustDo(w, json.Unmarshal([]byte(n.get("/v1/tasks?"+query)), &list))
			var all []string
			for _, one := range list.Tasks {
				all = append(all, one.Title)
			}
			return strings.Join(all, " ")
		}
		for query, want := range map[string]string{
			"priority=hoch": "Roof", "priority=HIGH": "Roof", "priority=Notfall": "",
			"priority=Low": "Fence", "priority=low": "", // dibs's own spelling is dibs's word
			"priority=none": "Attic", "priority=" + url.QueryEscape("später"): "Attic", "priority=critical": "",
			"where=priority%3Dhoch": "Roof", "where=status%3Doffen&where=priority%3Dhigh": "Roof",
			"status=OPEN": "Roof Attic Fence", "status=oFFen&priority=High": "Roof", "status=in+arbeit": "", "status=review": "",
		} {
			if got := titles(query); got != want {
				w.Errorf("%s selects %q, want %q", query, got, want)
			}
		}
		for _, f := range []api.TaskFilter{{Status: "Offn"}, {Filter: api.Filter{Priority: "Wichtig"}}} {
			_, err := client.Do(w.Context(), n.Client, api.OpListTasks, f.Input())
			want := `status: "Offn" is not a status: want one of Offen, In Arbeit, Blockiert, Erledigt, Gestrichen – für immer`
			if f.Status == "" {
				want = `priority: "Wichtig" is not a priority: want one of Später, low, Hoch, Notfall, none`
			}
			if code(err) != string(api.CodeInvalidRequest) || err.(*api.Problem).Detail != want {
				w.Errorf("%+v: %v, want %s", f, err, want)
			}
		}

		made := n.mustAdd(api.AddRequest{Title: "Gate", Priority: "notfall"}, "")
		if made.Priority != "high" || made.PriorityName != "Notfall" || made.Status != task.Open || made.StatusName != "Offen" {
			w.Errorf("made %+v", made.TaskRef)
		}
		if none := n.mustAdd(api.AddRequest{Title: "Shed", Priority: "none"}, ""); none.PriorityName != "" || none.Priority != "none" {
			w.Errorf("made %+v", none.TaskRef)
		}
		cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Priority: "HOCH"}}))
		mustDo(w, err)
		if cl.Task.Title != "Roof" || cl.Task.StatusWord() != "In Arbeit" {
			w.Errorf("claimed %+v, want Roof", cl.Task)
		}
		waits, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: b.find("Fence")})
		if err != nil || waits.Reason != "it waits for “Roof” (In Arbeit, Sandman)" {
			w.Errorf("waits: %q, %v", waits.Reason, err)
		}
		mustDo(w, n.complete(cl))
		synctest.Wait()
		if _, err := n.claim("Oracle", roof); err == nil || !strings.Contains(err.Error(), "it is Erledigt") {
			w.Errorf("a finished task: %v", err)
		}
		done, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: roof, Body: &api.ReopenRequest{Was: "erledigt"}})
		if err != nil || done.Was != task.Completed || done.WasName != "Erledigt" {
			w.Errorf("reopened %+v, %v", done, err)
		}
		status, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{})
		mustDo(w, err)
		if diff := cmp.Diff(&api.Words{
			Statuses: map[task.Status]string{
				task.Open: "Offen", task.InProgress: "In Arbeit", task.Blocked: "Blockiert", task.Completed: "Erledigt", task.Cancelled: "Gestrichen – für immer",
			},
			Priorities: []string{"Später", "low", "Hoch", "Notfall"},
		}, status.Words); diff != "" {
			w.Errorf("words (-want +got):\n%s", diff)
		}
	})
}

// find returns the id of the task with that title.
func (b *board) find(title string) string {
	b.Helper()
	for _, p := range b.notion.Pages(b.ids.Tasks) {
		if p.Title() == title {
			return p.ID
		}
	}
	b.Fatalf("no task %q", title)
	return ""
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
			cl.Agent = apart
			mustDo(w, n.complete(cl))
			synctest.Wait()
			_, err = client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: id, Body: &api.ReopenRequest{Was: "COMPLETED"}})
			mustDo(w, err)
		}

		added, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Body: api.AddRequest{Title: "More", For: apart}})
		mustDo(w, err)
		if added.Task.AssignedTo != composed {
			w.Errorf("added for %+q", added.Task.AssignedTo)
		}
		cl, err := n.claim(composed, id)
		mustDo(w, err)
		_, err = client.Do(w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: composed}))
		mustDo(w, err)
		synctest.Wait()
		opened, err := client.Do(w.Context(), n.Client, api.OpReopenFailed, api.Keyed("", api.ReopenFailedRequest{FailedBy: []string{apart}}))
		mustDo(w, err)
		if len(opened.Reopened) != 1 {
			w.Errorf("reopened: %v", opened.Reopened)
		}
	})
}

// TestMadeUpNamesAreBounded polls as one user under ever new names, and sends a long message to all
// of them: both store something for each name.
func TestMadeUpNamesAreBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		ctx := w.Context()
		poll := func(agent string) error {
			_, err := client.Do(ctx, n.Client, api.OpPoll, api.PollInput{Name: agent, Body: &api.PollRequest{}})
			return err
		}
		toAll := func() error {
			_, err := client.Do(ctx, n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: "A0", To: "all", Text: strings.Repeat("y", 16<<10)}))
			return err
		}
		refused := func(what string, err error) (wait time.Duration) {
			w.Helper()
			p, ok := errors.AsType[*api.Problem](err)
			if !ok || p.Code != api.Code(claim.CodeLimitReached) || p.Status != 429 || p.RetryAfter == 0 {
				w.Fatalf("%s: %v, want limit_reached", what, err)
			}
			return time.Duration(p.RetryAfter) * time.Second
		}
		names := 0
		var err error
		for ; names < 1000 && err == nil; names++ {
			err = poll(fmt.Sprint("A", names))
		}
		wait := refused("a new name", err)
		if names < 200 || names > 300 {
			w.Errorf("%d names were taken up", names-1)
		}
		if err := poll("A0"); err != nil {
			w.Errorf("a name that is known: %v", err)
		}
		time.Sleep(wait)
		if err := poll("late"); err != nil {
			w.Errorf("a new name after the wait: %v", err)
		}

		time.Sleep(time.Hour)
		told := 0
		for err = nil; told < 200 && err == nil; told++ {
			err = toAll()
		}
		if wait = refused("a message to all", err); told > 10 {
			w.Errorf("%d long messages to 200 agents were taken", told-1)
		}
		time.Sleep(wait)
		if err := toAll(); err != nil {
			w.Errorf("to all, after the wait: %v", err)
		}
		time.Sleep(time.Hour)
		for range 100 { // short ones are bounded as for one agent
			if _, err := client.Do(ctx, n.Client, api.OpSend, api.Keyed("", api.MessageRequest{From: "A0", To: "A1", Text: "go on"})); err != nil {
				w.Fatal(err)
			}
		}
	})
}
