package daemon_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

func commenting(c *config.Config) {
	c.Notion.Comments, c.Sync.Interval = true, time.Hour
}

// ends are the ways to end a claim with a reason.
var ends = map[string]func(n *node, cl api.Claim, reason, mention string) error{
	"block": func(n *node, cl api.Claim, reason, mention string) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Agent: cl.Agent, Reason: reason, Mention: mention}))
		return err
	},
	"fail": func(n *node, cl api.Claim, reason, mention string) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: cl.Agent, Reason: reason, Mention: mention}))
		return err
	},
	"fail and reopen": func(n *node, cl api.Claim, reason, mention string) error {
		_, err := client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: cl.Agent, Reason: reason, Mention: mention, Reopen: true}))
		return err
	},
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

// A reason becomes a comment on the page, for one more request.
func TestReasonBecomesAComment(t *testing.T) {
	t.Parallel()
	for name, stop := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("Draw the logo", nil)
				n := w.daemon(commenting)
				cl := n.mustClaim("Sandman", id)
				time.Sleep(time.Minute)
				w.notion.ResetRequests()
				mustDo(w, stop(n, cl, "which of the two?", ""))
				time.Sleep(time.Minute)
				w.shows(id, "Sandman: which of the two?")
				entries := 1
				if name != "block" {
					entries = 2 // one in each log
				}
				want := map[string]int{"GET page": 1, "PATCH page": 1, "POST pages": entries, "POST comments": 1}
				got := make(map[string]int)
				for _, r := range w.requests() {
					got[r]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					w.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// There is no comment without a reason, or if comments are off.
func TestNoComment(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, test := range map[string]struct {
		on  bool
		end func(n *node, cl api.Claim) error
	}{
		"switched off": {false, func(n *node, cl api.Claim) error { return ends["block"](n, cl, "no access", "") }},
		"no reason":    {true, func(n *node, cl api.Claim) error { return ends["block"](n, cl, " ", "") }},
		"complete":     {true, (*node).complete},
		"release": {true, func(n *node, cl api.Claim) error {
			_, err := client.Do(n.w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Reason: "no time"}))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				o := w.options(func(c *config.Config) { c.Notion.Comments = test.on })
				logged := new(strings.Builder)
				o.Log = slog.New(slog.NewTextHandler(logged, nil))
				n := w.start(o)
				mustDo(w, test.end(n, n.mustClaim("Sandman", id)))
				time.Sleep(time.Minute)
				w.shows(id)
				// Reasons from when they were off are not posted later.
				n.stop()
				if strings.Contains(logged.String(), "is dropped") {
					w.Error("a comment was owed")
				}
				o.Config.Notion.Comments = true
				w.start(o)
				time.Sleep(time.Hour)
				w.shows(id)
			})
		})
	}
}

func TestMention(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ada, err := w.notion.AddPerson("Ada Lovelace", "ada@example.com")
		mustDo(w, err)
		for _, mail := range []string{"alex@example.com", ""} {
			_, err := w.notion.AddPerson("Alex", mail)
			mustDo(w, err)
		}
		n := w.daemon(commenting)
		for i, who := range []string{"Ada Lovelace", "ada lovelace", "@Ada Lovelace", "ADA@example.com", ada, strings.ReplaceAll(ada, "-", ""), "alex@example.com"} {
			id := w.add(fmt.Sprint("work ", i), nil)
			cl := n.mustClaim("Sandman", id)
			mustDo(w, ends["block"](n, cl, "which of the two?", who))
			time.Sleep(time.Minute)
			name := "Ada Lovelace"
			if who == "alex@example.com" {
				name = "Alex"
			}
			w.shows(id, "Sandman: @"+name+" which of the two? (mentions 1)")
		}
		if got := count(w.requests(), "GET users"); got != 1 {
			w.Errorf("the users were read %d times, want once", got)
		}

		// A mention of an unknown person is refused before anything is done.
		id := w.add("refused", nil)
		cl := n.mustClaim("Sandman", id)
		for who, says := range map[string]string{
			"Alex":     "alex@example.com",
			"Ada":      "Ada Lovelace (ada@example.com)",
			"Nobody":   "there is Ada Lovelace",
			"dibs":     "nobody in the workspace", // the connection is not a person
			w.tasks:    "nobody in the workspace",
			"Ada, Bob": "nobody in the workspace",
		} {
			for name, stop := range ends {
				err := stop(n, cl, "why", who)
				if code(err) != "invalid_request" || !strings.Contains(err.Error(), says) {
					w.Errorf("%s, mentioning %q: %v, want it refused and %q", name, who, err, says)
				}
			}
		}
		if err := ends["block"](n, cl, "", "Ada Lovelace"); code(err) != "invalid_request" {
			w.Errorf("a mention without a reason: %v", err)
		}
		if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held {
			w.Errorf("the claim is %s, %v; want it held", got.State, err)
		}

		// A new member of the workspace is found.
		time.Sleep(time.Minute)
		_, err = w.notion.AddPerson("Grace", "")
		mustDo(w, err)
		mustDo(w, ends["block"](n, cl, "why", "Grace"))
		time.Sleep(time.Minute)
		w.shows(id, "Sandman: @Grace why (mentions 1)")
	})
}

func TestMentionThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		comments   bool
		fault      emulator.FaultKind
		code, says string
	}{
		"switched off":   {false, "", "invalid_request", "set notion.comments to true"},
		"no capability":  {true, emulator.Forbidden403, "notion_refused", "user information"},
		"Notion is down": {true, emulator.Error503, "notion_unavailable", "nothing was done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(func(c *config.Config) { c.Notion.Comments = test.comments })
				cl := n.mustClaim("Sandman", id)
				if test.fault != "" {
					defer w.notion.Inject(emulator.Fault{Path: "/v1/users", Kind: test.fault})()
				}
				if err := ends["block"](n, cl, "why", "Maria"); code(err) != test.code || !strings.Contains(err.Error(), test.says) {
					w.Errorf("%v (%s), want %s and %q", err, code(err), test.code, test.says)
				}
				if got := w.page(id).Select("status"); got != "IN_PROGRESS" {
					w.Errorf("the task is %s", got)
				}
				mustDo(w, ends["block"](n, cl, "why", ""))
			})
		})
	}
}

// Whatever happens to the request, there is one comment at the end, even if the daemon is restarted
// in between.
func TestFateOfAComment(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, fate := range fates {
		if fate.answer == "acknowledged" {
			continue // the answer is false, and nothing reveals that
		}
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					id := w.add("work", nil)
					o := w.options(commenting)
					n := w.start(o)
					fault := fate.fault
					fault.Method, fault.Path, fault.Times = http.MethodPost, "/v1/comments", 1
					// Two agents say the same, and each gets a comment. A daemon that is started in
					// between cannot tell apart equal comments of the same minute.
					for i := range 2 {
						if i == 1 {
							if restart {
								time.Sleep(3 * time.Minute)
							}
							w.notion.Inject(fault)
						}
						mustDo(w, ends["fail and reopen"](n, n.mustClaim("Sandman", id), "the tests are red", "Maria"))
					}
					time.Sleep(time.Second)
					if restart {
						n.stop()
						n = w.start(o)
					}
					time.Sleep(20 * time.Minute)
					comment := "Sandman: @Maria the tests are red (mentions 1)"
					w.shows(id, comment, comment)
					if s := n.status(); s.Outbox.Depth != 0 || len(s.Warnings) != 0 {
						w.Errorf("owed: %+v, warnings %q", s.Outbox, s.Warnings)
					}
				})
			})
		}
	}
}

// A comment that was sent, not acknowledged, and resolved by a person is not sent again.
func TestResolvedComment(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(commenting)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		w.notion.Inject(emulator.Fault{Method: http.MethodPost, Path: "/v1/comments", Kind: emulator.DropAnswer})
		mustDo(w, ends["block"](n, cl, "which of the two?", ""))
		time.Sleep(time.Second)
		n.stop()
		mustDo(w, w.notion.ResolveComment(w.notion.Comments(id)[0].ID))
		time.Sleep(2 * time.Hour)
		logged := new(strings.Builder)
		o.Log = slog.New(slog.NewTextHandler(logged, nil))
		n = w.start(o)
		time.Sleep(20 * time.Minute)
		owed := n.status().Outbox.Depth
		n.stop()
		w.shows(id, "Sandman: which of the two?")
		if owed != 0 || !strings.Contains(logged.String(), "may have been resolved") {
			w.Errorf("%d owed, and the log says %s", owed, logged)
		}
	})
}

// Without the capability comments wait, everything else works, and the status says what to do.
func TestCommentsWithoutTheCapability(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range 6 {
			ids = append(ids, w.add(fmt.Sprint("work ", i), nil))
		}
		o := w.options(commenting)
		n := w.start(o)
		mend := w.notion.Inject(emulator.Fault{Method: http.MethodPost, Path: "/v1/comments", Kind: emulator.Forbidden403})
		mustDo(w, ends["fail"](n, n.mustClaim("Sandman", ids[0]), "one", ""))
		time.Sleep(time.Minute)
		warned := func(what string) {
			w.Helper()
			if got := strings.Join(n.status().Warnings, "\n"); strings.Count(got, "\n") > 0 || !strings.Contains(got, what) || !strings.Contains(got, `comments need the capability "insert comments"`) {
				w.Errorf("warnings %q, want one of the capability and %q", got, what)
			}
		}
		warned("Sandman failed at “work 0”")
		for i, id := range ids[1:] {
			mustDo(w, ends["fail"](n, n.mustClaim("Sandman", id), fmt.Sprint("reason ", i+1), ""))
		}
		time.Sleep(time.Minute)
		warned("no comments can be made")
		if got := len(w.work()); got != len(ids) {
			w.Errorf("%d entries of the task log, want %d", got, len(ids))
		}
		n.stop()
		n = w.start(o)
		w.notion.ResetRequests()
		time.Sleep(time.Hour)
		if got := count(w.requests(), "POST comments"); got > 60 {
			w.Errorf("%d requests in an hour for comments that cannot be made", got)
		}
		warned("no comments can be made")
		mend()
		time.Sleep(30 * time.Minute)
		for i, id := range ids[1:] {
			w.shows(id, fmt.Sprint("Sandman: reason ", i+1))
		}
		if s := n.status(); s.Outbox.Depth != 0 || len(s.Warnings) != 0 {
			w.Errorf("owed: %+v, warnings %q", s.Outbox, s.Warnings)
		}
	})
}

// Queued comments are dropped when comments are switched off, by a reload, too.
func TestCommentsSwitchedOff(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(commenting)
		n := w.start(o)
		mend := w.notion.Inject(emulator.Fault{Path: "/v1/comments", Kind: emulator.Forbidden403})
		mustDo(w, ends["fail and reopen"](n, n.mustClaim("Sandman", id), "one", ""))
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
		mustDo(w, ends["fail and reopen"](n, n.mustClaim("Sandman", id), "two", ""))
		time.Sleep(30 * time.Minute)
		w.shows(id, "Sandman: two")
	})
}

// A comment for a deleted page is dropped, and so is one that Notion would always refuse; other
// entries are delivered.
func TestCommentIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world, id string) error{
		"trashed":    func(w *world, id string) error { return w.notion.TrashPage(id) },
		"not shared": func(w *world, id string) error { return w.notion.UnsharePage(id) },
		"deleted":    func(w *world, id string) error { return errors.Join(w.notion.TrashPage(id), w.notion.EmptyTrash()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id, other := w.add("work", nil), w.add("another", nil)
				logged := new(strings.Builder)
				o := w.options(commenting)
				o.Log = slog.New(slog.NewTextHandler(logged, nil))
				n := w.start(o)
				mend := w.notion.Inject(emulator.Fault{Path: "/v1/comments", Kind: emulator.Error503})
				for _, id := range []string{id, other} {
					mustDo(w, ends["block"](n, n.mustClaim("Sandman", id), "which?", ""))
				}
				time.Sleep(time.Second)
				mustDo(w, lose(w, id))
				mend()
				time.Sleep(30 * time.Minute)
				s := n.status()
				n.stop()
				if s.Outbox.Depth != 0 || len(s.Warnings) != 0 || !strings.Contains(logged.String(), "a log entry is given up") {
					w.Errorf("owed: %+v, warnings %q, log:\n%s", s.Outbox, s.Warnings, logged)
				}
				w.shows(other, "Sandman: which?")
			})
		})
	}
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
			answer, err := client.Do(w.Context(), n.Client, api.OpComment, api.OnTask("TASK-1", key, api.CommentRequest{Agent: "Oracle", Text: text}))
			mustDo(w, err)
			return answer
		}
		w.notion.ResetRequests()
		if answer := say("one", "key"); answer.Detail != "" || answer.Comment.Text != "one" || answer.Comment.By != "Oracle" {
			w.Errorf("said %+v", answer)
		}
		w.shows(id, "Oracle: one")
		if diff := cmp.Diff([]string{"POST comments"}, w.requests()); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
		say("one", "key")
		w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/comments", Kind: emulator.DropAnswer, Times: 1})
		if answer := say("two", ""); answer.Detail == "" {
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
			if _, err := client.Do(w.Context(), n.Client, api.OpComment, api.OnTask("TASK-1", "", body)); code(err) != "invalid_request" {
				w.Errorf("%s: %v", name, err)
			}
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpComment, api.OnTask("TASK-7", "", api.CommentRequest{Agent: "Oracle", Text: "x"})); code(err) != "not_found" {
			w.Errorf("no such task: %v", err)
		}
	})
}

// Actions of a user without an agent's name are signed with the user's: in the note, the record,
// the events and the logs. A test's connection has no known user.
func TestUsersSign(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	const signature = "user unknown"
	inWorld(t, 0, func(w *world) {
		blocked := w.add("Alpha", map[string]any{"status": option("status", "BLOCKED")})
		n := w.daemon(func(c *config.Config) { c.Agents, c.Schedule.Sweep = nil, "@every 1000h" })
		n.mustClaim("Sandman", w.add("Beta", nil))
		if _, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: blocked, Body: &api.ReopenRequest{Note: "look again"}}); err != nil {
			w.Fatal(err)
		}
		if note := fmt.Sprint(w.page(blocked)); !strings.Contains(note, "Reopened: look again — "+signature+", ") {
			w.Errorf("the page says %s", note)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{To: "Oracle", Text: "hello"})); err != nil {
			w.Fatal(err)
		}
		n.wantInbox("Oracle", 0, "message from "+signature+": hello", "tasks_available one")
		if done := n.pause(api.PauseRequest{Agent: "Merlin"}); done.Pauses[0].By != signature {
			w.Errorf("Merlin is paused by %q", done.Pauses[0].By)
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpAddTask, api.AddInput{Body: api.AddRequest{Title: "Gamma"}}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // Sandman is silent, and there is no scheduled sweep
		if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)

		log, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{})
		if err != nil {
			w.Fatal(err)
		}
		signed := make(map[claim.Kind]string)
		for _, e := range log.Entries {
			signed[e.Kind] += e.By
		}
		for _, kind := range []claim.Kind{claim.KindReopened, claim.KindMessage, claim.KindAdded, claim.KindSwept} {
			if signed[kind] != signature {
				w.Errorf("%s is signed %q: %+v", kind, signed[kind], log.Entries)
			}
		}
		told := make(map[claim.Kind]string)
		_, err = n.Events(w.Context(), api.EventsInput{}, false, func(e api.Event) error {
			if e.By != "" {
				told[e.Kind] = e.By
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
		for _, kind := range []claim.Kind{claim.KindUnblocked, claim.KindSwept} {
			if told[kind] != signature {
				w.Errorf("the event %s is signed %q", kind, told[kind])
			}
		}
		mesh := fmt.Sprint(w.notion.Pages(w.notion.Databases().MeshLog))
		for _, want := range []string{signature + " reopened “Alpha”", signature + " to @Oracle: hello", "asked for by " + signature} {
			if !strings.Contains(mesh, want) {
				w.Errorf("the mesh log does not say %q: %s", want, mesh)
			}
		}
	})
}
