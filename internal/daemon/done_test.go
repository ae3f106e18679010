package daemon_test

import (
	"slices"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// withBox runs a test on a board with a box Finished, which the daemons of the test read as done.
func withBox(t *testing.T, test func(w *world, use func(*config.Config))) {
	t.Helper()
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Finished": typed("checkbox")}))
		test(w, func(c *config.Config) { c.Tasks.Properties.Done = "Finished" })
	})
}

// ticked reports whether the box of a card is ticked.
func (w *world) ticked(id string) bool { return w.page(id).Value("Finished") == true }

func TestTickedIsDone(t *testing.T) {
	testkit.RacedElsewhere(t)
	withBox(t, func(w *world, use func(*config.Config)) {
		ticked := w.add("ticked", map[string]any{"Finished": checked(true)})
		w.add("waits for it", map[string]any{"depends_on": relation(ticked)})
		held := w.add("held", nil)
		n := w.daemon(use)
		if got := n.ready(""); !slices.Equal(got, []string{"waits for it", "held"}) {
			w.Errorf("ready: %q", got)
		}
		if _, err := n.claim("Sandman", ticked); code(err) != denied(claim.CodeNotOpen) {
			w.Errorf("what is ticked was claimed: %v", err)
		}
		// Ticked by a person while an agent works on it.
		cl := n.mustClaim("Sandman", held)
		w.edit(held, map[string]any{"Finished": checked(true)})
		time.Sleep(2 * interval)
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			w.Errorf("%v, want the claim lost to the person who ticked it", err)
		}
		if got := w.page(held).Select("status"); got != "IN_PROGRESS" || !w.ticked(held) {
			w.Errorf("the card is %s, ticked %v: want it as the person left it", got, w.ticked(held))
		}
	})
}

// What waits for a task is ready once that is ticked. A tick that is taken off gives the task back.
func TestTicksAreFollowed(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		first := w.add("first", nil)
		w.add("second", map[string]any{"depends_on": relation(first)})
		n := w.daemon(use)
		for _, step := range []struct {
			ticked bool
			ready  []string
		}{{true, []string{"second"}}, {false, []string{"first"}}} {
			w.edit(first, map[string]any{"Finished": checked(step.ticked)})
			time.Sleep(2 * interval)
			if got := n.ready(""); !slices.Equal(got, step.ready) {
				w.Errorf("ticked %v: ready %q, want %q", step.ticked, got, step.ready)
			}
		}
	})
}

func TestFinishingTicks(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		id := w.add("to do", nil)
		n := w.daemon(use)
		cl := n.mustClaim("Sandman", id)
		w.notion.ResetRequests()
		if err := n.complete(cl); err != nil {
			w.Fatal(err)
		}
		if sent := slices.DeleteFunc(w.requests(), func(r string) bool { return r != "PATCH page" }); len(sent) != 1 || !w.ticked(id) {
			w.Errorf("%d writes, ticked %v: want it ticked in the same write", len(sent), w.ticked(id))
		}
		if _, err := n.Reopen(w.Context(), task.ID(id), api.ReopenRequest{Was: "COMPLETED"}, ""); err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(openCard, show(w.page(id))); diff != "" || w.ticked(id) {
			w.Errorf("the reopened card, ticked %v (-want +got):\n%s", w.ticked(id), diff)
		}
		n.mustClaim("Oracle", id)
	})
}

// Only what finishes a task, or opens it again, writes into the box. A person who ticks it in the
// middle of an attempt finds nothing of the attempt on the card.
func TestTheBoxIsPeoples(t *testing.T) {
	testkit.RacedElsewhere(t)
	withBox(t, func(w *world, use func(*config.Config)) {
		n := w.daemon(use)
		for part := range time.Duration(8) {
			after := config.Default().Claim.Settle * part / 8
			id := w.add("contested", nil)
			go func() {
				time.Sleep(after)
				w.edit(id, map[string]any{"Finished": checked(true)})
			}()
			if _, err := n.claim("Sandman", id); err == nil {
				w.Errorf("a task was granted that a person ticked after %v", after)
			}
			time.Sleep(time.Minute)
			if got := show(w.page(id)); !w.ticked(id) || got != (shown{Status: "COMPLETED"}) && got != openCard {
				w.Errorf("ticked by a person after %v, the card shows %+v, ticked: %v", after, got, w.ticked(id))
			}
		}
	})
}

func TestBoxGoes(t *testing.T) {
	withBox(t, func(w *world, use func(*config.Config)) {
		ticked, free := w.add("ticked", map[string]any{"Finished": checked(true)}), w.add("free", nil)
		n := w.daemon(use)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Finished": nil}))
		for _, id := range []string{ticked, free} {
			if _, err := n.claim("Sandman", id); err == nil {
				w.Error("a task was claimed without the box")
			}
		}
	})
}
