package claim

import (
	"context"
	"testing"
)

// The lock of a task takes up memory only while somebody uses it.
func TestLocksAreForgotten(t *testing.T) {
	var l taskLocks
	unlock, err := l.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.lock(gone, "a"); err == nil {
		t.Error("a locked task was locked again")
	}
	if n := len(l.locks); n != 1 {
		t.Errorf("%d locks, want 1", n)
	}
	unlock()
	if n := len(l.locks); n != 0 {
		t.Errorf("%d locks are kept that nobody uses", n)
	}
}
