package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror/webhook"
	"dibs/internal/notion/emulator"
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
	r, err := http.NewRequestWithContext(h.w.Context(), http.MethodPost, "http://hooks.example/notion", strings.NewReader(body))
	mustDo(h.w, err)
	r.Header.Set(webhook.SignatureHeader, signature)
	began := time.Now()
	resp, err := over(h.dial).Do(r)
	mustDo(h.w, err)
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
	mustDo(h.w, err)
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

// An event wakes the sync of what it names, and nothing else. Which event is worth something is tested in
// internal/mirror/webhook, with the token, which outlasts a restart.
func TestAnEventIsAHint(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, other := w.add("First", nil), w.add("Second", nil)
		o := w.options(quiet)
		h := w.hookedWith(o)
		if s := h.status().Webhook; s == nil || s.Verified || s.Received != 0 {
			w.Errorf("before a token, %+v", s)
		}
		h.shake("secret_one")
		h.stop()
		h = w.hookedWith(o)
		h.token = "secret_one"
		time.Sleep(10 * time.Minute) // until queries say nothing of this any more
		tells := func(kind, page, author string) func() {
			return func() { h.tell(happening{kind: kind, page: page, author: author}) }
		}
		w.edit(first, name("First, edited"))
		same(w, "an edit", []string{"GET page"}, w.cost(tells("page.properties_updated", first, "")))
		w.trash(other)
		same(w, "a task in the trash", []string{"GET page"}, w.cost(tells("page.deleted", other, "")))
		same(w, "a burst in disorder, with repetitions", []string{"POST query"}, w.cost(func() {
			for i := range 50 {
				id := w.add(fmt.Sprint("Burst ", i), nil)
				tells("page.properties_updated", id, "")()
				tells("page.created", id, "")()
			}
		}))
		if got := h.titles(); len(got) != 51 || got[50] != "First, edited" {
			w.Errorf("the tasks are %q", got)
		}
		same(w, "what concerns nobody", nil, w.cost(func() {
			h.tell(happening{kind: "page.created", page: "99999999-0000-4000-8000-000000000001", parent: w.notion.Databases().MeshLog})
			tells("comment.created", first, "")() // nobody holds it
			tells("view.created", first, "")()
		}))
		cl := h.mustClaim("Sandman", first)
		time.Sleep(5 * time.Second)
		same(w, "an echo", nil, w.cost(tells("page.properties_updated", first, w.bot())))
		time.Sleep(time.Minute)
		same(w, "an edit of our connection's, by another daemon", []string{"GET page"}, w.cost(tells("page.properties_updated", first, w.bot())))

		// A person takes the task away: the holder learns of it at once.
		w.edit(first, map[string]any{"claimed_by": text("rich_text", "Maria")})
		tells("page.properties_updated", first, "")()
		time.Sleep(2 * time.Second)
		w.refused("completing a task that a person took", h.complete(cl), "claim_lost")
		if s := h.status().Webhook; s == nil || !s.Verified || s.Edits < 50 || s.LastAt.IsZero() || s.MedianSeconds <= 0 {
			w.Errorf("the status of the webhook is %+v", s)
		}
	})
}

// bot returns the id of the connection's user.
func (w *world) bot() string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "https://api.notion.com/v1/users/me", nil)
	mustDo(w, err)
	r.Header.Set("Authorization", "Bearer "+w.notion.Token())
	r.Header.Set("Notion-Version", "2025-09-03")
	resp, err := w.notion.Client().Do(r)
	mustDo(w, err)
	defer resp.Body.Close()
	var me struct{ ID string }
	mustDo(w, json.NewDecoder(resp.Body).Decode(&me))
	return me.ID
}

// hintTime is how long an event is kept for others to come.
const hintTime = 200 * time.Millisecond

// A waiting agent gets a new task as soon as an event tells of it. Answers to a question, and comments on
// a held task, do not wait for inbox.comments.
func TestWaitsEndWithAnEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ada := w.person("Ada")
		h := w.hooked(func(c *config.Config) { c.Inbox.Comments = time.Hour })
		h.shake("secret_one")
		var id string
		var began time.Time
		time.AfterFunc(time.Minute, func() {
			id, began = w.add("New", nil), time.Now()
			h.tell(happening{kind: "page.created", page: id})
		})
		mustDo(w, second(h.waitFor("Sandman", "", 10*time.Minute)))
		if took, most := time.Since(began), hintTime+config.Default().Claim.Settle; took > most {
			w.Errorf("it took %v from the event to the grant, want at most %v", took, most)
		}
		h.react("Sandman", 0) // comments are read, and then not for an hour
		for _, ask := range []bool{false, true} {
			if ask {
				mustDo(w, second(h.ask("Sandman", id, "which of the two?", ada)))
			}
			time.AfterFunc(5*time.Second, func() {
				w.say(id, "Ada", "the second")
				h.tell(happening{kind: "comment.created", page: id})
			})
			began := time.Now()
			triggers := h.poll("Sandman", time.Minute)
			if took := time.Since(began); len(triggers) != 1 || triggers[0].Type != inbox.Comment || triggers[0].Text != "the second" || took > 6*time.Second {
				w.Fatalf("after %v, asked %v: %+v; want the comment within a second", took, ask, triggers)
			}
			mustDo(w, second(h.Ack(w.Context(), "Sandman", api.AckRequest{IDs: []string{triggers[0].ID}}, "")))
		}
	})
}

// A change of the board's properties has it read again, not more than once a minute, and the last
// change always.
func TestTheSchemaIsReadAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		h := w.hooked(nil)
		h.shake("secret_one")
		whole := []string{"GET data_sources/" + w.notion.DataSource(w.tasks), "POST query"}
		same(w, "twenty changes of the properties", whole, w.cost(func() {
			for range 20 {
				h.tell(happening{kind: "database.schema_updated", page: w.tasks})
				time.Sleep(time.Second)
			}
		}))
		same(w, "the minute after that", whole, w.cost(func() { time.Sleep(time.Minute) }))
		same(w, "the ten minutes after that", nil, w.cost(func() { time.Sleep(10 * time.Minute) }))
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

// Any member may be posted to: its door passes webhooks on to the leader, and the token outlives it.
func TestWebhooksGoToTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		member := func(name string) *hook {
			h := w.hooked(sharing(s, name))
			h.led("a")
			return h
		}
		a := member("a")
		b := member("b")
		same(w, "the handshake at a door", http.StatusOK, b.shake("secret_one"))
		a.token = b.token
		same(w, "a second token at the leader", http.StatusUnauthorized, a.shake("secret_two"))
		tell := func(at *hook, known int) {
			w.Helper()
			at.tell(happening{kind: "page.created", page: w.add("Task", nil)})
			time.Sleep(2 * time.Second)
			same(w, "known tasks", known, len(b.titles()))
		}
		tell(a, 1)
		tell(b, 2)
		a.stop()
		b.leads()
		tell(b, 3)
	})
}
