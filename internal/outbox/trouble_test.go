package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"

	"github.com/google/go-cmp/cmp"
)

// wantTroubles fails the test unless the log's drainer tells of as many troubles, each
// with these words in it.
func (w *world) wantTroubles(log outbox.Kind, want ...[]string) {
	w.Helper()
	got := w.queues[log].Troubles()
	if len(got) != len(want) {
		w.Errorf("troubles of the %s log: %q, want %d", log, got, len(want))
		return
	}
	for i, words := range want {
		for _, word := range words {
			if !strings.Contains(got[i], word) {
				w.Errorf("trouble %q does not say %q", got[i], word)
			}
		}
	}
}

// TestUnansweredLog has one log answer nothing that tells what became of an entry, for
// an hour: it is asked less and less, all that it is owed is kept, and the other log
// does not notice.
func TestUnansweredLog(t *testing.T) {
	for name, lost := range map[string]bool{"and nothing lands": true, "and all of it lands": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				mended := false
				w.mesh.create = func(context.Context, string, int) fate {
					if mended {
						return fate{}
					}
					time.Sleep(10 * time.Second) // until the time limit
					return fate{lost: lost, err: unknown}
				}
				var mesh, work []string
				for i := range 40 {
					mesh, work = append(mesh, fmt.Sprintf("m%02d", i)), append(work, fmt.Sprintf("w%02d", i))
				}
				w.owe(outbox.MeshEntry, mesh...)
				w.owe(outbox.TaskEntry, work...)
				w.pass(0)
				w.wantOnce(w.work, work...)
				if lost {
					w.pass(time.Minute)
					w.wantTroubles(outbox.MeshEntry, []string{"the mesh log takes no entries", "503", "tried again in"})
				}
				w.wantTroubles(outbox.TaskEntry)
				w.pass(time.Hour)
				if n := w.mesh.requests(); lost && n > 60 {
					t.Errorf("the log that does not answer was asked %d times in an hour, want a few times", n)
				}
				w.owe(outbox.TaskEntry, "later")
				w.pass(0)
				w.wantOnce(w.work, "later")
				mended = true
				w.pass(20 * time.Minute)
				w.wantOnce(w.mesh, mesh...)
				w.wantTroubles(outbox.MeshEntry)
			})
		})
	}
}

// TestUnansweredEntry has the requests for one entry go unanswered for good, while all
// others are taken: it is sent less and less often, and named.
func TestUnansweredEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, id string, _ int) fate {
			if id == "poison" {
				return fate{lost: true, err: unknown}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "poison")
		w.pass(time.Second)
		w.wantTroubles(outbox.MeshEntry) // it may be there
		for i := range 120 {
			id := fmt.Sprintf("e%03d", i)
			w.owe(outbox.MeshEntry, id)
			w.pass(time.Minute)
			w.wantOnce(w.mesh, id)
		}
		sent := w.since(w.mesh.sent["poison"])
		last := time.Duration(0)
		for i := 2; i < len(sent); i++ {
			pause := sent[i] - sent[i-1]
			if pause < last && last < 10*time.Minute {
				t.Errorf("sent at %v: the pauses do not grow", sent)
				break
			}
			last = pause
		}
		if n := len(sent); n < 5 || n > 15 {
			t.Errorf("sent %d times in two hours, want a few times", n)
		}
		w.wantTroubles(outbox.MeshEntry, []string{"entry poison of the mesh log", "Sandman claimed “poison”", "503", "kept"})
	})
}

// TestRefusedEntriesAreNamed names the entries that are refused, and not too many.
func TestRefusedEntriesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, id string, _ int) fate {
			if strings.HasPrefix(id, "p") {
				return fate{lost: true, err: refused}
			}
			return fate{}
		}
		for i := range 5 {
			w.owe(outbox.MeshEntry, fmt.Sprintf("p%d", i))
			w.pass(0)
			w.owe(outbox.MeshEntry, fmt.Sprintf("e%d", i))
			w.pass(0)
		}
		w.wantTroubles(outbox.MeshEntry, []string{"entry p0", "400"}, []string{"entry p1"}, []string{"entry p2"}, []string{"2 more"})
	})
}

// TestNotionIsDown has nothing be sent because Notion as a whole is down. That is no
// entry's fault, nor the log's: nothing is named, and once Notion is back nothing waits.
func TestNotionIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		down := claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion is down")
		down.RetryAfter = 5 * time.Second
		w.mesh.create = func(context.Context, string, int) fate {
			if time.Since(w.began) < time.Hour {
				return fate{lost: true, err: down}
			}
			return fate{}
		}
		var mesh []string
		for i := range 10 {
			mesh = append(mesh, fmt.Sprintf("m%02d", i))
		}
		w.owe(outbox.MeshEntry, mesh...)
		w.pass(time.Hour - time.Second)
		w.wantTroubles(outbox.MeshEntry)
		w.pass(6 * time.Second)
		w.wantOnce(w.mesh, mesh...)
		for _, id := range mesh {
			if at := w.row(id).DeliveredAt.Sub(w.began); at > time.Hour+5*time.Second {
				t.Errorf("%s was delivered after %v", id, at)
			}
		}
		if diff := cmp.Diff([]string(nil), w.queues[outbox.MeshEntry].Troubles()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOneRefusedEntryInAQuietLog has one entry be refused again and again while there is
// nothing else to deliver. The next one is delivered at once all the same.
func TestOneRefusedEntryInAQuietLog(t *testing.T) {
	for name, err := range map[string]error{"refused": refused, "unanswered": unknown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.mesh.create = func(_ context.Context, id string, _ int) fate {
					if id == "poison" {
						return fate{lost: true, err: err}
					}
					return fate{}
				}
				w.owe(outbox.MeshEntry, "poison")
				w.pass(3 * time.Hour)
				w.owe(outbox.MeshEntry, "next")
				w.pass(0)
				w.wantOnce(w.mesh, "next")
			})
		})
	}
}
