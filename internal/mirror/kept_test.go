package mirror_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a storage that keeps when the syncs were that it is told of.
type timed struct {
	storage
	*times
}

type times struct {
	mu     sync.Mutex
	synced []time.Time
}

func (k timed) Meta(_ context.Context, key string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.synced); key == "mirror.synced" && n > 0 {
		return k.synced[n-1].Format(time.RFC3339Nano), nil
	}
	return "", nil
}

func (k timed) SetMeta(_ context.Context, key, value string) error {
	if key != "mirror.synced" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, value)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced = append(k.synced, at)
	return err
}

// TestAgeAfterARestart has a mirror sync every ten seconds. It stores that every minute, and the
// next one takes the tasks for at most that much older than they are, and never for younger.
func TestAgeAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		kept := timed{times: new(times)}
		m := s.mirror(t, kept, nil)
		if err := m.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, m)
		for range 60 {
			time.Sleep(7 * time.Second)
			synctest.Wait()
			synced, again := m.Standing().SyncedAt, new(script).mirror(t, kept, nil).Standing().SyncedAt
			if behind := synced.Sub(again); behind < 0 || behind >= time.Minute {
				t.Fatalf("synced at %v, and after a restart at %v", synced, again)
			}
		}
		kept.mu.Lock()
		defer kept.mu.Unlock()
		if n := len(kept.synced); n > 8 {
			t.Errorf("%d times were stored in seven minutes", n)
		}
	})
}
