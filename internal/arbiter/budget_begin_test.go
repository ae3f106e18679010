package arbiter_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
)

// send sends so many requests, one after the other.
func (p *part) send(t *testing.T, ctx context.Context, n int) {
	t.Helper()
	for range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, transport.DefaultBaseURL+transporttest.PagePath, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.carrier.RoundTrip(req); err != nil {
			t.Error(err)
		}
	}
}

// start has a daemon send so many requests, as one does that starts and reads a board, and then
// make a claim. It returns how long that claim took, and how long all of it.
func (p *part) start(t *testing.T, ctx context.Context, n int) (claiming, all time.Duration) {
	t.Helper()
	began := time.Now()
	p.send(t, ctx, n)
	before := time.Now()
	permitted, err := p.carrier.Permit(ctx, 2)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	p.send(t, permitted, 2)
	return time.Since(before), time.Since(began)
}

// Members that begin at once make their first claims without a wait: what nobody has is theirs
// within seconds. One that works while the others are idle has all but what is kept for them
// and for one more. One that joins beside it may have to wait until it gets its part.
func TestBudgetOfANewCluster(t *testing.T) {
	inBudgetWorld(t, 1, arbitersim.Faults{}, func(w *budgetWorld, _ *rand.Rand) {
		const starting = 12
		var all sync.WaitGroup
		for range 3 {
			p := w.begin()
			all.Go(func() {
				if claiming, took := p.start(t, w.ctx, starting); claiming > 3*time.Second || took > 15*time.Second {
					t.Errorf("the first claim of a new member took %v, and %v with all before it", claiming, took)
				}
			})
		}
		all.Wait()
		busy, from := w.parts[0], time.Now()
		busy.load.Store(workers)
		time.Sleep(time.Minute)
		if n := busy.since(from); n < 120 {
			t.Errorf("the only one that works sent %d requests in its first minute", n)
		}
		time.Sleep(2 * time.Minute)
		if share := busy.budget.Share(); share != 144 {
			t.Errorf("the only one that works may send %d a minute", share)
		}
		joined := w.begin()
		if share := joined.budget.Share(); share != 12 {
			t.Errorf("one that joins may send %d a minute", share)
		}
		if claiming, took := joined.start(t, w.ctx, 2*starting); took > time.Minute {
			t.Errorf("the first claim of one that joins took %v, and %v with all before it", claiming, took)
		}
	})
}
