package worklog_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/worklog"
)

// frozen is an outbox whose daemon stands still once it has noted that an entry is being sent.
type frozen struct {
	*outbox
	lasts time.Duration
}

func (f *frozen) MarkSending(ctx context.Context, item worklog.Item, at time.Time) error {
	defer func() { f.lasts = 0 }()
	defer time.Sleep(f.lasts)
	return f.outbox.MarkSending(ctx, item, at)
}

// Who stood still for long sends nothing on the strength of what it noted before, which is for
// others to have looked up and sent by then.
func TestLateIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lasts, sent := range map[time.Duration]int{30 * time.Second: 1, 5 * time.Minute: 0} {
			box, mesh := &outbox{}, newDatabase()
			box.owe(claim.MeshLog, "a")
			drainer := worklog.NewDrainer(&frozen{box, lasts}, claim.MeshLog, mesh, slog.New(slog.DiscardHandler))
			for _, want := range []int{sent, 1} { // the next run notes it anew, if it may still
				if _, err := drainer.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := mesh.requests(); got != want {
					t.Errorf("after standing still for %v: sent %d times, want %d", lasts, got, want)
				}
			}
		}
	})
}
