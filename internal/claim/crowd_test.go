package claim_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// counter is a store that answers requests one after the other, each of which takes
// some time: whoever comes while others wait is answered late.
type counter struct {
	claim.Store
	each time.Duration

	mu   *sync.Mutex
	free *time.Time
}

func (s counter) serve() {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		*s.free = now
	}
	*s.free = s.free.Add(s.each)
	wait := s.free.Sub(now)
	s.mu.Unlock()
	time.Sleep(wait)
}

func (s counter) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	s.serve()
	return s.Store.Get(ctx, id)
}

func (s counter) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	s.serve()
	return s.Store.Write(ctx, id, w)
}

// More agents than the store can answer in time get as many tasks as few would:
// those who come too late are told to wait, and what is written is granted.
func TestCrowd(t *testing.T) {
	const each = 20 * time.Millisecond // 50 requests a second
	granted := func(t *testing.T, agents int) (n, refused int) {
		synctest.Test(t, func(t *testing.T) {
			register := sim.NewRegister()
			o := sim.DaemonOptions{Policy: sim.Policy()}
			o.Policy.WriteWindow, o.Policy.Settle, o.Policy.Exclusive = 300*time.Millisecond, 0, true
			o.Fault = func(s claim.Store) claim.Store { return counter{s, each, new(sync.Mutex), new(time.Time)} }
			d := register.Daemon(o)
			defer d.Close()
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range agents {
				all.Go(func() {
					for k := 0; time.Since(bubbleStart) < time.Minute; k++ {
						next := task.Task{ID: task.ID(fmt.Sprintf("%08d-1111-1111-1111-%012d", i, k)), Status: task.Open}
						register.Add(next)
						c, err := d.Claim(t.Context(), claim.Request{Agent: fmt.Sprint(i), Task: next})
						mu.Lock()
						if denied := (*claim.Denied)(nil); err == nil {
							n++
						} else if errors.As(err, &denied) && denied.RetryAfter > 0 {
							refused++
						}
						mu.Unlock()
						if err == nil {
							if _, err := d.Finish(t.Context(), c.ID, claim.Finish{As: claim.EndReleased}); err != nil {
								t.Error(err)
							}
						} else {
							time.Sleep(time.Second)
						}
					}
				})
			}
			all.Wait()
		})
		return n, refused
	}
	few, _ := granted(t, 4)
	crowds := []int{16, 64, 256}
	if testkit.Quick() {
		crowds = crowds[1:2]
	}
	for _, agents := range crowds {
		many, refused := granted(t, agents)
		t.Logf("%d agents: %d claims in a minute, %d refusals; 4 agents: %d claims", agents, many, refused, few)
		if many < few*8/10 {
			t.Errorf("%d agents got %d claims, 4 agents %d: want at least 80 %%", agents, many, few)
		}
	}
}
