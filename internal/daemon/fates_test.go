package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// fate is the outcome of a write: its sender's answer, and the fault that makes it.
type fate struct {
	answer string
	fault  emulator.Fault
}

// fates are the outcomes of a write of which a daemon learns nothing, or something false. Notion gives up on a
// request after a minute, so nothing lands later than that.
var fates = map[string]fate{
	"timeout, not applied":             {"timeout", emulator.Fault{Kind: emulator.Delay, Delay: time.Minute}},
	"timeout, applied":                 {"timeout", emulator.Fault{Kind: emulator.DelayAnswer, Delay: time.Minute}},
	"reset, not applied":               {"reset", emulator.Fault{Kind: emulator.DropRequest}},
	"reset, applied":                   {"reset", emulator.Fault{Kind: emulator.DropAnswer}},
	"409, not applied":                 {"409", emulator.Fault{Kind: emulator.Conflict409}},
	"409, applied":                     {"409", emulator.Fault{Kind: emulator.Conflict409Saved}},
	"500":                              {"500", emulator.Fault{Kind: emulator.Error500}},
	"502 of the edge":                  {"502", emulator.Fault{Kind: emulator.HTML502}},
	"503, saved":                       {"503", emulator.Fault{Kind: emulator.SavedBut503}},
	"503, not saved":                   {"503", emulator.Fault{Kind: emulator.Error503}},
	"504":                              {"504", emulator.Fault{Kind: emulator.Error504}},
	"answered late":                    {"late", emulator.Fault{Kind: emulator.DelayAnswer, Delay: 5 * time.Second}},
	"applied and answered late":        {"late", emulator.Fault{Kind: emulator.Delay, Delay: 5 * time.Second}},
	"acknowledged, not applied":        {"acknowledged", emulator.Fault{Kind: emulator.NotApplied}},
	"reset, landing a second later":    {"reset", emulator.Fault{Kind: emulator.LateWrite, Late: time.Second}},
	"reset, landing ten seconds later": {"reset", emulator.Fault{Kind: emulator.LateWrite, Late: 10 * time.Second}},
	"reset, landing a minute later":    {"reset", emulator.Fault{Kind: emulator.LateWrite, Late: time.Minute}},
	"503, landing half a minute later": {"503", emulator.Fault{Kind: emulator.LateWrite503, Late: 30 * time.Second}},
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

// ending returns a way to end Sandman's claim.
func ending[Body any](op api.Op[api.ClaimInput[Body], api.Claim], body Body) func(*scene) error {
	return func(s *scene) error {
		_, err := client.Do(s.Context(), s.a.Client, op, api.On(string(s.cl.ID), "", body))
		return err
	}
}

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
				_, err := client.Do(s.Context(), s.a.Client, api.OpRenew, api.On(string(s.cl.ID), "", api.RenewRequest{}))
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
	"complete":         {before: (*scene).claim, send: (*scene).complete, want: completed, mesh: []string{"granted"}, work: []string{"completed"}},
	"release":          {before: (*scene).claim, send: ending(api.OpRelease, api.StopRequest{}), open: true, mesh: []string{"granted", "released"}},
	"block":            {before: (*scene).claim, send: ending(api.OpBlock, api.BlockRequest{}), want: shown{Status: "BLOCKED"}, mesh: []string{"blocked", "granted"}},
	"fail":             {before: (*scene).claim, send: ending(api.OpFail, api.FailRequest{Reopen: true}), open: true, mesh: []string{"failed", "granted"}, work: []string{"failed"}},
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

// TestFateOfEveryWrite gives each write fates in turn, each fate to one write, while an agent of another daemon
// tries to claim the task again and again. With -long each write has each fate.
func TestFateOfEveryWrite(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	names := slices.Sorted(maps.Keys(writes))
	for i, name := range slices.Sorted(maps.Keys(fates)) {
		fault := fates[name].fault
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				st := newStage(w)
				var playing sync.WaitGroup
				for j, name := range names {
					if !inTurn(i, j, len(names)) || writes[name].entry != nil && fault.Kind == emulator.NotApplied {
						continue // the answer to an acknowledged creation has the new page's id
					}
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

// The property by which an entry is found may be added or removed while its fate is unknown, and the daemon may
// notice, or the next one. The entry is still found the way it was made.
func TestEntryIDChangesWhileAnEntryIsInDoubt(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	idColumn := map[string]any{"rich_text": map[string]any{}}
	for name, before := range map[string]any{"added": nil, "removed": idColumn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				database, after := w.notion.Databases().MeshLog, any(idColumn)
				if before != nil {
					database, after = w.notion.Databases().TaskLog, nil
				}
				edit := func(column any) {
					mustDo(w, w.notion.EditSchema(database, map[string]any{"entry_id": column}))
				}
				edit(before)
				o := w.options(nil)
				n := w.start(o)
				ours := func(_ *http.Request, body []byte) bool {
					return bytes.Contains(body, []byte(w.notion.DataSource(database)))
				}
				w.notion.Inject(emulator.Fault{Kind: emulator.DropAnswer, Method: http.MethodPost, Path: "/v1/pages", Match: ours, Times: 1})
				// Queries show it after the daemon has seen the change.
				w.notion.Inject(emulator.Fault{Kind: emulator.StaleQuery, Path: "/v1/data_sources/" + w.notion.DataSource(database), Delay: 90 * time.Second})
				mustDo(w, n.complete(n.mustClaim("Sandman", w.add("logged", nil))))
				time.Sleep(2 * time.Second)
				edit(after)
				if before != nil {
					n.stop()
					n = w.start(o)
				}
				mustDo(w, n.complete(n.mustClaim("Sandman", w.add("logged", nil)))) // another entry with the same text
				time.Sleep(20 * time.Minute)
				w.logs(w.mesh(), "granted: Sandman", "granted: Sandman")
				w.logs(w.work(), "completed: Sandman", "completed: Sandman")
				if s := n.status(); s.Outbox.Depth > 0 {
					w.Errorf("outbox = %+v; want it empty", s.Outbox)
				}
			})
		})
	}
}

// stage is two daemons: Sandman is an agent of a, Oracle of b.
type stage struct {
	*world
	a, b         *node
	lineA, lineB *line
}

func newStage(w *world) *stage {
	st := &stage{world: w}
	settings := func(c *config.Config) {
		c.Claim.Timeout = 3 * time.Minute
		c.Notion.Rate, c.Notion.Burst = 100, 100
	}
	st.a, st.lineA = w.onLine("a", settings)
	// Oracle only takes open tasks, and leaves stale claims to a's sweep.
	st.b, st.lineB = w.onLine("b", func(c *config.Config) {
		settings(c)
		c.Claim.Override, c.Schedule.Sweep = config.OverrideOpenOnly, "@every 100h"
	})
	return st
}

// scene is one task that both agents want, and the fate of one of a's writes. The scenes of a stage
// are played at the same time.
type scene struct {
	*stage
	write
	name   string
	id     string
	cl     api.Claim // Sandman's
	denied error     // Sandman's refusal
	oracle *api.Claim
}

func (s *scene) errorf(format string, args ...any) {
	s.Helper()
	s.Errorf("%s: "+format, append([]any{s.name}, args...)...)
}

func (s *scene) claim() error {
	s.cl, s.denied = s.a.claim("Sandman", s.id)
	if c := code(s.denied); c == denied(claim.CodeNotionUnavailable) || c == denied(claim.CodeLostRace) {
		return nil
	}
	return s.denied
}

func (s *scene) complete() error { return s.a.complete(s.cl) }

func (s *scene) claimAndComplete() error { return errors.Join(s.claim(), s.complete()) }

// goStale lets Sandman hold the task for too long, through a daemon that is gone.
func (s *scene) goStale() error {
	err := s.notion.EditPage(s.id, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
		"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", string(claim.NewID(time.Now().Add(-2*time.Hour)))),
	})
	time.Sleep(20 * time.Second) // until the mirror has it
	return err
}

func (s *scene) sweep() error {
	if _, err := client.Do(s.Context(), s.a.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil {
		s.Logf("%s: %v", s.name, err) // the schedule retries
	}
	return nil
}

// play sends the write to its fate, waits until nothing more happens, and checks the result.
func (s *scene) play(fault emulator.Fault) {
	if s.before != nil {
		if err := s.before(s); err != nil {
			s.errorf("before the write: %v", err)
		}
	}
	var sent atomic.Int32
	dbs := s.notion.Databases()
	log := ""
	if s.entry != nil {
		log = s.notion.DataSource(s.entry(dbs))
	}
	fault.Skip, fault.Times, fault.Match = s.skip, 1, func(r *http.Request, body []byte) bool {
		hit := s.lineA.sends(r) && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, s.id)
		if s.entry != nil {
			hit = s.lineA.sends(r) && r.Method == http.MethodPost && r.URL.Path == "/v1/pages" &&
				bytes.Contains(body, []byte(log)) && bytes.Contains(body, []byte(s.id))
		}
		if hit {
			sent.Add(1)
		}
		return hit
	}
	s.notion.Inject(fault)

	ctx, stop := context.WithCancel(s.Context())
	var rival sync.WaitGroup
	if s.entry == nil {
		rival.Go(func() { s.compete(ctx) })
	}
	if err := s.send(s); err != nil {
		s.errorf("%v", err)
	}
	// A write that lands after a minute is withdrawn within another two, and an entry that is not
	// found is sent again after three.
	time.Sleep(4 * time.Minute)
	stop()
	rival.Wait()
	if int(sent.Load()) <= s.skip {
		s.errorf("the write was never sent")
	}
	s.checkOutcome(fault.Kind)
}

// checkOutcome checks the task and the first claim.
func (s *scene) checkOutcome(fate emulator.FaultKind) {
	s.Helper()
	dbs := s.notion.Databases()
	got, mesh, work := show(s.page(s.id)), s.rows(dbs.MeshLog, "event"), s.rows(dbs.TaskLog, "outcome")
	want := s.want
	if slices.Contains(mesh, "swept") && slices.Contains(mesh, "withdrawn") {
		s.mesh = append(s.mesh, "withdrawn") // a mark that landed after the next sweep
	}
	if s.name == "claim" {
		if granted := s.denied == nil; granted != slices.Contains(trusted, fate) {
			s.errorf("granted = %v, %v", granted, s.denied)
		}
		if s.denied == nil {
			want, s.mesh = shown{"IN_PROGRESS", "Sandman", "2000-01-01T00:00:00.000+00:00", true}, []string{"granted"}
		} else if s.open, s.mesh = true, []string{"denied"}; slices.Contains(mesh, "withdrawn") {
			s.mesh = append(s.mesh, "withdrawn")
		}
	}
	switch {
	case !s.open && s.oracle != nil:
		s.errorf("Oracle was granted the task: %+v", *s.oracle)
	case s.open && s.oracle == nil:
		s.errorf("the task is stuck: Oracle does not get it, and it shows %+v", got)
	case s.open:
		want = shown{"IN_PROGRESS", "Oracle", got.ClaimedAt, true}
		if token := s.page(s.id).Text("claim_token"); token != string(s.oracle.ID) {
			s.errorf("the token is %q, want that of Oracle's claim %s", token, s.oracle.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.errorf("the task (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.mesh, mesh); diff != "" {
		s.errorf("mesh log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.work, work); diff != "" {
		s.errorf("task log (-want +got):\n%s", diff)
	}
}

// rows returns a log's entries about Sandman and the task.
func (s *scene) rows(db, what string) []string {
	var out []string
	for _, p := range s.notion.Pages(db) {
		if p.Text("task_id") == s.id && p.Text("agent") == "Sandman" {
			out = append(out, p.Select(what))
		}
	}
	slices.Sort(out)
	return out
}

// compete lets Oracle try to claim the task, often at first, and watch its claim once it has one.
func (s *scene) compete(ctx context.Context) {
	for pace := time.Second; ; pace = min(2*pace, 30*time.Second) {
		timer := time.NewTimer(pace)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if s.oracle != nil {
			now, err := client.Do(s.Context(), s.b.Client, api.OpGetClaim, api.GetClaimInput{ID: string(s.oracle.ID), After: api.EventsFuture})
			if err != nil {
				s.errorf("Oracle's claim: %v", err)
			} else if now.State == claim.Ended {
				s.Logf("%s: Oracle's claim ended: %s, %s", s.name, now.Outcome, now.Detail)
				s.oracle = nil
			}
			continue
		}
		cl, err := s.b.claim("Oracle", s.id)
		switch code(err) {
		case "<nil>":
			s.oracle = &cl
		case denied(claim.CodeHeld), denied(claim.CodeNotOpen), denied(claim.CodeLostRace):
		default:
			s.errorf("Oracle: %v", err)
		}
	}
}

func TestLogThatNotionRefusesFailsNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		mustDo(w, w.notion.SetBlockLimit(0))
		mustDo(w, n.complete(n.mustClaim("Sandman", w.add("work", nil))))
		time.Sleep(time.Hour)
		if s := n.status(); s.Outbox.Depth != 2 || s.Outbox.LastError == "" || len(s.Warnings) == 0 {
			w.Errorf("outbox = %+v, warnings %q, want two entries and an error", s.Outbox, s.Warnings)
		}
		mustDo(w, w.notion.SetBlockLimit(100))
		time.Sleep(30 * time.Minute)
		w.logs(w.mesh(), "granted: Sandman")
		w.logs(w.work(), "completed: Sandman")
		if s := n.status(); len(s.Warnings) > 0 || s.Outbox != (api.OutboxStatus{}) {
			w.Errorf("in the end: outbox = %+v, warnings %q", s.Outbox, s.Warnings)
		}
	})
}

// An abandoned write may land on a claim that was granted since. Its sender withdraws it, the holder restores its own
// claim, and agents hear of a conflict and of nothing else.
func TestClaimCoveredByALateWrite(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("covered", nil)
		a, b := w.daemon(nil), w.daemon(nil)
		page := func(r *http.Request, _ []byte) bool { return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, id) }
		w.notion.Inject(emulator.Fault{Kind: emulator.LateWrite, Late: 20 * time.Second, Times: 1, Match: page})
		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Times: 2, Match: page}) // of the attempts that follow
		began := time.Now()
		if _, err := b.claim("Oracle", id); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Fatalf("Oracle: %v, want notion_unavailable", err)
		}
		cl := a.mustClaim("Sandman", id)
		time.Sleep(time.Until(began.Add(20*time.Second + time.Millisecond)))
		covered, repaired := time.Now(), time.Duration(0)
		if got := w.page(id).Text("claimed_by"); got != "Oracle" {
			w.Fatalf("the task is %q's, want the late write over Sandman's", got)
		}
		for time.Since(covered) < 5*time.Minute {
			if now := a.now(cl); now.State != claim.Held {
				w.Fatalf("after %v: the claim is %s, %s; want it held", time.Since(covered), now.State, now.Detail)
			}
			if shows := w.page(id).Text("claim_token") == string(cl.ID); shows && repaired == 0 {
				repaired = time.Since(covered)
			} else if !shows && repaired > 0 {
				w.Fatalf("the claim was in its place after %v, and is not after %v", repaired, time.Since(covered))
			}
			if held, err := client.Do(w.Context(), b.Client, api.OpListClaims, api.AgentFilter{}); err != nil || len(held.Claims) > 0 {
				w.Fatalf("b holds %+v, %v; want nothing", held.Claims, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		// The late write is seen and marked after one interval at most, the mark after another.
		if repaired == 0 || repaired > 2*interval {
			w.Errorf("repaired after %v, want within %v", repaired, 2*interval)
		}
		w.logs(w.mesh(), "conflict: Sandman", "denied: Oracle", "denied: Oracle", "denied: Oracle", "granted: Sandman")
		a.wantEvents(0, `claimed Sandman "covered"`, `conflict Sandman Oracle "covered"`)
		mustDo(w, a.complete(cl))
		w.notion.ResetRequests() // Oracle's attempt is completely done with
		time.Sleep(10 * time.Minute)
		for _, r := range w.notion.Requests() {
			if strings.HasSuffix(r.Path, id) {
				w.Errorf("%s of the task's page", r.Method)
			}
		}
		w.logsAgree(a, b)
	})
}
