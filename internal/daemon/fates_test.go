package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
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
	"dibs/internal/emulator"

	"github.com/google/go-cmp/cmp"
)

// fates are the ways in which a daemon does not learn, or learns wrongly, what
// became of a write. Notion gives up on a request after a minute, so nothing
// lands later than that.
var fates = map[string]emulator.Fault{
	"timeout, not applied":             {Kind: emulator.Delay, Delay: time.Minute},
	"timeout, applied":                 {Kind: emulator.DelayAnswer, Delay: time.Minute},
	"reset, not applied":               {Kind: emulator.DropRequest},
	"reset, applied":                   {Kind: emulator.DropAnswer},
	"409, not applied":                 {Kind: emulator.Conflict409},
	"409, applied":                     {Kind: emulator.Conflict409Saved},
	"500":                              {Kind: emulator.Error500},
	"502 of the edge":                  {Kind: emulator.HTML502},
	"503, saved":                       {Kind: emulator.SavedBut503},
	"503, not saved":                   {Kind: emulator.Error503},
	"504":                              {Kind: emulator.Error504},
	"answered late":                    {Kind: emulator.DelayAnswer, Delay: 5 * time.Second},
	"applied and answered late":        {Kind: emulator.Delay, Delay: 5 * time.Second},
	"acknowledged, not applied":        {Kind: emulator.NotApplied},
	"reset, landing a second later":    {Kind: emulator.LateWrite, Late: time.Second},
	"reset, landing ten seconds later": {Kind: emulator.LateWrite, Late: 10 * time.Second},
	"reset, landing a minute later":    {Kind: emulator.LateWrite, Late: time.Minute},
	"503, landing half a minute later": {Kind: emulator.LateWrite503, Late: 30 * time.Second},
}

// trusted are the fates of a claim that is granted all the same: its write is
// seen on the page within the write window.
var trusted = []emulator.FaultKind{emulator.DropAnswer, emulator.Conflict409Saved, emulator.SavedBut503}

// write is one of the writes that a daemon sends.
type write struct {
	// before leads up to the write; send has it sent, and returns once its
	// sender has its answer.
	before, send func(s *scene) error
	// entry names the database whose entry is created; nil for a task's page.
	entry func(emulator.Databases) string
	// skip is the number of writes to the same page that come first.
	skip int
	// open says that the task is for the taking in the end, and so Oracle's;
	// else it shows want.
	open bool
	want shown
	// What the logs say of Sandman and the task.
	mesh, work []string
}

// completed is what a task shows that Sandman did in the first minute.
var completed = shown{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true}

var writes = map[string]write{
	"claim": {send: (*scene).claim}, // what is wanted depends on the fate
	"renew": {
		before: func(s *scene) error {
			err := s.claim()
			time.Sleep(95 * time.Second)
			return err
		},
		send: func(s *scene) error {
			for range 2 { // until the first lease would be stale
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
			_, err := s.a.Block(s.Context(), string(s.cl.ID), api.StopRequest{}, "")
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

// TestFateOfEveryWrite has each write meet each fate, once, while an agent of
// another daemon tries for the task again and again.
func TestFateOfEveryWrite(t *testing.T) {
	t.Parallel()
	for fate, fault := range fates {
		t.Run(fate, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				st := newStage(w)
				defer st.a.stop()
				defer st.b.stop()
				var playing sync.WaitGroup
				for name, wr := range writes {
					if wr.entry != nil && fault.Kind == emulator.NotApplied {
						continue // of a creation that is acknowledged, the answer has the new page's id
					}
					s := &scene{stage: st, name: name, write: wr, id: w.add(name, nil)}
					playing.Go(func() { s.play(fault) })
				}
				playing.Wait()
				w.logsAgree(st.a, st.b)
				w.noBlindRepeats(st.lineA, st.lineB)
			})
		})
	}
}

// An entry whose creation was not answered, and which Notion's queries do not
// show for two minutes, is not created again.
func TestEntryThatQueriesDoNotShowYet(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("logged", nil)
		n, line := w.onLine("a", nil)
		defer n.stop()
		mesh := w.notion.Databases().MeshLog
		w.notion.Inject(emulator.Fault{Kind: emulator.DropAnswer, Method: http.MethodPost, Path: "/v1/pages", Times: 1})
		w.notion.Inject(emulator.Fault{Kind: emulator.StaleQuery, Path: "/v1/databases/" + mesh, Delay: 2 * time.Minute})
		n.mustClaim("Sandman", id)
		time.Sleep(10 * time.Minute)
		w.logsAgree(n)
		w.noBlindRepeats(line)
		if s, err := n.Status(w.Context()); err != nil || s.Outbox.Depth > 0 {
			w.Errorf("outbox = %+v, %v; want it empty", s.Outbox, err)
		}
	})
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
	// Oracle takes what is open, and leaves stale claims to a's sweep.
	st.b, st.lineB = w.onLine("b", func(c *config.Config) {
		settings(c)
		c.Claim.Override, c.Schedule.Sweep = config.OverrideOpenOnly, "@every 100h"
	})
	return st
}

// scene is one task that both agents are after, and what becomes of it when
// one of a's writes meets its fate. Scenes of a stage are played at a time.
type scene struct {
	*stage
	write
	name   string
	id     string
	cl     api.Claim // Sandman's
	denied error     // why Sandman has none
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

// goStale has Sandman, through a daemon that is no more, hold the task for too long.
func (s *scene) goStale() error {
	err := s.notion.EditPage(s.id, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
		"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", string(claim.NewID(time.Now().Add(-2*time.Hour)))),
	})
	time.Sleep(20 * time.Second) // the mirror has to know
	return err
}

func (s *scene) sweep() error {
	if _, err := s.a.Sweep(s.Context(), ""); err != nil {
		s.Logf("%s: %v", s.name, err) // the schedule tries again
	}
	return nil
}

// play has the write sent and meet its fate, gives everything time to settle,
// and looks at the result.
func (s *scene) play(fault emulator.Fault) {
	if s.before != nil {
		if err := s.before(s); err != nil {
			s.errorf("before the write: %v", err)
		}
	}
	var sent atomic.Int32
	dbs := s.notion.Databases()
	fault.Skip, fault.Times, fault.Match = s.skip, 1, func(r *http.Request, body []byte) bool {
		hit := s.lineA.sends(r) && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, s.id)
		if s.entry != nil {
			hit = s.lineA.sends(r) && r.Method == http.MethodPost && r.URL.Path == "/v1/pages" &&
				bytes.Contains(body, []byte(s.entry(dbs))) && bytes.Contains(body, []byte(s.id))
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
	// What lands after a minute is withdrawn within another two, and an entry
	// that is not found is sent again after three.
	time.Sleep(4 * time.Minute)
	stop()
	rival.Wait()
	if int(sent.Load()) <= s.skip {
		s.errorf("the write was never sent")
	}
	s.settled(fault.Kind)
}

// settled checks what has become of the task and of the first claim.
func (s *scene) settled(fate emulator.FaultKind) {
	s.Helper()
	dbs := s.notion.Databases()
	got, mesh, work := show(s.page(s.id)), s.rows(dbs.MeshLog, "event"), s.rows(dbs.TaskLog, "outcome")
	want := s.want
	if slices.Contains(mesh, "swept") && slices.Contains(mesh, "withdrawn") {
		s.mesh = append(s.mesh, "withdrawn") // a mark that came when the next sweep was done
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

// rows returns what a log says of Sandman and the task.
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

// compete has Oracle try for the task, at first often, and watch over its claim
// once it has one.
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
			now, err := s.b.Lookup(s.Context(), string(s.oracle.ID), "")
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

// alone checks, when an agent was just granted the task, that nobody else
// believes to hold it.
func (s *scene) alone() {
	s.Helper()
	var held []api.Claim
	for _, n := range []*node{s.a, s.b} {
		claims, err := n.Claims(s.Context(), "")
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

// logsAgree checks that what the daemons put on record for a Notion log is
// there, each event once, and nothing else.
func (w *world) logsAgree(nodes ...*node) {
	w.Helper()
	want := map[claim.Log][]string{}
	for _, n := range nodes {
		events, err := n.Log(w.Context(), client.LogFilter{Limit: 1000})
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events.Events {
			for _, log := range (claim.Event{Kind: e.Kind, Remote: e.Remote}).Logs() {
				want[log] = append(want[log], e.ID)
			}
		}
	}
	dbs := w.notion.Databases()
	for log, db := range map[claim.Log]string{claim.MeshLog: dbs.MeshLog, claim.TaskLog: dbs.TaskLog} {
		var got []string
		for _, p := range w.notion.Pages(db) {
			got = append(got, p.Text("entry_id"))
		}
		slices.Sort(want[log])
		slices.Sort(got)
		if diff := cmp.Diff(want[log], got); diff != "" {
			w.Errorf("entries of the %s log (-on record +in Notion):\n%s", log, diff)
		}
	}
}

// noBlindRepeats checks that no daemon wrote to a page twice without reading it
// in between, nor created an entry again without having looked for it, and that
// nothing on the way sent a request twice.
func (w *world) noBlindRepeats(lines ...*line) {
	w.Helper()
	sent := 0
	for _, l := range lines {
		blind := make(map[string]bool) // the pages, and the entries' bodies, written and not looked at since
		for _, r := range l.requests() {
			switch {
			case r.method == http.MethodPost && strings.HasSuffix(r.path, "/query"):
				if id := soughtEntry.FindStringSubmatch(r.body); id != nil {
					maps.DeleteFunc(blind, func(body string, _ bool) bool { return strings.Contains(body, id[1]) })
				}
			case r.method == http.MethodGet:
				delete(blind, r.path)
			default:
				sent++
				what := r.path
				if r.method == http.MethodPost {
					what = r.body
				}
				if blind[what] {
					w.Errorf("daemon %s repeated without a look: %s %s %s", l.name, r.method, r.path, r.body)
				}
				blind[what] = true
			}
		}
	}
	arrived := 0
	for _, r := range w.notion.Requests() {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/query") {
			arrived++
		}
	}
	if arrived != sent {
		w.Errorf("%d writes arrived, %d were sent", arrived, sent)
	}
}

// soughtEntry matches the query for an entry.
var soughtEntry = regexp.MustCompile(`"equals":"([0-9A-HJKMNP-TV-Z]{26})"`)

// line is a daemon's line to Notion: it notes what is sent, and lets faults
// strike one daemon alone.
type line struct {
	name string
	next http.RoundTripper

	mu   sync.Mutex
	sent []sentRequest
}

type sentRequest struct{ method, path, body string }

// lineHeader tells the emulator whose request it is.
const lineHeader = "X-Line"

// onLine starts a daemon on a line of its own.
func (w *world) onLine(name string, change func(*config.Config)) (*node, *line) {
	w.Helper()
	o := w.options(change)
	l := &line{name: name, next: o.Transport}
	o.Transport = l
	return w.start(o), l
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	note := sentRequest{method: r.Method, path: r.URL.Path}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		note.body = string(data)
	}
	l.mu.Lock()
	l.sent = append(l.sent, note)
	l.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set(lineHeader, l.name)
	return l.next.RoundTrip(r)
}

// sends reports whether r came over this line.
func (l *line) sends(r *http.Request) bool { return r.Header.Get(lineHeader) == l.name }

func (l *line) requests() []sentRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}
