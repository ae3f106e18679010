package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

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
		if _, err := n.Reopen(w.Context(), task.ID(blocked), api.ReopenRequest{Note: "look again"}, ""); err != nil {
			w.Fatal(err)
		}
		if note := fmt.Sprint(w.page(blocked)); !strings.Contains(note, "Reopened: look again — "+signature+", ") {
			w.Errorf("the page says %s", note)
		}
		if _, err := n.Send(w.Context(), api.MessageRequest{To: "Oracle", Text: "hello"}, ""); err != nil {
			w.Fatal(err)
		}
		n.wantInbox("Oracle", 0, "message from "+signature+": hello", "tasks_available one")
		if done := n.pause(api.PauseRequest{Agent: "Merlin"}); done.Pauses[0].By != signature {
			w.Errorf("Merlin is paused by %q", done.Pauses[0].By)
		}
		if _, err := n.Add(w.Context(), api.AddRequest{Title: "Gamma"}, ""); err != nil {
			w.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // Sandman is silent, and there is no scheduled sweep
		if _, err := n.SweepFor(w.Context(), api.SweepRequest{}, ""); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)

		log, err := n.Log(w.Context(), api.LogFilter{})
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
		_, err = n.Events(w.Context(), api.EventFilter{}, false, func(e api.Event) error {
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
