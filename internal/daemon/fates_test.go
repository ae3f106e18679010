package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"complete": {
		before: (*scene).claim, send: (*scene).complete,
		want: completed, mesh: []string{"granted"}, work: []string{"completed"},
	},
	"release": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := client.Do(s.Context(), s.a.Client, api.OpRelease, api.On(string(s.cl.ID), "", api.StopRequest{}))
			return err
		},
		open: true, mesh: []string{"granted", "released"},
	},
	"block": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := client.Do(s.Context(), s.a.Client, api.OpBlock, api.On(string(s.cl.ID), "", api.BlockRequest{}))
			return err
		},
		want: shown{Status: "BLOCKED"}, mesh: []string{"blocked", "granted"},
	},
	"fail": {
		before: (*scene).claim,
		send: func(s *scene) error {
			_, err := client.Do(s.Context(), s.a.Client, api.OpFail, api.On(string(s.cl.ID), "", api.FailRequest{Reopen: true}))
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
// claim the task again and again: all of them with TEST_LONG=all, else a sample, see [encounters].
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
		if s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{}); err != nil || s.Outbox.Depth > 0 {
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
						if s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{}); err != nil || s.Outbox.Depth > 0 {
							w.Errorf("outbox = %+v, %v; want it empty", s.Outbox, err)
						}
					})
				})
			}
		}
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
	if s.denied == nil {
		s.alone()
	}
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
			s.alone()
		case denied(claim.CodeHeld), denied(claim.CodeNotOpen), denied(claim.CodeLostRace):
		default:
			s.errorf("Oracle: %v", err)
		}
	}
}

// alone checks, right after a grant, that no other agent believes to hold the task.
func (s *scene) alone() {
	s.Helper()
	var held []api.Claim
	for _, n := range []*node{s.a, s.b} {
		claims, err := client.Do(s.Context(), n.Client, api.OpListClaims, api.AgentFilter{})
		if err != nil {
			s.errorf("%v", err)
		}
		for _, cl := range claims.Claims {
			if string(cl.Task.ID) == s.id && cl.State == claim.Held {
				held = append(held, cl)
			}
		}
	}
	if len(held) != 1 {
		s.errorf("%d claims are held, want one: %+v", len(held), held)
	}
}

// encounter is a write and its fate.
type encounter struct{ write, fate string }

// aspects returns the aspects of an encounter that a sample must cover.
type aspects func(encounter) []any

// singly covers each write and each fate once.
func singly(e encounter) []any { return []any{"write " + e.write, "fate " + e.fate} }

// pairwise covers each pair of a write, an answer, and the time at which the write takes effect. An
// answer and a landing make a fate, so each fate is covered, too.
func pairwise(e encounter) []any {
	f := fates[e.fate]
	return append(singly(e),
		[2]string{"answer " + f.answer, "write " + e.write},
		[2]string{"landing " + f.landing, "write " + e.write},
		[2]string{"answer " + f.answer, "landing " + f.landing})
}

// encounters returns all possible ones, always in the same order.
func encounters() []encounter {
	var all []encounter
	for _, fate := range slices.Sorted(maps.Keys(fates)) {
		for _, name := range slices.Sorted(maps.Keys(writes)) {
			if writes[name].entry != nil && fates[fate].fault.Kind == emulator.NotApplied {
				continue // the answer to an acknowledged creation has the new page's id
			}
			all = append(all, encounter{name, fate})
		}
	}
	return all
}

// sampleOf returns the encounters to play: pairwise, singly with -short, all with TEST_LONG=all.
func sampleOf(all []encounter) []encounter {
	switch {
	case testkit.InFull():
		return all
	case testing.Short():
		return covering(all, singly)
	}
	return covering(all, pairwise)
}

// covering returns a sample that covers every aspect. Greedily, it takes the encounter with the
// most missing aspects.
func covering(all []encounter, of aspects) []encounter {
	missing := make(map[any]bool)
	for _, e := range all {
		for _, aspect := range of(e) {
			missing[aspect] = true
		}
	}
	var sample []encounter
	for len(missing) > 0 {
		var best encounter
		most := 0
		for _, e := range all {
			n := 0
			for _, aspect := range of(e) {
				if missing[aspect] {
					n++
				}
			}
			if n > most {
				best, most = e, n
			}
		}
		for _, aspect := range of(best) {
			delete(missing, aspect)
		}
		sample = append(sample, best)
	}
	return sample
}

// TestSampleOfFates checks the samples independently: each pair of values of two factors among all
// encounters occurs in the sample.
func TestSampleOfFates(t *testing.T) {
	all := encounters()
	factors := map[string]func(encounter) string{
		"write":   func(e encounter) string { return e.write },
		"answer":  func(e encounter) string { return fates[e.fate].answer },
		"landing": func(e encounter) string { return fates[e.fate].landing },
		"fate":    func(e encounter) string { return e.fate },
	}
	check := func(sample []encounter, a, b string) {
		t.Helper()
		type pair struct{ a, b string }
		found := make(map[pair]bool)
		for _, e := range sample {
			found[pair{factors[a](e), factors[b](e)}] = true
		}
		for _, e := range all {
			if p := (pair{factors[a](e), factors[b](e)}); !found[p] {
				found[p] = true
				t.Errorf("no %s %q with %s %q", a, p.a, b, p.b)
			}
		}
	}
	pairs, short := covering(all, pairwise), covering(all, singly)
	check(pairs, "write", "answer")
	check(pairs, "write", "landing")
	check(pairs, "answer", "landing")
	check(pairs, "fate", "fate")
	check(short, "write", "write")
	check(short, "fate", "fate")
	if len(all) < 170 || len(pairs) > 2*len(all)/3 || len(short) > 20 {
		t.Errorf("%d encounters, %d in pairs, %d with -short", len(all), len(pairs), len(short))
	}
	t.Logf("%d encounters, %d in pairs, %d with -short", len(all), len(pairs), len(short))
}

// refusing answers the creation of certain entries itself.
type refusing struct {
	next   http.RoundTripper
	strike func(body []byte) bool
	status int
	answer string

	struck atomic.Int32
	mended atomic.Bool
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.mended.Load() || req.Method != http.MethodPost || req.URL.Path != "/v1/pages" {
		return r.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	if !r.strike(body) {
		return r.next.RoundTrip(req)
	}
	r.struck.Add(1)
	return &http.Response{
		StatusCode: r.status, Header: http.Header{
			"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)},
		},
		Body: io.NopCloser(strings.NewReader(r.answer)), Request: req,
	}, nil
}

// TestWhatIsNotTakenHoldsUpNothingElse refuses one entry, or all entries of one log, for good. All
// others are delivered, the refused ones are reported and kept, and they are not retried over and
// over.
func TestWhatIsNotTakenHoldsUpNothingElse(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		answer string
	}{
		"500":        {status: 500, answer: `{"object":"error","status":500,"code":"internal_server_error","message":"Unexpected"}`},
		"403":        {status: 403, answer: `{"object":"error","status":403,"code":"restricted_resource","message":"No"}`},
		"409":        {status: 409, answer: `{"object":"error","status":409,"code":"conflict_error","message":"Conflict"}`},
		"unreadable": {status: 200, answer: `{"object":"page","id":7`},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whole log: %v", name, whole), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					o := w.options(quiet)
					line := &refusing{next: o.Transport, status: answer.status, answer: answer.answer}
					line.strike = func(body []byte) bool {
						return bytes.Contains(body, []byte(`“poison”`)) && bytes.Contains(body, []byte("granted"))
					}
					if whole {
						log := []byte(w.notion.DataSource(w.notion.Databases().MeshLog))
						line.strike = func(body []byte) bool { return bytes.Contains(body, log) }
					}
					o.Transport = line
					n := w.start(o)
					const tasks = 12
					for i := range tasks {
						title := fmt.Sprint("task ", i)
						if i == 3 {
							title = "poison"
						}
						mustDo(w, n.complete(n.mustClaim("Sandman", w.add(title, nil))))
					}
					time.Sleep(5 * time.Second)
					mesh := tasks - 1
					if whole {
						mesh = 0
					}
					if got := len(w.work()); got != tasks {
						w.Errorf("%d entries in the task log, want %d", got, tasks)
					}
					if got := len(w.mesh()); got != mesh {
						w.Errorf("%d entries in the mesh log, want %d", got, mesh)
					}
					time.Sleep(10 * time.Minute)
					want := "of the mesh log, \"Sandman claimed “poison”\", is not taken: "
					if whole {
						want = "the mesh log takes no entries: "
					}
					s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{})
					if err != nil || !strings.Contains(strings.Join(s.Warnings, "\n"), want) || s.Outbox.Depth != tasks-mesh {
						w.Errorf("warnings %q, outbox %+v, %v; want %q", s.Warnings, s.Outbox, err, want)
					}
					time.Sleep(time.Hour)
					if got := line.struck.Load(); got > 80 || !whole && got > 12 {
						w.Errorf("asked %d times in an hour, want a few times", got)
					}
					line.mended.Store(true)
					time.Sleep(25 * time.Minute)
					if got := len(w.mesh()); got != tasks {
						w.Errorf("%d entries in the mesh log in the end, want %d", got, tasks)
					}
					if s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{}); err != nil || len(s.Warnings) > 0 || s.Outbox != (api.OutboxStatus{}) {
						w.Errorf("warnings %q, outbox %+v, %v in the end; want none", s.Warnings, s.Outbox, err)
					}
				})
			})
		}
	}
}
