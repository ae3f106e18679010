package arbiter_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/arbiter/arbitertest"
)

// A name is one member's, until that gives it up, or is gone for as long as names last.
func TestNames(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	a, b := join(t, etcd.URL(), folder), join(t, etcd.URL(), t.TempDir())
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			mine, err := []*member{a, b}[i%2].etcd.TakeName(t.Context(), fmt.Sprintf("agent-%04d", i/2), time.Hour)
			if err != nil {
				t.Error(err)
			}
			if mine {
				won.Add(1)
			}
		})
	}
	if all.Wait(); won.Load() != 10 {
		t.Errorf("ten names were given %d times", won.Load())
	}
	take := func(m *member, name string, want bool) {
		t.Helper()
		if mine, err := m.etcd.TakeName(t.Context(), name, time.Hour); err != nil || mine != want {
			t.Errorf("%s: %v, %v", name, mine, err)
		}
	}
	take(a, "a/name", true)
	take(a, "a/name", true)
	take(b, "a/name", false)
	if err := b.etcd.DropName(t.Context(), "a/name"); err != nil {
		t.Error(err)
	}
	take(b, "a/name", false)
	if err := a.etcd.DropName(t.Context(), "a/name"); err != nil {
		t.Error(err)
	}
	take(b, "a/name", true)

	// The next run has what is in its journal, and gives up the rest.
	take(a, "kept", true)
	take(a, "forgotten", true)
	a.close()
	a = join(t, etcd.URL(), folder)
	if bound, err := a.etcd.KeepNames(t.Context()); bound || err != nil {
		t.Errorf("bound %v, %v", bound, err)
	}
	others, err := a.etcd.BindNames(t.Context(), []string{"kept", "a/name", "new"}, time.Hour)
	if err != nil || !slices.Equal(others, []string{"a/name"}) {
		t.Errorf("others have %q, %v", others, err)
	}
	if bound, err := a.etcd.KeepNames(t.Context()); !bound || err != nil {
		t.Errorf("bound %v, %v", bound, err)
	}
	take(b, "kept", false)
	take(b, "new", false)
	take(b, "forgotten", true)
}
