package daemon_test

import (
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

// TestWaitingLeavesNoTrace waits for unavailable tasks, and counts what is left.
func TestWaitingLeavesNoTrace(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world, n *node, id string){
		"a claim under way": func(w *world, n *node, id string) {
			w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.DelayAnswer, Delay: 8 * time.Second})
			go n.claim("Sandman", id)
			time.Sleep(time.Second)
		},
		"a claim that is held": func(w *world, n *node, id string) { n.mustClaim("Sandman", id) },
		"Notion is gone":       func(w *world, _ *node, _ string) { w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest}) },
	}
	for name, obstruct := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("wanted", nil)
				n := w.daemon(nil)
				obstruct(w, n, id)
				start := time.Now()
				_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 60}, "")
				if err == nil && time.Since(start) < 5*time.Second {
					w.Errorf("granted at once, although it was not to be had")
				}
				events, err := n.Log(w.Context(), api.LogFilter{Agent: "Oracle", Task: task.ID(id)})
				if err != nil || len(events.Entries) > 8 {
					w.Errorf("%d events after a minute's wait, err = %v; want a few", len(events.Entries), err)
				}
			})
		})
	}
}

func TestRefusalIsNoOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(quiet)
		w.notion.Inject(emulator.Fault{Method: "GET", Kind: emulator.Blocked429})
		if _, err := n.claim("Sandman", id); code(err) != string(api.CodeNotionRefused) {
			w.Errorf("err = %v, want notion_refused", err)
		}
	})
}
