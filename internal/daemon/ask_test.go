package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

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
	return n.Ask(n.w.Context(), id, api.AskRequest{Agent: agent, Text: text, To: to}, "")
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
		if _, err := n.ask("Sandman", id, "which of the two?", "Nobody"); code(err) != "invalid_request" {
			w.Errorf("asking nobody: %v", err)
		}
		asked, err := n.ask("Sandman", id, "which of the two?", ada)
		if err != nil || asked.Outcome != "blocked" || w.page(id).Select("status") != "BLOCKED" {
			w.Fatalf("asked: %+v, %v", asked, err)
		}
		if again, err := n.ask("Sandman", id, "which of the two?", ada); err != nil || again.ID != asked.ID {
			w.Errorf("asked again: %+v, %v", again, err)
		}
		if _, err := n.ask("Sandman", id, "and why?", ada); code(err) != "claim_lost" || !strings.Contains(err.Error(), "dibs comment") {
			w.Errorf("another question: %v", err)
		}
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

// Answers are delivered even if the agent only polls when somebody else has the task, or it is
// finished.
func TestAnswersBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, n *node, id string){
		"finished": func(w *world, _ *node, id string) {
			w.edit(id, map[string]any{"status": option("status", "CANCELLED")})
		},
		"somebody else's": func(w *world, n *node, id string) {
			w.edit(id, map[string]any{"status": option("status", "OPEN")})
			time.Sleep(time.Minute)
			n.mustClaim("Oracle", id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("Alpha", nil)
				n := w.daemon(func(c *config.Config) { c.Sync.Interval = 15 * time.Second })
				n.mustClaim("Sandman", id)
				_, err := n.ask("Sandman", id, "which?", "")
				mustDo(w, err)
				time.Sleep(2 * time.Minute)
				w.say(id, "Ada", "the left one")
				end(w, n, id)
				time.Sleep(5 * time.Minute)
				told := strings.Join(append(n.react("Sandman", time.Minute), n.react("Sandman", time.Minute)...), "; ")
				if !strings.Contains(told, "comment Alpha from Ada: the left one") {
					w.Errorf("Sandman is told %q", told)
				}
			})
		})
	}
}

// A question ends once its task is finished or somebody else has it and the comments were read once
// more, or after two weeks.
func TestAskEnds(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, end := range map[string]func(w *world, n *node, id string){
		"finished": func(w *world, _ *node, id string) {
			w.edit(id, map[string]any{"status": option("status", "CANCELLED")})
		},
		"in the trash": func(w *world, _ *node, id string) { mustDo(w, w.notion.TrashPage(id)) },
		"two weeks":    nil, // in which no daemon ran
		"somebody else": func(w *world, n *node, id string) {
			w.edit(id, map[string]any{"status": option("status", "OPEN")})
			time.Sleep(time.Minute)
			n.mustClaim("Oracle", id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("Alpha", map[string]any{"claim_timeout_minutes": number(1200)})
				o := w.options(func(c *config.Config) { c.Sync.Interval = time.Hour; c.Schedule.FullSync = "@every 1h" })
				n := w.start(o)
				n.mustClaim("Sandman", id)
				_, err := n.ask("Sandman", id, "which?", "")
				mustDo(w, err)
				n.react("Sandman", 2*time.Minute)
				if end != nil {
					end(w, n, id)
				} else {
					n.stop()
					time.Sleep(15 * 24 * time.Hour)
					n = w.start(o)
				}
				time.Sleep(3 * time.Hour)
				n.react("Sandman", 2*time.Minute)
				n.react("Sandman", 10*time.Minute) // being told may have cut the last reading short
				w.notion.ResetRequests()
				n.react("Sandman", 10*time.Minute)
				if got := w.asksFor(); got > 0 {
					w.Errorf("asked for comments %d times", got)
				}
			})
		})
	}
}

// The command returns once the comment is on the page, once per key, even if Notion did not confirm
// it; if that is impossible now, the comment is delivered later.
func TestComment(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Minute })
		say := func(text, key string) api.Commented {
			w.Helper()
			said, err := n.Comment(w.Context(), "TASK-1", api.CommentRequest{Agent: "Oracle", Text: text}, key)
			mustDo(w, err)
			return said
		}
		w.notion.ResetRequests()
		if said := say("one", "key"); said.Detail != "" || said.Comment.Text != "one" || said.Comment.By != "Oracle" {
			w.Errorf("said %+v", said)
		}
		w.shows(id, "Oracle: one")
		if diff := cmp.Diff([]string{"POST comments"}, w.requests()); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
		say("one", "key")
		w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/comments", Kind: emulator.DropAnswer, Times: 1})
		if said := say("two", ""); said.Detail == "" {
			w.Error("nothing is said of a comment of unknown fate")
		}
		remove := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/comments", Kind: emulator.Error503})
		say("three", "")
		time.Sleep(10 * time.Minute)
		remove()
		time.Sleep(time.Hour)
		w.shows(id, "Oracle: one", "Oracle: two", "Oracle: three")
		for name, body := range map[string]api.CommentRequest{
			"empty": {Agent: "Oracle", Text: "  "}, "too long": {Agent: "Oracle", Text: strings.Repeat("x", 60<<10)},
			"mentions nobody": {Agent: "Oracle", Text: "x", Mention: "Nobody"},
		} {
			if _, err := n.Comment(w.Context(), "TASK-1", body, ""); code(err) != "invalid_request" {
				w.Errorf("%s: %v", name, err)
			}
		}
		if _, err := n.Comment(w.Context(), "TASK-7", api.CommentRequest{Agent: "Oracle", Text: "x"}, ""); code(err) != "not_found" {
			w.Errorf("no such task: %v", err)
		}
	})
}
