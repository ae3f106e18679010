package arbiter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/task"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Without etcd nothing is granted, and what waits for it is told so at once; when it is
// back, everything goes on, and what is held was held all the time.
func TestEtcdAway(t *testing.T) {
	etcd := arbitertest.Start(t)
	way := arbitertest.NewWay(t, etcd.URL())
	a, b := join(t, way.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())
	c := attempt(agentA, taskOne)
	if r := a.reserve(t, c, 0); r != nil {
		t.Fatal(r)
	}
	if err := a.Hold(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	c = a.save(t, granted(c))

	way.Cut()
	second := attempt(agentA, taskTwo)
	for i := range 2 {
		began := time.Now()
		refusal, err := a.Reserve(t.Context(), second, second.Reserved, 0)
		var denied *claim.Denied
		if !errors.As(err, &denied) || denied.Code != claim.CodeArbiterUnavailable || denied.RetryAfter <= 0 || !strings.Contains(denied.Detail, way.URL()) {
			t.Fatalf("refusal %+v, error %v", refusal, err)
		}
		if took := time.Since(began); i == 1 && took > time.Second {
			t.Errorf("refused after %v, although it was known by then", took)
		}
		second = attempt(agentA, taskTwo)
	}
	if live, err := a.Live(t.Context()); err != nil || len(live) != 1 {
		t.Errorf("left of refused attempts: %+v, %v", live, err)
	}
	var failed *claim.ArbiterError
	wait(t, "etcd would have to be asked again for a held claim", func() bool { return errors.As(a.Hold(t.Context(), &c), &failed) })
	if r := b.reserve(t, attempt(agentB, taskOne), 0); r == nil || r.Holder == nil || r.Holder.ID != c.ID {
		t.Errorf("what a member that is cut off holds: %+v", r)
	}
	ended := c
	ended.State, ended.Ending, ended.Ended = claim.Ended, claim.EndReleased, time.Now()
	a.save(t, ended) // which etcd cannot be told

	way.Mend()
	wait(t, "etcd is back", func() bool { return a.Upkeep(t.Context()) == nil })
	if r := b.reserve(t, attempt(agentB, taskOne), 0); r != nil {
		t.Errorf("etcd was not told in the end: %+v", r)
	}
	if r := a.reserve(t, attempt(agentA, taskTwo), 0); r != nil {
		t.Errorf("a claim afterwards: %+v", r)
	}
}

// An etcd whose quota is used up answers, and takes nothing: it cannot be used, and is not taken
// for one that can, until the alarm is gone.
func TestEtcdFull(t *testing.T) {
	etcd := arbitertest.Start(t)
	a := join(t, etcd.URL(), t.TempDir())
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		t.Helper()
		maintenance := pb.NewMaintenanceClient(etcd.Client("", "").ActiveConnection())
		if _, err := maintenance.Alarm(t.Context(), &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	const full = "its quota is used up"
	alarm(pb.AlarmRequest_ACTIVATE)
	if err := a.etcd.Announce(t.Context(), arbiter.Member{}); err == nil || !strings.Contains(err.Error(), full) {
		t.Fatalf("announced: %v", err)
	}
	for range 3 { // however often it is looked at
		if err := a.Upkeep(t.Context()); err == nil || !strings.Contains(err.Error(), full) {
			t.Fatalf("upkeep: %v", err)
		}
		if why := a.Trouble(); why == nil || !strings.Contains(why.Error(), full) {
			t.Errorf("trouble: %v", why)
		}
	}
	began := time.Now()
	c := attempt(agentA, taskOne)
	_, err := a.Reserve(t.Context(), c, c.Reserved, 0)
	if denied, _ := errors.AsType[*claim.Denied](err); denied == nil || denied.Code != claim.CodeArbiterUnavailable || !strings.Contains(denied.Detail, full) {
		t.Errorf("a claim: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("refused after %v, although it was known by then", took)
	}
	alarm(pb.AlarmRequest_DEACTIVATE)
	if err := a.Upkeep(t.Context()); err != nil {
		t.Errorf("upkeep afterwards: %v", err)
	}
	if r := a.reserve(t, attempt(agentA, taskOne), 0); r != nil {
		t.Errorf("a claim afterwards: %+v", r)
	}
	if err := a.etcd.Probe(t.Context()); err != nil || !etcd.Has("marker") {
		t.Errorf("the marker is to stay as it was: %v", err)
	}
}

// An etcd that lost its data is noticed and refused, until somebody says that it is meant.
func TestEtcdEmptied(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	a := join(t, etcd.URL(), folder)
	c := attempt(agentA, taskOne)
	if r := a.reserve(t, c, 0); r != nil {
		t.Fatal(r)
	}
	if err := a.Hold(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	etcd.Stop()
	etcd.Empty()
	etcd.Begin()
	for _, restarted := range []bool{false, true} {
		if restarted {
			a.close()
			a = join(t, etcd.URL(), folder)
		}
		next := attempt(agentB, taskTwo)
		wait(t, "it is noticed", func() bool { return errors.Is(a.Upkeep(t.Context()), arbiter.ErrForeign) })
		var denied *claim.Denied
		_, err := a.Reserve(t.Context(), next, next.Reserved, 0)
		if !errors.As(err, &denied) || denied.Code != claim.CodeArbiterUnavailable || !strings.Contains(denied.Detail, "dibs cluster adopt") {
			t.Fatalf("restarted: %v: %v", restarted, err)
		}
	}
	if err := a.etcd.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := attempt(agentB, taskTwo)
	if r := a.reserve(t, next, 0); r != nil {
		t.Errorf("after it was adopted: %+v", r)
	}
	// Fences go on to grow, and an old one is nobody's.
	fence := c.Fence
	for _, c := range []*claim.Claim{&next, &c} {
		if err := a.Hold(t.Context(), c); err != nil || c.Fence <= fence {
			t.Errorf("fence %d after %d: %v", c.Fence, fence, err)
		}
	}
	// Who never knew another one takes it as it is.
	b := join(t, etcd.URL(), t.TempDir())
	if r := b.reserve(t, attempt(agentB, taskTwo), 0); r == nil || r.Holder == nil {
		t.Errorf("a new member: %+v", r)
	}
	if a.etcd.Marker() != b.etcd.Marker() {
		t.Errorf("markers %q and %q", a.etcd.Marker(), b.etcd.Marker())
	}
}

// A member that was killed finds what it held, and what it left of claims that are over is
// taken off.
func TestRestartedMember(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	way := arbitertest.NewWay(t, etcd.URL())
	a, b := join(t, way.URL(), folder), join(t, etcd.URL(), t.TempDir())
	var claims []claim.Claim
	for _, id := range []task.ID{taskOne, taskTwo} {
		c := attempt(agentA, id)
		if r := a.reserve(t, c, 0); r != nil {
			t.Fatal(r)
		}
		if err := a.Hold(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		claims = append(claims, a.save(t, granted(c)))
	}
	way.Cut()
	over := claims[1]
	over.State, over.Ending, over.Ended = claim.Ended, claim.EndCompleted, time.Now()
	a.save(t, over)
	a.close()

	a = join(t, etcd.URL(), folder)
	wait(t, "what is over is taken off", func() bool { return a.Upkeep(t.Context()) == nil })
	if r := b.reserve(t, attempt(agentB, taskTwo), 0); r != nil {
		t.Errorf("the task of a claim that is over: %+v", r)
	}
	if r := b.reserve(t, attempt(agentB, taskOne), 0); r == nil || r.Holder.ID != claims[0].ID {
		t.Errorf("the task of a claim that is held: %+v", r)
	}
	fence := claims[0].Fence
	if err := a.Hold(t.Context(), &claims[0]); err != nil || claims[0].Fence != fence {
		t.Errorf("fence %d, %v; want %d as before", claims[0].Fence, err, fence)
	}
}

// What is left of an etcd that has lost most of its members grants nothing, and says so at
// once when it is known; with one of three lost, nothing is noticed.
func TestMinority(t *testing.T) {
	all := arbitertest.StartThree(t)
	var urls []string
	for _, e := range all {
		urls = append(urls, e.URL())
	}
	a := join(t, urls[0], t.TempDir(), urls[1:]...)
	n := 0
	next := func() (*claim.Refusal, error) {
		n++
		c := attempt(agentA, task.ID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)))
		return a.Reserve(t.Context(), c, c.Reserved, 0)
	}
	for _, stopped := range []*arbitertest.Etcd{nil, all[0]} {
		if stopped != nil {
			stopped.Stop()
		}
		wait(t, "a majority grants", func() bool {
			if refusal, err := next(); err == nil {
				return refusal == nil
			}
			_ = a.Upkeep(t.Context()) // which sees when it can be used again
			return false
		})
	}
	all[1].Stop()
	var denied *claim.Denied
	if refusal, err := next(); refusal != nil || !errors.As(err, &denied) || denied.Code != claim.CodeArbiterUnavailable {
		t.Fatalf("a minority: %+v, %v", refusal, err)
	}
	began := time.Now()
	for range 100 {
		if _, err := next(); !errors.As(err, &denied) || denied.RetryAfter <= 0 {
			t.Fatalf("a minority: %v", err)
		}
	}
	t.Logf("refused in %v", time.Since(began)/100)
	if err := a.Upkeep(t.Context()); !errors.Is(err, arbiter.ErrAway) {
		t.Errorf("a minority: %v", err)
	}
	all[1].Begin()
	wait(t, "a majority is back", func() bool { return a.Upkeep(t.Context()) == nil })
	if refusal, err := next(); refusal != nil || err != nil {
		t.Errorf("a majority again: %+v, %v", refusal, err)
	}
}
