package outbox_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// frozen is a ledger whose daemon stands still once it has noted that something is being sent.
type frozen struct {
	*outboxtest.Memory
	lasts time.Duration
	notes int
	then  func() // what happens meanwhile
}

func (f *frozen) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	f.notes++
	err := f.Memory.StartSending(ctx, in, at)
	time.Sleep(f.lasts)
	if f.lasts = 0; f.then != nil {
		f.then()
	}
	return err
}

// A process that was paused for long does not send on the strength of an old note: others may have
// looked the intent up and sent it by then. It notes it anew, if the ledger still lets it.
func TestLateIsNotSent(t *testing.T) {
	for name, test := range map[string]struct {
		lasts       time.Duration
		over        error
		sent, notes int
	}{
		"not for long":          {lasts: 30 * time.Second, sent: 1, notes: 1},
		"for long":              {lasts: 5 * time.Minute, sent: 1, notes: 2},
		"for long, and deposed": {lasts: 5 * time.Minute, over: errDeposed, notes: 1},
	} {
		for who, deliver := range map[string]func(*testing.T, *frozen, *database){
			"the queue": func(t *testing.T, f *frozen, mesh *database) {
				owe(f.Memory, outbox.MeshEntry, "a")
				if _, err := newQueue(f, outbox.MeshEntry, mesh, slog.New(slog.DiscardHandler)).RunOnce(t.Context()); err != test.over {
					t.Errorf("the run: %v, want %v", err, test.over)
				}
			},
			"who waits": func(t *testing.T, f *frozen, mesh *database) {
				in, err := f.Owe(t.Context(), outbox.Intent{ID: "a", Kind: outbox.Creation})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := outbox.NewSender(f).Deliver(t.Context(), in, mesh); err != test.over {
					t.Errorf("delivered: %v, want %v", err, test.over)
				}
			},
		} {
			t.Run(name+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, mesh := &frozen{Memory: outboxtest.NewMemory(), lasts: test.lasts}, newDatabase()
					f.then = func() { f.Depose(test.over) }
					deliver(t, f, mesh)
					if got := mesh.requests(); got != test.sent || f.notes != test.notes {
						t.Errorf("sent %d times and noted %d times, want %d and %d", got, f.notes, test.sent, test.notes)
					}
				})
			})
		}
	}
}
