package transport

import (
	"context"
	"time"
)

// grant holds permits that were taken together, for the requests of one context. The mutex of
// its permits guards it.
type grant struct {
	permits *permits
	ctx     context.Context // its end returns the unused permits
	until   time.Time       // its requests wait no longer than that for the end of a pause
	left    int             // permits not yet used by its requests
	held    bool            // those permits are held; if not, the next request takes them anew
	unwatch func() bool     // ends the watch over ctx, while they are held
	expiry  *time.Timer     // returns them in the end, while they are held
}

// grantLife is how long permits taken together are held. Without it, holders of permits that
// wait for another could make everybody wait for each other for ever.
const grantLife = 5 * time.Second

type grantKey struct{}

// grantOf returns the grant of the context, or nil.
func grantOf(ctx context.Context) *grant {
	g, _ := ctx.Value(grantKey{}).(*grant)
	return g
}

// HasPermits reports whether ctx comes from Transport.Permit.
func HasPermits(ctx context.Context) bool { return grantOf(ctx) != nil }

// WithoutPermits returns a context whose requests wait for their own permits instead of using
// those of ctx. They wait for the end of a pause as long as those of ctx do.
func WithoutPermits(ctx context.Context) context.Context {
	g := grantOf(ctx)
	if g == nil {
		return ctx
	}
	return context.WithValue(waitingUntil(ctx, g.until), grantKey{}, (*grant)(nil))
}

// grant waits for n permits and returns a context that carries them.
func (p *permits) grant(ctx context.Context, n int) (context.Context, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g := &grant{permits: p, ctx: ctx, until: time.Now().Add(impatience)}
	p.mu.Lock()
	if err := p.wait(ctx, &waiter{n: n, grant: g, until: g.until}); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, grantKey{}, g), nil
}

// hold keeps n permits for the grant, until they are used or its context ends.
func (g *grant) hold(n int) {
	g.left = n
	if n == 0 {
		return
	}
	g.held = true
	g.permits.held += n
	over := func() {
		g.permits.mu.Lock()
		defer g.permits.mu.Unlock()
		g.giveBack()
		g.permits.serve()
	}
	g.unwatch, g.expiry = context.AfterFunc(g.ctx, over), time.AfterFunc(grantLife, over)
}

// givenBack reports whether the next request of the grant would need new permits.
func (g *grant) givenBack() bool {
	if g == nil {
		return false
	}
	g.permits.mu.Lock()
	defer g.permits.mu.Unlock()
	return g.left > 0 && !g.held
}

// spend uses one held permit.
func (g *grant) spend() {
	g.left--
	g.permits.held--
	if g.left == 0 {
		g.release()
	}
}

// giveBack returns the held permits, if any. The next request takes as many anew, so that
// nothing waits between it and those that follow.
func (g *grant) giveBack() {
	if g.held {
		g.permits.held -= g.left
		g.permits.spare += g.left
		g.release()
	}
}

func (g *grant) release() {
	g.held = false
	g.unwatch()
	g.expiry.Stop()
}

// startOver prepares the grant, if there is one, for a request that is sent again. That request
// takes a new permit together with the remaining ones. Those are not held while it waits,
// because everybody could end up waiting for each other.
func (g *grant) startOver() {
	if g == nil {
		return
	}
	g.permits.mu.Lock()
	defer g.permits.mu.Unlock()
	g.giveBack()
	g.left++
	g.permits.serve()
}
