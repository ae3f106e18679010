package arbiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/detector"
	"dibs/internal/task"
)

// still is a member that stands still in the middle of something, while its row ends and
// another member comes for the task, and that goes on at a moment of that one's attempt. A
// third one comes all the time.
type still struct {
	act   string
	step  int  // at which of its requests, counted from 1; 0 for none
	after bool // once that took effect, and before the answer is noticed; else before it is sent
	how   claimsim.Halt
	deaf  bool // as in arbitersim.Machine
	// rival is when the other member comes, from the beginning of the act, and wakes when the
	// member goes on, from then. Without a rival, it never goes on, and the other one comes
	// until it has the task.
	rival, wakes time.Duration
}

func (s still) String() string {
	where := "before"
	if s.after {
		where = "after"
	}
	return fmt.Sprintf("a member that %s stands still (%d, deaf %v) %s request %d, the rival comes after %v, it goes on %v later", s.act, s.how, s.deaf, where, s.step, s.rival, s.wakes)
}

// stood is what came of it.
type stood struct {
	requests []string      // of the member in the middle of its act
	granted  time.Duration // when the rival came that was granted the task; 0 if none was
	wrong    []string
}

// The acts in the middle of which a member stands still: what it has to have before, and what
// it does.
var acts = map[string]struct {
	// first is when the act begins, from the grant of a claim of the member's; 0 if it has none.
	first func(claim.Claim) time.Time
	do    func(context.Context, *claimsim.Daemon, claim.Claim)
	stale bool // the page shows a claim that is stale, of a member that is gone
	ends  bool // what it writes takes the claim off the page
	fault claimsim.Fault
}{
	"renews":              {first: midway, do: renews},
	"releases":            {first: midway, do: finishes(claim.Finish{As: claim.EndReleased}), ends: true},
	"completes":           {first: midway, do: finishes(claim.Finish{As: claim.EndCompleted}), ends: true},
	"releases late":       {first: lately, do: finishes(claim.Finish{As: claim.EndReleased}), ends: true},
	"renews too late":     {first: tooLate, do: renews},
	"releases too late":   {first: tooLate, do: finishes(claim.Finish{As: claim.EndReleased}), ends: true},
	"claims":              {do: claims},
	"claims a stale task": {do: claims, stale: true},
	"claims anew":         {first: tooLate, do: claims},
	"claims in vain":      {do: claims, fault: claimsim.On(claimsim.Every(claimsim.Claims), claimsim.RequestDropped)},
	"sweeps":              {do: sweeps, stale: true, ends: true},
}

func midway(c claim.Claim) time.Time { return c.Started.Add(70 * time.Second) }

func lately(c claim.Claim) time.Time { return c.StaleAt.Add(-3 * time.Second) }

func tooLate(c claim.Claim) time.Time { return c.StaleAt.Add(20 * time.Millisecond) }

func renews(ctx context.Context, d *claimsim.Daemon, c claim.Claim) { _, _ = d.Renew(ctx, c.ID) }

func finishes(f claim.Finish) func(context.Context, *claimsim.Daemon, claim.Claim) {
	return func(ctx context.Context, d *claimsim.Daemon, c claim.Claim) { _, _ = d.Finish(ctx, c.ID, f) }
}

func claims(ctx context.Context, d *claimsim.Daemon, _ claim.Claim) {
	_, _ = d.Claim(ctx, claim.Request{Agent: "Morpheus", Task: task.Task{ID: taskOne}})
}

func sweeps(ctx context.Context, d *claimsim.Daemon, _ claim.Claim) { _, _, _ = d.Sweep(ctx, taskOne) }

// watched is a store that tells of each request before it is sent.
type watched struct {
	claim.Store
	sends func(string)
}

func (w watched) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	w.sends("Get")
	return w.Store.Get(ctx, id)
}

func (w watched) Write(ctx context.Context, id task.ID, write claim.Write) (claim.Reading, error) {
	w.sends("Write")
	return w.Store.Write(ctx, id, write)
}

// quick is how long a request and its answer take; slow how long the write of a rival is on its
// way, which is most of the write window.
const (
	quick = 50 * time.Millisecond
	slow  = 1500 * time.Millisecond
)

// scene is one run of a still.
type scene struct {
	still
	t        *testing.T
	ctx      context.Context
	register *claimsim.Register
	cluster  *cluster
	daemons  []*claimsim.Daemon
	first    *claimsim.Daemon // the one that stands still

	mu    sync.Mutex
	armed bool
	began time.Time // the act
	stood
}

// run plays it with the members of a cluster, in a bubble.
func (s still) run(t *testing.T, c cluster) (out stood) {
	synctest.Test(t, func(t *testing.T) {
		sc := &scene{still: s, t: t, ctx: t.Context(), register: claimsim.NewRegister(), cluster: &c}
		sc.play()
		out = sc.stood
	})
	return out
}

// daemon makes a member.
func (s *scene) daemon(name string) *claimsim.Daemon {
	sends := func(string) {}
	if name == "one" {
		sends = s.sends
	}
	o := claimsim.DaemonOptions{Policy: policy(), StoreOptions: claimsim.StoreOptions{Name: name, Latency: func(*rand.Rand) claimsim.Delay {
		return claimsim.Delay{Before: quick, After: quick}
	}}}
	var fault claimsim.Fault
	switch {
	case name == "one":
		fault = acts[s.act].fault
	case name != "late":
		fault = claimsim.On(claimsim.Every(claimsim.Claims), claimsim.Slow(slow, 0))
	}
	o.Fault = func(st claim.Store) claim.Store {
		if fault != nil {
			st = fault(st)
		}
		return watched{st, sends}
	}
	s.cluster.machine = func(table arbiter.Table, st *claimsim.Store) arbiter.Table {
		return arbitersim.On(table, arbitersim.Machine{Sends: sends, GoOn: st.GoOn, Takes: quick, Deaf: s.deaf})
	}
	s.cluster.join(s.register, &o)
	return s.register.Daemon(o)
}

// sends counts a request of the member that stands still at one of them.
func (s *scene) sends(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed {
		return
	}
	if s.requests = append(s.requests, what); len(s.requests) != s.step {
		return
	}
	halt := func() {
		lasts := 20 * time.Minute
		if s.rival > 0 {
			lasts = time.Until(s.began.Add(s.rival + s.wakes))
		}
		s.first.Store.Halt(s.how, lasts)
	}
	if !s.after {
		halt()
		return
	}
	time.AfterFunc(quick+quick/2, halt)
}

func (s *scene) errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// held are the claims by which an agent has the task now.
func (s *scene) held() (claims []claim.Claim, of []*claimsim.Daemon) {
	for _, d := range s.daemons {
		for _, c := range d.Claims("") {
			if c.State == claim.Held && c.ExpiresAt().After(time.Now()) {
				claims, of = append(claims, c), append(of, d)
			}
		}
	}
	return claims, of
}

func (s *scene) play() {
	act := acts[s.act]
	time.Sleep(7 * time.Second)
	open := task.Task{ID: taskOne, Title: "Mend the roof", Status: task.Open}
	if act.stale {
		open.Status, open.ClaimedBy, open.ClaimedAt = task.InProgress, "Ghost", time.Now().Add(-2*time.Hour)
		open.Token = string(claim.NewID(open.ClaimedAt))
	}
	s.register.Add(open)
	one, two, three := s.daemon("one"), s.daemon("two"), s.daemon("three")
	s.first, s.daemons = one, []*claimsim.Daemon{one, two, three}
	defer func() {
		for _, d := range s.daemons {
			d.Close()
		}
	}()
	var mine claim.Claim
	if act.first != nil {
		var err error
		if mine, err = one.Claim(s.ctx, claim.Request{Agent: agentA, Task: open}); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Until(act.first(mine)))
	}
	s.mu.Lock()
	s.armed, s.began = true, time.Now()
	s.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() {
		act.do(s.ctx, one, mine)
		s.mu.Lock()
		s.armed = false
		s.mu.Unlock()
		for range 2 { // it sees to what it owes, and asks again
			_ = one.Sync(s.ctx)
			act.do(s.ctx, one, mine)
		}
	})
	over := make(chan struct{})
	all.Go(func() { s.watch(over) })
	s.rivals(two, three)
	time.Sleep(6 * time.Second)
	if s.rival > 0 || s.step == 0 {
		time.Sleep(30 * time.Second) // until the first has done all that it does
	}
	close(over)
	s.inTheEnd()
	all.Wait()
}

// watch looks for two claims by which the task is held at the same time.
func (s *scene) watch(over chan struct{}) {
	every := 30 * time.Millisecond
	if s.rival > 0 {
		time.Sleep(time.Until(s.began.Add(s.rival)))
	} else {
		every = time.Second
	}
	for {
		if claims, _ := s.held(); len(claims) > 1 {
			s.errorf("%s and %s have the task at the same time", claims[0].Agent, claims[1].Agent)
			return
		}
		select {
		case <-over:
			return
		case <-time.After(every):
		}
	}
}

// rivals lets the others come.
func (s *scene) rivals(two, three *claimsim.Daemon) {
	comes := func(d *claimsim.Daemon, agent string) bool {
		_, err := d.Claim(s.ctx, claim.Request{Agent: agent, Task: task.Task{ID: taskOne}})
		return err == nil
	}
	if s.rival == 0 {
		time.Sleep(400 * time.Millisecond)
		for time.Since(s.began) < 6*time.Minute && !s.register.Page(taskOne).Status.Finished() {
			at := time.Since(s.began)
			free := s.free()
			if comes(two, agentB) {
				if s.granted = at; time.Now().After(free.Add(5 * time.Second)) {
					s.errorf("the task could be had only %v after its claim was stale", time.Since(free))
				}
				return
			}
			time.Sleep(time.Second)
		}
		return
	}
	time.Sleep(time.Until(s.began.Add(s.rival)))
	var both sync.WaitGroup
	both.Go(func() { comes(two, agentB) })
	both.Go(func() {
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			if time.Sleep(130 * time.Millisecond); comes(three, "Hypnos") {
				return
			}
		}
	})
	both.Wait()
}

// free is when whoever has the task now can have it no more, unless it is renewed: an attempt
// is over, and a claim stale.
func (s *scene) free() time.Time {
	free := s.began.Add(2 * policy().Stay())
	for _, v := range s.register.History(taskOne) {
		if t := v.Task; t.ClaimedBy != "" && t.Status == task.InProgress {
			if stale := policy().StaleAt(t.ClaimedAt, policy().LeaseOf(t)); stale.After(free) {
				free = stale
			}
		}
	}
	return free
}

// inTheEnd looks at what is left: who has the task has its row, and can give it back; and then
// anybody can have it.
func (s *scene) inTheEnd() {
	claims, of := s.held()
	for i, c := range claims {
		rows, err := s.cluster.tables[s.register].Rows(s.ctx)
		if err != nil || !slices.ContainsFunc(rows, func(h arbiter.Held) bool { return h.Claim.ID == c.ID }) {
			s.errorf("%s has the task, and its row is gone: %+v, %v", c.Agent, rows, err)
		}
		if of[i] == s.first && s.rival == 0 && s.step > 0 {
			continue // which stands still
		}
		if ended, err := of[i].Finish(s.ctx, c.ID, claim.Finish{As: claim.EndReleased}); err != nil || ended.Ending != claim.EndReleased {
			s.errorf("%s had the task and could not give it back: %s, %v", c.Agent, ended.State, err)
		}
	}
	page := s.register.Page(taskOne)
	if page.Status.Finished() {
		return
	}
	free := s.free()
	if len(claims) == 0 || time.Now().After(free) {
		time.Sleep(time.Until(free.Add(3 * time.Second)))
	}
	late := s.daemon("late")
	defer late.Close()
	if _, err := late.Claim(s.ctx, claim.Request{Agent: "Phobetor", Task: page}); err != nil {
		s.errorf("nobody has the task, and it cannot be had: %v", err)
	}
}

// late reports whether what takes the claim off its page is sent although nothing is known any
// more that it rests on: the process was stopped after it looked at the clock, or the clocks
// stood still as well. That is a write which lands after it was given up, as package claim has
// it, against which a page that is written without a condition has no means: an agent may lose
// its claim by it, and is told so.
func (s still) late(out stood) bool {
	at, next := out.requests[s.step-1], append(out.requests, "")[s.step]
	return acts[s.act].ends && (at == "Write" && !s.after || s.how == claimsim.Paused && at == "Get" && s.after && next == "Write")
}

// everyStill runs every way of standing still in the middle of an act, and calls do with what
// came of each until it returns false.
func everyStill(t *testing.T, act string, c cluster, do func(still, stood) bool) {
	ways := []claimsim.Halt{claimsim.Stopped, claimsim.Paused}
	moments := []time.Duration{0, 400, 900, 1300, 1500, 1600, 1800} // milliseconds; the rival's write lands at 1,700
	switch {
	case testing.Short(), detector.On:
		ways, moments = ways[:1], []time.Duration{0, 400, 1600}
	case *long:
		ways, moments = append(ways, claimsim.Suspended), moments[:0]
		for ms := time.Duration(0); ms < 1900; ms += 50 {
			moments = append(moments, ms)
		}
	}
	for step, more := 1, true; more; step++ {
		more = false
		for _, s := range []still{{}, {after: true}, {deaf: true}, {after: true, deaf: true}} {
			for _, how := range ways {
				s.act, s.step, s.how, s.rival, s.wakes = act, step, how, 0, 0
				first := s.run(t, c)
				if len(first.requests) < step {
					continue
				}
				more = true
				if page := first.requests[step-1] == "Get" || first.requests[step-1] == "Write"; page && s.deaf {
					continue
				}
				if !do(s, first) {
					return
				}
				if first.granted == 0 {
					continue
				}
				s.rival = first.granted
				for _, ms := range moments {
					s.wakes = ms * time.Millisecond
					if out := s.run(t, c); !s.late(out) && !do(s, out) {
						return
					}
				}
			}
		}
	}
}

// A member may stand still at any moment: in the middle of a claim, a renewal, a finish or a
// sweep, before a request is sent or before its answer is noticed, as a process, with the
// machine's monotonic clock, or with all its clocks. Meanwhile its row ends, another member
// comes for the task, and it goes on just while that one is at it, and a third one comes. In no
// case two have the task, nor is a row gone whose claim is held, nor is a claim lost that was
// granted, nor a task that nobody can have.
func TestStandingStill(t *testing.T) {
	for act := range acts {
		if detector.On && act != "claims" && act != "renews" {
			continue // they are the same code, and all are tried without the detector
		}
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			n := 0
			everyStill(t, act, cluster{}, func(s still, out stood) bool {
				n++
				for _, w := range out.wrong {
					t.Errorf("%v %v: %s", s, out.requests, w)
				}
				return true
			})
			t.Log(n, "ways")
		})
	}
}
