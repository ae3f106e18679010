package notion

import (
	"context"
	"fmt"
	"time"
)

// grant is a number of permits that were taken together, for requests made with
// one context. It is guarded by the mutex of its permits.
type grant struct {
	permits *permits
	ctx     context.Context // whose end gives back what is left
	left    int
	// live is set while the permits that are left are held. When they no longer
	// are, left says how many the next request has to take again.
	live    bool
	expires time.Time
	unwatch func() bool
}

type grantKey struct{}

// grantOf returns the grant of the context, or nil.
func grantOf(ctx context.Context) *grant {
	g, _ := ctx.Value(grantKey{}).(*grant)
	return g
}

// withoutGrant returns a context whose requests wait for permits of their own, no
// longer than those of the grant would.
func withoutGrant(ctx context.Context) context.Context {
	if grantOf(ctx) != nil {
		ctx = Impatient(ctx)
	}
	return context.WithValue(ctx, grantKey{}, (*grant)(nil))
}

// grant waits for n permits and returns a context that carries them.
func (p *permits) grant(ctx context.Context, n int) (context.Context, error) {
	if _, most := p.room(); n < 1 || n > most {
		return nil, fmt.Errorf("%d permits at once: want 1 to %d, see notion.burst", n, most)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g := &grant{permits: p, ctx: ctx}
	p.mu.Lock()
	if err := p.wait(ctx, &waiter{n: n, grant: g, patience: grantPatience}); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, grantKey{}, g), nil
}

// hold keeps n permits for the grant.
func (g *grant) hold(n int, expires time.Time) {
	g.left, g.expires = n, expires
	if n == 0 {
		return
	}
	g.live = true
	g.permits.grants[g] = struct{}{}
	g.unwatch = context.AfterFunc(g.ctx, func() {
		g.permits.mu.Lock()
		defer g.permits.mu.Unlock()
		g.void()
		g.permits.serve()
	})
}

// spend uses one of the permits held.
func (g *grant) spend() {
	if g.left--; g.left == 0 {
		g.release()
	}
}

// void gives back the permits held. The next request of the context takes as many
// anew, so that nothing waits between it and those that follow.
func (g *grant) void() {
	if g.live {
		g.permits.spare += g.left
		g.release()
	}
}

func (g *grant) release() {
	g.live = false
	g.unwatch()
	delete(g.permits.grants, g)
}

// restart prepares the grant for a request that is sent again: it takes its own
// permit anew together with those that are left.
func (g *grant) restart() {
	if g == nil {
		return
	}
	g.permits.mu.Lock()
	defer g.permits.mu.Unlock()
	g.void()
	g.left++
	g.permits.serve()
}

// expire gives back permits that were not used in time.
func (p *permits) expire(now time.Time) {
	for g := range p.grants {
		if !g.expires.After(now) {
			g.void()
		}
	}
}

// nextExpiry is when the first of the grants expires; there must be one.
func (p *permits) nextExpiry() time.Time {
	var next time.Time
	for g := range p.grants {
		if next.IsZero() || g.expires.Before(next) {
			next = g.expires
		}
	}
	return next
}
