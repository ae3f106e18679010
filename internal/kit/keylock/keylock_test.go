package keylock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A lock takes up memory only while somebody uses it.
func TestLocksAreForgotten(t *testing.T) {
	var l Locks[string]
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("gone")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := l.Lock(gone, "a"); !errors.Is(err, why) {
		t.Errorf("locked was locked again, or not said why not: %v", err)
	}
	if n := len(l.locks); n != 1 {
		t.Errorf("%d locks, want 1", n)
	}
	unlock()
	if n := len(l.locks); n != 0 {
		t.Errorf("%d locks are kept that nobody uses", n)
	}
}

// Of those who come for one key, each has it alone, in the order in which they
// came; who comes for another waits for nobody.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks[string]
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		inside := 0
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				unlock, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				defer unlock()
				if inside++; inside != 1 {
					t.Errorf("%d have the lock", inside)
				}
				order = append(order, i)
				time.Sleep(time.Second)
				inside--
			})
			synctest.Wait()
		}
		if other, err := l.Lock(t.Context(), "b"); err != nil {
			t.Error(err)
		} else {
			other()
		}
		if len(order) > 0 || time.Since(began) > 0 {
			t.Errorf("%v went in before the lock was free, after %v", order, time.Since(began))
		}
		unlock()
		all.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

// Try takes only what nobody has or waits for.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks[int]
		unlock, ok := l.Try(1)
		if !ok {
			t.Fatal("a free lock was not given")
		}
		if second, ok := l.Try(1); ok || second != nil {
			t.Error("a lock was given twice")
		}
		if other, ok := l.Try(2); !ok {
			t.Error("the lock of another key was not given")
		} else {
			other()
		}
		waiter := make(chan func())
		go func() {
			unlock, err := l.Lock(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			waiter <- unlock
		}()
		synctest.Wait()
		unlock()
		if _, ok := l.Try(1); ok {
			t.Error("a lock was given to one who came later than a waiter")
		}
		(<-waiter)()
		if again, ok := l.Try(1); !ok {
			t.Error("a lock that is free again was not given")
		} else {
			again()
		}
	})
}
