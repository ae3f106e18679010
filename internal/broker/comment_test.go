package broker_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// remarks is a board on which comments are made, and its people.
type remarks struct {
	off    bool
	people func(anew bool) ([]broker.Person, error)
}

func (r remarks) On() bool { return !r.off }

func (r remarks) People(_ context.Context, anew bool) ([]broker.Person, error) {
	if r.people == nil {
		return nil, nil
	}
	return r.people(anew)
}

// ends are the ways to end a claim with a reason.
var ends = map[string]func(h *house, id, reason, mention string) error{
	"block": func(h *house, id, reason, mention string) error {
		_, err := h.Block(h.Context(), nobody, new(api.On(id, "", api.BlockRequest{Reason: reason, Mention: mention})))
		return err
	},
	"fail": func(h *house, id, reason, mention string) error {
		_, err := h.Fail(h.Context(), nobody, new(api.On(id, "", api.FailRequest{Reason: reason, Mention: mention})))
		return err
	},
	"fail and reopen": func(h *house, id, reason, mention string) error {
		_, err := h.Fail(h.Context(), nobody, new(api.On(id, "", api.FailRequest{Reason: reason, Mention: mention, Reopen: true})))
		return err
	},
	"review": func(h *house, id, reason, mention string) error {
		_, err := h.Review(h.Context(), nobody, new(api.On(id, "", api.ReviewRequest{Note: reason, Mention: mention})))
		return err
	},
	"complete": func(h *house, id, reason, _ string) error {
		_, err := h.finish("", id, claim.EndCompleted, reason)
		return err
	},
	"release": func(h *house, id, reason, _ string) error {
		_, err := h.finish("", id, claim.EndReleased, reason)
		return err
	},
	"ask": func(h *house, id, reason, mention string) error {
		_, err := h.Ask(h.Context(), nobody, new(api.On(id, "", api.AskRequest{Text: reason, To: mention})))
		return err
	},
}

// said returns the comments that are owed, as "text (mentions)".
func (h *house) said() (all []string) {
	h.Helper()
	facts, err := h.journal.Facts(h.Context(), journal.FactFilter{})
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range facts {
		if f.Comment {
			all = append(all, fmt.Sprintf("%s (%s)", f.Summary, f.Mention))
		}
	}
	return all
}

// A reason why an agent stopped becomes a comment, where comments are made, and a question always does.
func TestReasonBecomesAComment(t *testing.T) {
	for _, off := range []bool{true, false} {
		inHouse(t, func(h *house) { h.config.Comments = remarks{off: off} }, pair()[:1], func(h *house) {
			for name, stop := range ends {
				for _, reason := range []string{"which of the two?", " "} {
					id, before := pair()[0].ID, len(h.said())
					h.edit(id, func(t *task.Task) { *t = pair()[0] })
					err := stop(h, string(h.mustClaim("Sandman", id).ID), reason, "")
					want, refused := "", name == "ask" && reason == " "
					if name == "ask" && !refused || reason != " " && !off && name != "complete" && name != "release" {
						want = "which of the two? ()"
					}
					if got := strings.Join(h.said()[before:], "; "); got != want || (h.code(err) == "invalid_request") != refused || err != nil && !refused {
						h.Errorf("%s because of %q, comments off %v: %v, and the comment %q, want %q", name, reason, off, err, got, want)
					}
					if refused {
						_, err = h.finish("Sandman", "", claim.EndReleased, "")
					}
					if err != nil {
						h.Fatal(err)
					}
				}
			}
		})
	}
}

// A person is mentioned by name, address or id; one who joined just now is found. Who is not known for
// certain is refused before anything is done.
func TestMention(t *testing.T) {
	const ada = "aaaaaaaa-1f15-45cd-9c65-0dfe42f5135a"
	var asked []bool
	people := func(anew bool) ([]broker.Person, error) {
		all := []broker.Person{{ID: ada, Name: "Ada Lovelace", Email: "ada@example.com"}, {ID: "alex 1", Name: "Alex", Email: "alex@example.com"}, {ID: "alex 2", Name: "Alex"}}
		if asked = append(asked, anew); anew {
			all = append(all, broker.Person{ID: "grace", Name: "Grace"})
		}
		return all, nil
	}
	inHouse(t, func(h *house) { h.config.Comments = remarks{people: people} }, pair()[:1], func(h *house) {
		id := string(h.mustClaim("Sandman", "").ID)
		for _, how := range []string{"block", "fail", "fail and reopen", "review", "ask"} {
			for who, says := range map[string]string{
				"Alex": "alex@example.com", "Ada": "it could be Ada Lovelace (ada@example.com)", string(taskID): "nobody in the workspace", "Ada, Bob": "nobody in the workspace",
				"Nobody": "there is Ada Lovelace (ada@example.com), Alex (alex@example.com), Alex (alex 2), Grace (grace)",
			} {
				if err := ends[how](h, id, "why", who); h.code(err) != "invalid_request" || !strings.Contains(err.Error(), says) {
					h.Errorf("%s, mentioning %q: %v, want it refused and %q", how, who, err, says)
				}
			}
			if err := ends[how](h, id, "", "Ada Lovelace"); h.code(err) != "invalid_request" {
				h.Errorf("%s with a mention and without a reason: %v", how, err)
			}
		}
		var want []string
		for who, user := range map[string]string{
			"Ada Lovelace": ada, "ada lovelace": ada, " @Ada Lovelace": ada, "ADA@example.com": ada, ada: ada, strings.ReplaceAll(ada, "-", ""): ada,
			"alex@example.com": "alex 1", "Grace": "grace",
		} {
			asked, want = nil, append(want, "why ("+user+")")
			if err := ends["fail and reopen"](h, id, "why", who); err != nil || len(asked) != 1 && who != "Grace" {
				h.Errorf("mentioning %q: %v, and the people were asked for %v", who, err, asked)
			}
			id = string(h.mustClaim("Sandman", "").ID)
		}
		if got := h.said(); !slices.Equal(got, want) {
			h.Errorf("comments %q, want %q", got, want)
		}
	})
}

// Where nobody can be mentioned, that is said, nothing is done, and the claim can be ended without.
func TestMentionThatCannotBe(t *testing.T) {
	away := func(kind claim.StoreErrorKind) func(bool) ([]broker.Person, error) {
		return func(bool) ([]broker.Person, error) { return nil, claim.Errorf(kind, claim.LandedNo, "no") }
	}
	for code, tt := range map[string]struct {
		remarks
		says string
	}{
		"invalid_request":    {remarks{off: true}, "set notion.comments to true"},
		"invalid_request ":   {remarks{}, "the connection sees no people there"},
		"notion_refused":     {remarks{people: away(claim.Refused)}, "nothing was done"},
		"notion_unavailable": {remarks{people: away(claim.Unavailable)}, "nothing was done"},
	} {
		inHouse(t, func(h *house) { h.config.Comments = tt.remarks }, pair()[:1], func(h *house) {
			id := string(h.mustClaim("Sandman", "").ID)
			if err := ends["block"](h, id, "why", "Maria"); h.code(err) != strings.TrimSpace(code) || !strings.Contains(err.Error(), tt.says) || h.board.Page(pair()[0].ID).Status != task.InProgress {
				h.Errorf("%v, want %s and %q", err, code, tt.says)
			}
			if err := ends["block"](h, id, "why", ""); err != nil {
				h.Error(err)
			}
		})
	}
}

// A question blocks its task and is asked once; what else there is to say is a comment.
func TestAsk(t *testing.T) {
	inHouse(t, func(h *house) { h.config.Comments = remarks{off: true} }, pair()[:1], func(h *house) {
		id := h.mustClaim("Sandman", "").ID
		ask := func(text string) (api.Claim, string) {
			return did(h, h.Ask, new(api.On(string(id), "", api.AskRequest{Agent: "Sandman", Text: text})))
		}
		for range 2 {
			if cl, code := ask("which?"); code != "<nil>" || cl.ID != id || cl.Outcome != "blocked" || h.board.Page(pair()[0].ID).Status != task.Blocked {
				h.Errorf("asked: %s, %+v", code, cl)
			}
		}
		if _, code := ask("and why?"); code != "claim_lost" {
			h.Errorf("another question: %s", code)
		}
		if got := must(h, h.Report, &api.ReportInput{Days: 7}).Questions; len(got) != 1 || got[0].Text != "which?" || got[0].By != "Sandman" {
			h.Errorf("the report has the questions %+v", got)
		}
	})
}

// A comment is owed once for each key, and signed; who makes it hears within five seconds that it is
// not on the page yet.
func TestComment(t *testing.T) {
	gone := with(openTask(2, "Gone"), func(t *task.Task) { t.Trashed = true })
	inHouse(t, func(h *house) { h.config.Comments, h.config.Creations = remarks{}, maker{gone} }, pair()[:1], func(h *house) {
		say := func(key, id string, r api.CommentRequest) (api.Commented, error) {
			return h.Comment(h.Context(), broker.Caller{Key: key, User: "user ada"}, new(api.OnTask(task.ID(id), key, r)))
		}
		for key, agent := range map[string]string{"k": "Oracle", "l": ""} {
			for range 2 {
				began := time.Now()
				got, err := say(key, "TASK-1", api.CommentRequest{Agent: agent, Text: "hello"})
				if by := cmp.Or(agent, "user ada"); err != nil || got.Comment.By != by || got.Comment.Text != "hello" || !got.Owed || got.Detail != "Notion has not answered yet" || time.Since(began) != 5*time.Second {
					h.Errorf("said %+v, %v, after %v", got, err, time.Since(began))
				}
			}
		}
		if got := h.said(); !slices.Equal(got, []string{"hello ()", "hello ()"}) {
			h.Errorf("comments %q", got)
		}
		long := strings.Repeat("x", 60<<10)
		for name, tt := range map[string]struct {
			id   string
			body api.CommentRequest
			want string
		}{
			"empty": {"TASK-1", api.CommentRequest{Text: "  "}, "invalid_request"}, "too long": {"TASK-1", api.CommentRequest{Text: long}, "invalid_request"},
			"mentions nobody": {"TASK-1", api.CommentRequest{Text: "x", Mention: "Nobody"}, "invalid_request"},
			"no task":         {"TASK-7", api.CommentRequest{Text: "x"}, "not_found"}, "in the trash": {string(gone.ID), api.CommentRequest{Text: "x"}, "not_found"},
		} {
			if _, err := say("", tt.id, tt.body); h.code(err) != tt.want {
				h.Errorf("%s: %v, want %s", name, err, tt.want)
			}
		}
		for _, text := range []string{" ", long} {
			if err := h.send(api.MessageRequest{To: "Oracle", Text: text}); h.code(err) != "invalid_request" {
				h.Errorf("a message of %d bytes: %v", len(text), err)
			}
		}
	})
}
