package daemon_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// fate is the outcome of a write.
type fate struct {
	answer  string // the sender's answer
	landing string // when it takes effect: at once, within the write window, later, or never
	fault   emulator.Fault
}

// fates are the outcomes of which a daemon learns nothing, or something false. Notion gives up on a
// request after a minute, so nothing lands later than that.
var fates = map[string]fate{
	"timeout, not applied":             {"timeout", "never", emulator.Fault{Kind: emulator.Delay, Delay: time.Minute}},
	"timeout, applied":                 {"timeout", "at once", emulator.Fault{Kind: emulator.DelayAnswer, Delay: time.Minute}},
	"reset, not applied":               {"reset", "never", emulator.Fault{Kind: emulator.DropRequest}},
	"reset, applied":                   {"reset", "at once", emulator.Fault{Kind: emulator.DropAnswer}},
	"409, not applied":                 {"409", "never", emulator.Fault{Kind: emulator.Conflict409}},
	"409, applied":                     {"409", "at once", emulator.Fault{Kind: emulator.Conflict409Saved}},
	"500":                              {"500", "never", emulator.Fault{Kind: emulator.Error500}},
	"502 of the edge":                  {"502", "never", emulator.Fault{Kind: emulator.HTML502}},
	"503, saved":                       {"503", "at once", emulator.Fault{Kind: emulator.SavedBut503}},
	"503, not saved":                   {"503", "never", emulator.Fault{Kind: emulator.Error503}},
	"504":                              {"504", "never", emulator.Fault{Kind: emulator.Error504}},
	"answered late":                    {"late", "at once", emulator.Fault{Kind: emulator.DelayAnswer, Delay: 5 * time.Second}},
	"applied and answered late":        {"late", "later", emulator.Fault{Kind: emulator.Delay, Delay: 5 * time.Second}},
	"acknowledged, not applied":        {"acknowledged", "never", emulator.Fault{Kind: emulator.NotApplied}},
	"reset, landing a second later":    {"reset", "within the window", emulator.Fault{Kind: emulator.LateWrite, Late: time.Second}},
	"reset, landing ten seconds later": {"reset", "later", emulator.Fault{Kind: emulator.LateWrite, Late: 10 * time.Second}},
	"reset, landing a minute later":    {"reset", "later", emulator.Fault{Kind: emulator.LateWrite, Late: time.Minute}},
	"503, landing half a minute later": {"503", "later", emulator.Fault{Kind: emulator.LateWrite503, Late: 30 * time.Second}},
}

// trusted are the fates with which a claim is still granted: its write is seen on the page within
// the write window.
var trusted = []emulator.FaultKind{emulator.DropAnswer, emulator.Conflict409Saved, emulator.SavedBut503}

// write is one of the writes that a daemon sends.
type write struct {
	// before prepares the write; send sends it, and returns once its sender has the answer.
	before, send func(s *scene) error
	// entry returns the database of the new entry; nil for a task's page.
	entry func(emulator.Databases) string
	// skip is the number of earlier writes to the same page.
	skip int
	// open says that in the end the task can be claimed, and so is Oracle's; else it shows want.
	open bool
	want shown
	// The logs' entries about Sandman and the task.
	mesh, work []string
}

// completed is a task that Sandman did in the first minute.
var completed = shown{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true}

var writes = map[string]write{
	"claim": {send: (*scene).claim}, // the result depends on the fate
	"renew": {
		before: func(s *scene) error {
			err := s.claim()
			time.Sleep(95 * time.Second)
			return err
		},
		send: func(s *scene) error {
			for range 2 { // until the first lease would have ended
				_, err := s.a.Renew(s.Context(), string(s.cl.ID), api.RenewRequest{}, "")
				if err != nil && code(err) != denied(claim.CodeNotionUnavailable) {
					return err
				}
				time.Sleep(90 * time.Second)
			}
			return s.a.complete(s.cl)
		},
		want: shown{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:03:00.000+00:00", Token: true},
		mesh: []string{"granted"}, work: []string{"completed"},
	},
	"complete": {
		before: (*scene).claim, send: (*scene).complete,
		want: completed, mesh: []string{"granted"}, work: []string{"completed"},
	},
	"release": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := s.a.Release(s.Context(), string(s.cl.ID), api.StopRequest{}, "")
			return err
		},
		open: true, mesh: []string{"granted", "released"},
	},
	"block": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := s.a.Block(s.Context(), string(s.cl.ID), api.BlockRequest{}, "")
			return err
		},
		want: shown{Status: "BLOCKED"}, mesh: []string{"blocked", "granted"},
	},
	"fail": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := s.a.Fail(s.Context(), string(s.cl.ID), api.FailRequest{Reopen: true}, "")
			return err
		},
		open: true, mesh: []string{"failed", "granted"}, work: []string{"failed"},
	},
	"sweep, marking":   {before: (*scene).goStale, send: (*scene).sweep, open: true, mesh: []string{"swept"}},
	"sweep, reopening": {before: (*scene).goStale, send: (*scene).sweep, skip: 1, open: true, mesh: []string{"swept"}},
	"mesh log entry": {
		entry: func(dbs emulator.Databases) string { return dbs.MeshLog },
		send:  (*scene).claimAndComplete,
		want:  completed, mesh: []string{"granted"}, work: []string{"completed"},
	},
	"task log entry": {
		entry: func(dbs emulator.Databases) string { return dbs.TaskLog },
		send:  (*scene).claimAndComplete,
		want:  completed, mesh: []string{"granted"}, work: []string{"completed"},
	},
}

// TestFateOfEveryWrite gives each write each fate once, while an agent of another daemon tries to
// claim the task again and again: all of them with -long, else a sample, see [encounters].
func TestFateOfEveryWrite(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	played := make(map[string][]string) // the writes by fate
	for _, e := range sampleOf(encounters()) {
		played[e.fate] = append(played[e.fate], e.write)
	}
	for name, names := range played {
		fault := fates[name].fault
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				st := newStage(w)
				defer st.a.stop()
				defer st.b.stop()
				var playing sync.WaitGroup
				for _, name := range names {
					s := &scene{stage: st, name: name, write: writes[name], id: w.add(name, nil)}
					playing.Go(func() { s.play(fault) })
				}
				playing.Wait()
				w.logsAgree(st.a, st.b)
				w.noBlindRepeats(st.lineA, st.lineB)
			})
		})
	}
}

// An entry whose creation was not acknowledged, and which Notion's queries do not show for two
// minutes, is not created again.
func TestEntryThatQueriesDoNotShowYet(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("logged", nil)
		n, line := w.onLine("a", nil)
		mesh := w.notion.Databases().MeshLog
		w.notion.Inject(emulator.Fault{Kind: emulator.DropAnswer, Method: http.MethodPost, Path: "/v1/pages", Times: 1})
		w.notion.Inject(emulator.Fault{Kind: emulator.StaleQuery, Path: "/v1/data_sources/" + w.notion.DataSource(mesh), Delay: 2 * time.Minute})
		n.mustClaim("Sandman", id)
		time.Sleep(10 * time.Minute)
		w.logsAgree(n)
		w.noBlindRepeats(line)
		if s, err := n.Status(w.Context()); err != nil || s.Outbox.Depth > 0 {
			w.Errorf("outbox = %+v, %v; want it empty", s.Outbox, err)
		}
	})
}

// The property by which an entry is found may be added or removed while its fate is unknown, and
// the daemon may notice. The entry is still found the way it was made.
func TestEntryIDChangesWhileAnEntryIsInDoubt(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	idColumn := map[string]any{"rich_text": map[string]any{}}
	for name, change := range map[string][2]any{"added": {nil, idColumn}, "removed": {idColumn, nil}} {
		for _, log := range []string{"mesh", "task"} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s log, restart %v", name, log, restart), func(t *testing.T) {
					t.Parallel()
					inWorld(t, 0, func(w *world) {
						database := w.notion.Databases().MeshLog
						if log == "task" {
							database = w.notion.Databases().TaskLog
						}
						edit := func(column any) {
							mustDo(w, w.notion.EditSchema(database, map[string]any{"entry_id": column}))
						}
						if change[0] == nil {
							edit(nil)
						}
						id := w.add("logged", nil)
						o := w.options(nil)
						n := w.start(o)
						ours := func(_ *http.Request, body []byte) bool {
							return bytes.Contains(body, []byte(w.notion.DataSource(database)))
						}
						w.notion.Inject(emulator.Fault{Kind: emulator.DropAnswer, Method: http.MethodPost, Path: "/v1/pages", Match: ours, Times: 1})
						// Queries show it after the daemon has seen the change.
						w.notion.Inject(emulator.Fault{Kind: emulator.StaleQuery, Path: "/v1/data_sources/" + w.notion.DataSource(database), Delay: 90 * time.Second})
						mustDo(w, n.complete(n.mustClaim("Sandman", id)))
						time.Sleep(2 * time.Second)
						edit(change[1])
						if restart {
							n.stop()
							n = w.start(o)
						}
						// Another entry with the same text.
						again := w.add("logged", nil)
						mustDo(w, n.complete(n.mustClaim("Sandman", again)))
						time.Sleep(20 * time.Minute)
						if got, want := w.mesh(), []string{"granted: Sandman", "granted: Sandman"}; !cmp.Equal(got, want) {
							w.Errorf("the mesh log says %q, want %q", got, want)
						}
						if got, want := w.work(), []string{"completed: Sandman", "completed: Sandman"}; !cmp.Equal(got, want) {
							w.Errorf("the task log says %q, want %q", got, want)
						}
						if s, err := n.Status(w.Context()); err != nil || s.Outbox.Depth > 0 {
							w.Errorf("outbox = %+v, %v; want it empty", s.Outbox, err)
						}
					})
				})
			}
		}
	}
}
