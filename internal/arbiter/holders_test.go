package arbiter_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// What other members have claimed is known as theirs, also when it is over; no other claim is.
func TestClaimsOfMembersAreKnown(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())
	c := attempt(agentA, taskOne)
	if r := a.reserve(t, c, 0); r != nil {
		t.Fatal(r)
	}
	h := arbiter.NewHolders(arbiter.HoldersConfig{
		Etcd: b.etcd, Read: func(task.ID, time.Time) bool { return true }, Changed: func(...task.ID) {}, Now: time.Now, Log: testLog(t),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { h.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	wait(t, "what was there is known", func() bool { return h.Knew(c.ID) })
	next, ours := attempt(agentB, taskTwo), attempt(agentB, taskOne)
	if h.Knew(next.ID) {
		t.Error("a claim that nobody has made is known")
	}
	if r := a.reserve(t, next, 0); r != nil {
		t.Fatal(r)
	}
	wait(t, "what came later is known", func() bool { return h.Knew(next.ID) })
	c.State, c.Ending, c.Ended = claim.Ended, claim.EndNotGranted, time.Now()
	if err := a.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wait(t, "it is over", func() bool {
		_, held := h.On(c.Task.ID)
		return !held
	})
	h.Synced()
	if !h.Knew(c.ID) || h.Knew(ours.ID) {
		t.Errorf("known: one that is over %v, one that was refused %v", h.Knew(c.ID), h.Knew(ours.ID))
	}
}
