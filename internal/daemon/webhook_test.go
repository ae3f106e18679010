package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror/webhook"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// hook is where a daemon hears webhooks, and the connection's token there.
type hook struct {
	*node
	dial  func(context.Context) (net.Conn, error)
	token string
}

// hooked starts a daemon that hears webhooks, and hardly asks by itself.
func (w *world) hooked(change func(*config.Config)) *hook {
	w.Helper()
	return w.hookedWith(w.options(func(c *config.Config) {
		quiet(c)
		if change != nil {
			change(c)
		}
	}))
}

func (w *world) hookedWith(o daemon.Options) *hook {
	w.Helper()
	pipe := server.NewPipe()
	o.Webhooks = pipe
	return &hook{node: w.start(o), dial: pipe.Dial}
}

// post posts a body as Notion does, and returns the answer's status.
func (h *hook) post(body, signature string) int {
	h.w.Helper()
	web := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx) }, DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(h.w.Context(), http.MethodPost, "http://hooks.example/notion", strings.NewReader(body))
	if err != nil {
		h.w.Fatal(err)
	}
	r.Header.Set(webhook.SignatureHeader, signature)
	began := time.Now()
	resp, err := web.Do(r)
	if err != nil {
		h.w.Fatal(err)
	}
	resp.Body.Close()
	if took := time.Since(began); took > 100*time.Millisecond {
		h.w.Errorf("the answer took %v, want it at once", took)
	}
	return resp.StatusCode
}

// shake posts a verification token.
func (h *hook) shake(token string) int {
	h.w.Helper()
	status := h.post(fmt.Sprintf(`{"verification_token":%q}`, token), "")
	if status == http.StatusOK {
		h.token = token
	}
	return status
}

// happening is what an event tells of.
type happening struct {
	kind, page string
	author     string // a person, if empty
	parent     string // the tasks database, if empty
}

// tell posts an event, signed.
func (h *hook) tell(e happening) {
	h.w.Helper()
	author := map[string]any{"id": "aaaaaaaa-0000-4000-8000-000000000001", "type": "person"}
	if e.author != "" {
		author = map[string]any{"id": e.author, "type": "bot"}
	}
	if e.parent == "" {
		e.parent = h.w.tasks
	}
	entity, data := map[string]any{"id": e.page, "type": "page"}, map[string]any{"parent": map[string]any{"id": e.parent, "type": "database"}}
	if strings.HasPrefix(e.kind, "comment.") {
		entity = map[string]any{"id": "cccccccc-0000-4000-8000-000000000001", "type": "comment"}
		data = map[string]any{"page_id": e.page, "parent": map[string]any{"id": e.page, "type": "page"}}
	} else if kind, _, _ := strings.Cut(e.kind, "."); kind != "page" {
		entity = map[string]any{"id": e.page, "type": kind}
	}
	body, err := json.Marshal(map[string]any{
		"id": "eeeeeeee-0000-4000-8000-000000000001", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"authors": []any{author}, "attempt_number": 1, "type": e.kind, "entity": entity, "data": data,
	})
	if err != nil {
		h.w.Fatal(err)
	}
	if status := h.post(string(body), webhook.Sign(h.token, body)); status != http.StatusOK {
		h.w.Errorf("%+v was answered %d", e, status)
	}
}

// cost returns the requests to Notion that something leads to within ten seconds.
func (w *world) cost(do func()) []string {
	w.Helper()
	w.notion.ResetRequests()
	do()
	time.Sleep(10 * time.Second)
	return w.requests()
}

// Who posts first is Notion. From then on only what is signed counts, over restarts.
func TestOneTokenAtATime(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		o := w.options(quiet)
		h := w.hookedWith(o)
		state := func(verified bool, received int) {
			t.Helper()
			got := h.status().Webhook
			if got == nil || got.Verified != verified || got.Received != received || got.LastAt.IsZero() != (received == 0) {
				t.Errorf("%+v; want verified %v, %d received", got, verified, received)
			}
		}
		state(false, 0)
		event := `{"type":"page.created"}`
		signed := func(token string) int { return h.post(event, webhook.Sign(token, []byte(event))) }
		for _, step := range []struct {
			what string
			got  int
			want int
		}{
			{"an event before any token", signed(""), 401},
			{"a token that is none", h.shake("two words"), 401},
			{"a token", h.shake("secret_one"), 200},
			{"the same again", h.shake("secret_one"), 200},
			{"another", h.shake("secret_two"), 401},
			{"an event without a signature", h.post(event, ""), 401},
			{"one signed with another token", signed("secret_two"), 401},
			{"one whose body is another", h.post(event+" ", webhook.Sign("secret_one", []byte(event))), 401},
			{"a right one", signed("secret_one"), 200},
			{"one in capitals", h.post(event, "sha256="+strings.ToUpper(strings.TrimPrefix(webhook.Sign("secret_one", []byte(event)), "sha256="))), 200},
			{"one that is no JSON", h.post("x", webhook.Sign("secret_one", []byte("x"))), 200},
		} {
			if step.got != step.want {
				t.Errorf("%s: %d, want %d", step.what, step.got, step.want)
			}
		}
		state(true, 3)
		h.stop()
		h = w.hookedWith(o)
		state(true, 0)
		if got := signed("secret_one"); got != 200 {
			t.Errorf("an event after a restart: %d", got)
		}
	})
}

// An event wakes the sync of what it names, and nothing else.
func TestAnEventIsAHint(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		first, second := w.add("First", nil), w.add("Second", nil)
		h := w.hooked(nil)
		h.shake("secret_one")
		time.Sleep(10 * time.Minute) // until queries say nothing of this any more
		want := func(what string, got []string, requests ...string) {
			t.Helper()
			if !slices.Equal(got, requests) {
				t.Errorf("%s took %v, want %v", what, got, requests)
			}
		}
		want("an edit", w.cost(func() {
			w.edit(first, map[string]any{"Name": text("title", "First, edited")})
			h.tell(happening{kind: "page.properties_updated", page: first})
		}), "GET page")
		var made string
		want("a new task", w.cost(func() {
			made = w.add("Made", nil)
			h.tell(happening{kind: "page.created", page: made})
		}), "GET page")
		want("a task in the trash", w.cost(func() {
			w.trash(second)
			h.tell(happening{kind: "page.deleted", page: second})
		}), "GET page")
		if got := h.titles(); !slices.Equal(got, []string{"First, edited", "Made"}) {
			t.Errorf("the tasks are %q", got)
		}
		want("a burst in disorder, with repetitions", w.cost(func() {
			for i := range 50 {
				id := w.add(fmt.Sprint("Burst ", i), nil)
				h.tell(happening{kind: "page.properties_updated", page: id})
				h.tell(happening{kind: "page.created", page: id})
			}
		}), "POST query")
		if got := len(h.titles()); got != 52 {
			t.Errorf("%d tasks after the burst, want 52", got)
		}
		want("an edit in another database", w.cost(func() {
			h.tell(happening{kind: "page.created", page: "99999999-0000-4000-8000-000000000001", parent: w.notion.Databases().MeshLog})
		}))
		want("a comment on a task that nobody holds", w.cost(func() {
			h.tell(happening{kind: "comment.created", page: first})
		}))
		want("what is no page", w.cost(func() {
			h.tell(happening{kind: "view.created", page: first})
			h.tell(happening{kind: "something.new", page: ""})
		}))

		bot := w.bot()
		cl := h.mustClaim("Sandman", first)
		time.Sleep(5 * time.Second)
		want("an echo", w.cost(func() { h.tell(happening{kind: "page.properties_updated", page: first, author: bot}) }))
		want("another bot's edit just then", w.cost(func() {
			h.tell(happening{kind: "page.properties_updated", page: first, author: "bbbbbbbb-0000-4000-8000-000000000001"})
		}), "GET page")
		time.Sleep(time.Minute)
		want("an edit of our connection's, by another daemon", w.cost(func() {
			h.tell(happening{kind: "page.properties_updated", page: first, author: bot})
		}), "GET page")

		// A person takes the task away: the holder learns of it at once.
		w.edit(first, map[string]any{"claimed_by": text("rich_text", "Maria")})
		h.tell(happening{kind: "page.properties_updated", page: first})
		time.Sleep(2 * time.Second)
		if err := h.complete(cl); code(err) != "claim_lost" {
			t.Errorf("completing a task that a person took: %v, want claim_lost", err)
		}
		s := h.status()
		if s.Webhook == nil || !s.Webhook.Verified || s.Webhook.Edits < 50 || s.Webhook.LastAt.IsZero() || s.Webhook.MedianSeconds <= 0 {
			t.Errorf("the status of the webhook is %+v", s.Webhook)
		}
	})
}

// bot returns the id of the connection's user.
func (w *world) bot() string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "https://api.notion.com/v1/users/me", nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.notion.Token())
	r.Header.Set("Notion-Version", "2025-09-03")
	resp, err := w.notion.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	var me struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&me); err != nil {
		w.Fatal(err)
	}
	return me.ID
}

// A waiting agent gets a new task as soon as an event tells of it.
func TestAWaitEndsWithAnEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		h := w.hooked(nil)
		h.shake("secret_one")
		got := make(chan error, 1)
		go func() {
			_, err := client.Do(t.Context(), h.node.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}))
			got <- err
		}()
		time.Sleep(time.Minute)
		id := w.add("New", nil)
		began := time.Now()
		h.tell(happening{kind: "page.created", page: id})
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if took, most := time.Since(began), hintTime+config.Default().Claim.Settle; took > most {
			t.Errorf("it took %v from the event to the grant, want at most %v", took, most)
		}
	})
}

// hintTime is how long an event is kept for others to come.
const hintTime = 200 * time.Millisecond

// Answers to a question, and comments on a held task, do not wait for inbox.comments.
func TestAnswersWithinSeconds(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		ada := w.person("Ada")
		id := w.add("Alpha", nil)
		h := w.hooked(func(c *config.Config) { c.Inbox.Comments = time.Hour })
		h.shake("secret_one")
		h.mustClaim("Sandman", id)
		h.react("Sandman", 0) // comments are read, and then not for an hour
		for _, ask := range []bool{false, true} {
			if ask {
				if _, err := h.ask("Sandman", id, "which of the two?", ada); err != nil {
					t.Fatal(err)
				}
			}
			got := make(chan []api.Trigger, 1)
			go func() { got <- h.poll("Sandman", time.Minute) }()
			time.Sleep(5 * time.Second)
			w.say(id, "Ada", "the second")
			began := time.Now()
			h.tell(happening{kind: "comment.created", page: id})
			triggers := <-got
			if took := time.Since(began); len(triggers) != 1 || triggers[0].Type != inbox.Comment || triggers[0].Text != "the second" || took > time.Second {
				t.Errorf("after %v, asked %v: %+v; want the comment within a second", took, ask, triggers)
			}
			if _, err := h.Ack(t.Context(), "Sandman", api.AckRequest{IDs: []string{triggers[0].ID}}, ""); err != nil {
				t.Error(err)
			}
		}
	})
}

// A change of the board's properties has it read again, not more than once a minute, and the last
// change always.
func TestTheSchemaIsReadAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		w.add("First", nil)
		h := w.hooked(nil)
		h.shake("secret_one")
		whole := []string{"GET data_sources/" + w.notion.DataSource(w.tasks), "POST query"}
		got := w.cost(func() {
			for range 20 {
				h.tell(happening{kind: "database.schema_updated", page: w.tasks})
				time.Sleep(time.Second)
			}
		})
		if !slices.Equal(got, whole) {
			t.Errorf("twenty changes of the properties took %v, want one read of them and of the board", got)
		}
		if got := w.cost(func() { time.Sleep(time.Minute) }); !slices.Equal(got, whole) {
			t.Errorf("the minute after that took %v, want one more read", got)
		}
		if got := w.cost(func() { time.Sleep(10 * time.Minute) }); len(got) > 0 {
			t.Errorf("the ten minutes after that took %v", got)
		}
	})
}

// Tasks that go to the trash together leave the board, although no query shows that, and although
// Notion does not answer just then.
func TestManyInTheTrash(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var all []string
		for i := range 30 {
			all = append(all, w.add(fmt.Sprint("Task ", i), nil))
		}
		h := w.hooked(nil)
		h.shake("secret_one")
		time.Sleep(10 * time.Minute)
		w.notion.Inject(emulator.Fault{Kind: emulator.HTML502, Times: 3, Method: http.MethodGet})
		for _, id := range all {
			w.trash(id)
			h.tell(happening{kind: "page.deleted", page: id})
		}
		w.until(2*time.Hour, "the tasks to leave", func() bool { return len(h.titles()) == 0 })
	})
}

// When no event comes, syncs find everything as before.
func TestEventsThatNeverCome(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		h := w.hookedWith(w.options(nil))
		h.shake("secret_one")
		time.Sleep(2 * time.Hour)
		id := w.add("New", nil)
		began := time.Now()
		cl, err := client.Do(t.Context(), h.node.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 60}))
		if err != nil || string(cl.Task.ID) != id {
			t.Fatalf("%+v, %v", cl, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v, want the next sync", took)
		}
	})
}

// Any member may be posted to: its door passes webhooks on to the leader, and the token outlives it.
func TestWebhooksGoToTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		t := w.T
		settings := func(name string) daemon.Options {
			return w.options(func(c *config.Config) {
				quiet(c)
				sharing(s, name)(c)
			})
		}
		a := w.hookedWith(settings("a"))
		a.led("a")
		b := w.hookedWith(settings("b"))
		b.led("a")
		if status := b.shake("secret_one"); status != 200 {
			t.Fatalf("the handshake at a door: %d", status)
		}
		a.token = b.token
		if status := a.shake("secret_two"); status != 401 {
			t.Errorf("a second token at the leader: %d", status)
		}
		for i, h := range []*hook{a, b} {
			id := w.add(fmt.Sprint("Task ", i), nil)
			h.tell(happening{kind: "page.created", page: id})
			time.Sleep(2 * time.Second)
			if got := len(b.titles()); got != i+1 {
				t.Errorf("%d tasks are known, want %d", got, i+1)
			}
		}
		a.stop()
		b.leads()
		id := w.add("Last", nil)
		b.tell(happening{kind: "page.created", page: id})
		time.Sleep(2 * time.Second)
		if got := len(b.titles()); got != 3 {
			t.Errorf("%d tasks are known to the new leader, want 3", got)
		}
		b.stop()
	})
}
