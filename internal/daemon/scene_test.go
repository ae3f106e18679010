package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

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
	if _, err := s.a.Sweep(s.Context(), ""); err != nil {
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

// alone checks, right after a grant, that no other agent believes to hold the task.
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
