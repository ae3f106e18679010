package daemon_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

func commenting(c *config.Config) {
	c.Notion.Comments, c.Sync.Interval = true, time.Hour
}

// block ends a claim with a reason.
func (n *node) block(cl api.Claim, reason, mention string) error {
	_, err := client.Do(n.w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Agent: cl.Agent, Reason: reason, Mention: mention}))
	return err
}

// comments returns the comments on a page, as "name: text".
func (w *world) comments(id string) []string {
	var texts []string
	for _, m := range w.notion.Comments(id) {
		line := m.Name + ": " + m.Text
		if len(m.Mentions) > 0 {
			line += fmt.Sprintf(" (mentions %d)", len(m.Mentions))
		}
		texts = append(texts, line)
	}
	return texts
}

func (w *world) shows(id string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.comments(id)); diff != "" {
		w.Errorf("comments (-want +got):\n%s", diff)
	}
}

// A reason becomes a comment on the page, for one more request, and mentions a person; the people of
// the workspace are asked for once. Whom nobody knows is refused before anything is done.
func TestReasonBecomesAComment(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("Draw the logo", nil), w.add("Draw the map", nil)
		_, err := w.notion.AddPerson("Ada Lovelace", "ada@example.com")
		mustDo(w, err)
		n := w.daemon(commenting)
		cl := n.mustClaim("Sandman", id)
		forbid := w.notion.Inject(emulator.Fault{Path: "/v1/users", Kind: emulator.Forbidden403})
		if err := n.block(cl, "why", "Ada Lovelace"); code(err) != "notion_refused" || !strings.Contains(err.Error(), "user information") {
			w.Errorf("without the capability: %v", err)
		}
		forbid()
		time.Sleep(11 * time.Minute)
		if err := n.block(cl, "why", "dibs"); code(err) != "invalid_request" { // the connection is not a person
			w.Errorf("mentioning the connection: %v", err)
		}
		time.Sleep(time.Minute)
		w.notion.ResetRequests()
		mustDo(w, n.block(cl, "which of the two?", ""))
		time.Sleep(time.Minute)
		w.shows(id, "Sandman: which of the two?")
		got := make(map[string]int)
		for _, r := range w.requests() {
			got[r]++
		}
		if diff := cmp.Diff(map[string]int{"GET page": 1, "PATCH page": 1, "POST pages": 1, "POST comments": 1}, got); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
		mustDo(w, n.block(n.mustClaim("Sandman", other), "and this?", "ADA@example.com"))
		time.Sleep(time.Minute)
		w.shows(other, "Sandman: @Ada Lovelace and this? (mentions 1)")
		if got := count(w.requests(), "GET users"); got != 0 {
			w.Errorf("the users were read again %d times", got)
		}
	})
}

// Queued comments are dropped when comments are switched off, by a reload, too.
func TestCommentsSwitchedOff(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("work", nil), w.add("more", nil)
		o := w.options(commenting)
		n := w.start(o)
		mend := w.notion.Inject(emulator.Fault{Path: "/v1/comments", Kind: emulator.Forbidden403})
		mustDo(w, n.block(n.mustClaim("Sandman", id), "one", ""))
		time.Sleep(time.Minute)
		c := o.Config
		c.Notion.Comments = false
		mustDo(w, n.daemon.Reload(c))
		mend()
		time.Sleep(30 * time.Minute)
		if s := n.status(); s.Outbox.Depth != 0 || len(s.Warnings) != 0 {
			w.Errorf("owed: %+v, warnings %q", s.Outbox, s.Warnings)
		}
		mustDo(w, n.daemon.Reload(o.Config))
		mustDo(w, n.block(n.mustClaim("Sandman", other), "two", ""))
		time.Sleep(30 * time.Minute)
		w.shows(id)
		w.shows(other, "Sandman: two")
	})
}

// say is a person's comment.
func (w *world) say(id, name, text string) {
	w.Helper()
	w.post("/v1/comments", map[string]any{
		"parent": map[string]any{"page_id": id}, "rich_text": []any{map[string]any{"text": map[string]any{"content": text}}},
		"display_name": map[string]any{"type": "custom", "custom": map[string]any{"name": name}},
	})
}

// asksFor returns how many requests for comments there were.
func (w *world) asksFor() (n int) {
	for _, r := range w.notion.Requests() {
		if r.Method == http.MethodGet && strings.HasPrefix(r.Path, "/v1/comments") {
			n++
		}
	}
	return n
}

func (n *node) ask(agent, id, text, to string) (api.Claim, error) {
	return client.Do(n.w.Context(), n.Client, api.OpAsk, api.On(id, "", api.AskRequest{Agent: agent, Text: text, To: to}))
}

// An agent that asks is told once of each answer, and once that the task is open again, even by
// another daemon and with comments off.
func TestAsk(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ada, err := w.notion.AddPerson("Ada", "ada@example.com")
		mustDo(w, err)
		id := w.add("Alpha", nil)
		o := w.options(quiet)
		n := w.start(o)
		n.react("Sandman", 0)
		w.say(id, "Ada", "from before")
		time.Sleep(2 * time.Minute)
		n.mustClaim("Sandman", id)
		_, err = n.ask("Sandman", id, "which of the two?", ada)
		mustDo(w, err)
		n.wantInbox("Sandman", 5*time.Minute)
		w.shows(id, "Ada: from before", "Sandman: @Ada which of the two? (mentions 1)")

		n.stop()
		n = w.start(o)
		time.Sleep(time.Minute)
		w.say(id, "Ada", "the left one")
		n.wantInbox("Sandman", 2*time.Minute, "comment Alpha from Ada: the left one")
		w.notion.ResetRequests()
		n.wantInbox("Sandman", 10*time.Minute)
		n.wantInbox("Oracle", 10*time.Minute)
		if got := w.asksFor(); got < 9 || got > 11 {
			w.Errorf("asked for comments %d times while Sandman polled for ten minutes, and Oracle for ten", got)
		}
		n.stop()

		w.edit(id, map[string]any{"status": option("status", "OPEN")})
		w.say(id, "Ada", "go on, then")
		n = w.start(o)
		time.Sleep(time.Minute)
		var told []string
		for range 5 {
			told = append(told, n.react("Sandman", time.Minute)...)
		}
		want := []string{"comment Alpha: the task is open again", "comment Alpha from Ada: go on, then"}
		if diff := cmp.Diff(want, without(told, "tasks_available one")); diff != "" {
			w.Errorf("Sandman is told (-want +got):\n%s", diff)
		}
		// That was the last read of comments.
		w.notion.ResetRequests()
		n.react("Sandman", 10*time.Minute)
		if got := w.asksFor(); got > 0 {
			w.Errorf("asked for comments %d times after the answer", got)
		}
		n.stop()
	})
}

func without(all []string, one string) []string {
	var out []string
	for _, s := range all {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}

// The command returns once the comment is on the page, also if Notion did not confirm it; if that is
// impossible now, the comment is delivered later.
func TestComment(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Minute })
		say := func(text string) api.Commented {
			w.Helper()
			answer, err := client.Do(w.Context(), n.Client, api.OpComment, api.OnTask("TASK-1", "", api.CommentRequest{Agent: "Oracle", Text: text}))
			mustDo(w, err)
			return answer
		}
		w.notion.ResetRequests()
		if answer := say("one"); answer.Detail != "" || answer.Owed || answer.Comment.Text != "one" || answer.Comment.By != "Oracle" {
			w.Errorf("said %+v", answer)
		}
		w.shows(id, "Oracle: one")
		if diff := cmp.Diff([]string{"POST comments"}, w.requests()); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
		w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/comments", Kind: emulator.DropAnswer, Times: 1})
		if answer := say("two"); answer.Detail == "" {
			w.Error("nothing is said of a comment of unknown fate")
		}
		remove := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/comments", Kind: emulator.Error503})
		say("three")
		time.Sleep(10 * time.Minute)
		remove()
		time.Sleep(time.Hour)
		w.shows(id, "Oracle: one", "Oracle: two", "Oracle: three")
	})
}
