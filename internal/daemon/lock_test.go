package daemon_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/daemon"

	"github.com/gofrs/flock"
)

// Whoever asks whether a daemon runs, as every client does that finds none, keeps none from
// starting.
func TestLockedToLook(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		w.start(o).stop()
		lock := flock.New(filepath.Join(o.Config.StateDir, "daemon.lock"), flock.SetFlag(os.O_RDONLY))
		if free, err := lock.TryRLock(); !free || err != nil {
			w.Fatal("the lock of a daemon that has ended is free:", free, err)
		}
		time.AfterFunc(50*time.Millisecond, func() { lock.Close() })
		w.start(o)
		if at := daemon.SocketOf(o.Config.StateDir); at == "" {
			w.Error("the lock of a daemon that runs names no socket")
		}
	})
}
