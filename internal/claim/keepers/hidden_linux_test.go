package keepers_test

import (
	"errors"
	"os/exec"
	"testing"

	"dibs/internal/claim/keepers"
	"dibs/internal/testkit"
)

// TestHiddenProcess asks for a process that /proc hides: it is not taken for one that is gone, nor
// for one that lives.
func TestHiddenProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	do(t, cmd.Start())
	child, err := keepers.Of(cmd.Process.Pid)
	do(t, err)
	asked := func(want error, life keepers.Life) {
		t.Helper()
		testkit.Hidden(t, 64001, 64001, func() {
			if _, err := keepers.Of(child.ID); !errors.Is(err, want) || keepers.LifeOf(child) != life {
				t.Errorf("Of: %v, LifeOf: %v; want %v, %v", err, keepers.LifeOf(child), want, life)
			}
		})
	}
	asked(keepers.ErrUnseen, keepers.Unheard)
	do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	asked(keepers.ErrNoProcess, keepers.Gone)
}
