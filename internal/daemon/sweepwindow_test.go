package daemon_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// TestEditsAroundASweep is TestEditsAroundAFinish for a sweep, which marks the page and clears it
// after the settle wait. A page that is trashed meanwhile stays trashed.
func TestEditsAroundASweep(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	// No edit coincides with a request: their order would be chance.
	moments := slices.Concat(around(0, 20*time.Millisecond), around(config.Default().Claim.Settle+finishWay*3, 20*time.Millisecond))
	edits := map[string]func(w *world, id string){"trash": (*world).trash}
	kept := map[string]func(p emulator.Page) bool{"trash": func(p emulator.Page) bool { return p.Trashed }}
	for what, edit := range personEdits {
		if edit.after != "OPEN" {
			edits[what], kept[what] = edit.do, edit.kept
		}
	}
	// A name alone leaves the claim stale: whoever takes the task must set the date, too.
	edits["another name"] = func(w *world, id string) {
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna"), "claimed_at": date(time.Now())})
	}
	for what, edit := range edits {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				n := w.daemon(func(c *config.Config) {
					quiet(c)
					c.Notion.Rate, c.Notion.Burst, c.Schedule.Sweep = 100, 100, "@every 100h"
				})
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return finishWay, finishWay })
				outside, inside, lost := 0, 0, 0
				for _, after := range moments {
					id := w.add(what, map[string]any{
						"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Nyx"),
						"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", "01JAAAAAAAAAAAAAAAAAAAAAAA"),
					})
					time.Sleep(time.Minute)
					if _, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, ""); err != nil {
						w.Fatal(err)
					}
					w.notion.ResetRequests()
					landed := make(chan time.Time)
					go func() {
						time.Sleep(20*time.Millisecond + after)
						edit(w, id)
						landed <- time.Now()
					}()
					time.Sleep(20 * time.Millisecond)
					began := time.Now()
					if _, err := n.Sweep(w.Context(), ""); err != nil && what != "trash" {
						w.Fatal(err)
					}
					at := <-landed
					time.Sleep(time.Minute)
					between, story := w.window(id, began, at, "")
					stays := kept[what](w.page(id))
					switch {
					case between:
						inside++
						if !stays {
							lost++
						}
						continue
					case !stays:
						w.Errorf("%v after the beginning, was lost%s", at.Sub(began), story)
					}
					outside++
				}
				if what == "CANCELLED" && lost == 0 {
					w.Error("no edit was overwritten inside of a window: the test does not see what it looks for")
				}
				if inside == 0 || outside == 0 {
					w.Errorf("%d edits inside of a window and %d outside: the test does not see what it looks for", inside, outside)
				}
			})
		})
	}
}
