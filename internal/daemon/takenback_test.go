package daemon_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// takeBack has Ada take a task back from whoever holds it.
func (n *node) takeBack(id, reason string) api.Claim {
	n.w.Helper()
	ended, err := n.Release(n.w.Context(), id, api.StopRequest{By: "Ada", Reason: reason}, "")
	mustDo(n.w, err)
	return ended
}

// A person who ends a claim through dibs is named everywhere: to the agent, on the card and in the
// log. The agent is not offered the task for an hour, whoever is the daemon by then.
func TestTakenBackByAPerson(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		taken := time.Now()
		if ended := n.takeBack(id, "the ladder\nbroke"); ended.ID != cl.ID || ended.Outcome != claim.EndLost || ended.Summary != "" {
			w.Errorf("the claim ended as %+v", ended)
		}
		if again := n.takeBack(string(cl.ID), "twice"); again.Outcome != claim.EndLost || !strings.Contains(again.Detail, "the ladder broke") {
			w.Errorf("taken back twice: %+v", again)
		}
		if diff := cmp.Diff(shown{Status: "OPEN"}, show(w.page(id))); diff != "" {
			w.Errorf("the card (-want +got):\n%s", diff)
		}
		if got := w.page(id).Text("note"); !regexp.MustCompile(`^Taken back: from Sandman: the ladder broke — Ada \(user .+\), .* UTC$`).MatchString(got) {
			w.Errorf("the note: %q", got)
		}
		told := regexp.MustCompile(`^claim_lost Alpha from Ada: Ada \(user .+\) took the task back: the ladder broke$`)
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !told.MatchString(got[0]) {
			w.Errorf("Sandman is told %q", got)
		}
		for _, id := range []string{string(cl.ID), api.OnlyClaim} {
			_, err := n.Complete(w.Context(), id, api.CompleteRequest{Agent: "Sandman", Summary: "it was done"}, "")
			if code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "took the task back: the ladder broke") {
				w.Errorf("complete %s: %v; want who took it and why", id, err)
			}
		}

		next := func(agent, want string) {
			w.Helper()
			cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: agent}, "")
			got := cl.Task.Title
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				w.Errorf("%v after it was taken back, %s gets %q, want %q", time.Since(taken), agent, got, want)
			}
			if err == nil {
				_, err := n.Release(w.Context(), string(cl.ID), api.StopRequest{}, "")
				mustDo(w, err)
			}
		}
		next("Sandman", "1 was taken back from the agent")
		next("Oracle", "Alpha")
		n.stop()
		n = w.start(o)
		time.Sleep(time.Until(taken.Add(59 * time.Minute)))
		next("Sandman", "1 was taken back from the agent")
		n.wantInbox("Sandman", 0)
		list, err := n.Tasks(w.Context(), api.TaskFilter{Agent: "Sandman", Ready: true, Why: true})
		mustDo(w, err)
		i := slices.IndexFunc(list.Tasks, func(t api.Task) bool { return t.Title == "Alpha" })
		if got := list.Tasks[i]; got.Ready || got.Code != "not_offered" || !strings.Contains(got.Reason, "Ada") {
			w.Errorf("for Sandman: %+v", got)
		}
		// Whoever names the task, or gives it to the agent, means it.
		_, err = n.Release(w.Context(), string(n.mustClaim("Sandman", id).ID), api.StopRequest{By: "Sandman"}, "")
		mustDo(w, err)
		if got := w.page(id).Text("note"); !strings.HasPrefix(got, "Given back — Sandman") {
			w.Errorf("by itself: %q", got)
		}
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Sandman")})
		n.sync()
		next("Sandman", "Alpha")
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "")})
		n.sync()
		next("Sandman", "1 was taken back from the agent")
		time.Sleep(time.Until(taken.Add(time.Hour + time.Second)))
		next("Sandman", "Alpha")

		log := w.notion.Pages(w.notion.Databases().MeshLog)
		if i := slices.IndexFunc(log, func(p emulator.Page) bool { return p.Select("event") == "lost" }); i < 0 ||
			log[i].Text("agent") != "Ada" || log[i].Text("holder") != "Sandman" || !strings.Contains(log[i].Text("detail"), "the ladder broke") {
			w.Errorf("the mesh log does not say that Ada took it: %v", w.mesh())
		}
		if diff := cmp.Diff([]string{"orphaned: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

// Without Notion the agent is told at once, once, and the card is opened when Notion is back.
func TestTakenBackWithoutNotion(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("Alpha", nil), w.add("Beta", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.react("Sandman", 0)
		n.mustClaim("Sandman", other)
		back := w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
		if ended := n.takeBack(id, "no more"); !ended.Pending || ended.Outcome != claim.EndLost || !strings.Contains(ended.Detail, "Ada") {
			w.Errorf("accepted as %+v", ended)
		}
		if _, err := n.Release(w.Context(), string(cl.ID), api.StopRequest{Agent: "Sandman"}, ""); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "no more") {
			w.Errorf("released by its agent: %v", err)
		}
		if got := n.react("Sandman", time.Minute); len(got) != 1 || !strings.Contains(got[0], "claim_lost Alpha from Ada") {
			w.Errorf("Sandman is told %q", got)
		}
		back()
		time.Sleep(10 * time.Minute)
		if got := w.page(id).Select("status"); got != "OPEN" {
			w.Errorf("the card is %s", got)
		}
		n.stop()
		n = w.start(o)
		n.wantInbox("Sandman", 0) // not twice, and there is nothing for it
		if done, p := n.finishUnnamed("Sandman", "beta"); p != nil || done.Task.Title != "Beta" {
			w.Errorf("the other claim: %+v, %v", done, p)
		}
	})
}

// A name of agents is signed with only by those who may go by it.
func TestSignedByWhom(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(func(c *config.Config) {
			c.Agents = []config.Agent{{Name: "Sandman"}, {Name: "Oracle", UIDs: []int{1 << 20}}}
		})
		cl := n.mustClaim("Sandman", id)
		for by, want := range map[string]api.Code{"Oracle": api.CodeForbiddenAgent, "user ada": api.CodeInvalidRequest} {
			if _, err := n.Release(w.Context(), string(cl.ID), api.StopRequest{By: by}, ""); code(err) != string(want) {
				w.Errorf("by %q: %v", by, err)
			}
		}
		n.takeBack(id, "")
	})
}
