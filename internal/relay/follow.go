package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/arbiter"
)

const (
	// watchFor is after how long it is looked whether the wire is still there, and the right
	// one.
	watchFor = 20 * time.Second
	// askAgain is after how long Notion is asked again for what was missed, if that failed.
	askAgain = 5 * time.Second
	// checkAgain is how often the schema is read that is broken here, and not where it was
	// read for all.
	checkAgain = time.Minute
)

// receive receives what is passed on until ctx ends.
func (r *Relay) receive(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.receiveSome(ctx)
		r.mu.Lock()
		if err == nil {
			r.deaf = time.Time{}
		} else if r.deaf.IsZero() {
			r.deaf = time.Now()
		}
		r.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.Log.Debug("what other daemons have read cannot be followed now", "error", err)
			await(ctx, nil, againSoon)
		}
	}
}

// receiveSome receives what is passed on for a while.
func (r *Relay) receiveSome(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, askTime)
	at, _, err := r.Wire.Newest(asking)
	cancel()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.deaf = time.Time{}
	if r.position == 0 {
		r.position = at
		r.queue = append(r.queue, item{lost: true})
		wake(r.news)
	}
	from := r.position
	r.mu.Unlock()
	watching, stop := context.WithTimeout(ctx, watchFor)
	defer stop()
	err = r.Wire.Follow(watching, from, r.received)
	if errors.Is(err, arbiter.ErrForgotten) {
		r.mu.Lock()
		r.position = 0
		r.mu.Unlock()
		return nil
	}
	return err
}

// received queues what was passed on.
func (r *Relay) received(at int64, data []byte) {
	p, err := decode(data)
	if err != nil {
		r.Log.Warn("what another daemon has read cannot be used; this one reads the board itself", "error", err)
		p = publication{} // of no format that is known
	}
	since := p.At
	if since.IsZero() {
		since = r.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = at
	if p.Run == r.run {
		return
	}
	r.queue = append(r.queue, item{publication: p, since: since})
	wake(r.news)
}

// applyAll applies what was received until ctx ends. What cannot be applied is tried again.
func (r *Relay) applyAll(ctx context.Context) {
	a := applier{Relay: r}
	for wait := time.Hour; await(ctx, r.news, wait); {
		wait = time.Hour
		for ctx.Err() == nil {
			r.mu.Lock()
			if len(r.queue) == 0 {
				r.mu.Unlock()
				break
			}
			next := r.queue[0]
			r.mu.Unlock()
			if err := a.apply(ctx, next); err != nil {
				r.Log.Debug("what another daemon has read could not be taken over yet", "error", err)
				wait = askAgain
				break
			}
			r.mu.Lock()
			r.queue = r.queue[1:]
			r.mu.Unlock()
		}
	}
}

// applier applies what was received, in order.
type applier struct {
	*Relay
	parts   publication // of a sync of which there is more to come; else the zero value
	checked publication // for whose schema this daemon's was read last, and
	when    time.Time
}

func (a *applier) apply(ctx context.Context, i item) error {
	p := i.publication
	switch {
	case i.lost:
		a.parts = publication{}
		return a.catchUp(ctx)
	case p.Format != format || p.Settings != a.Settings():
		a.setApart(p)
		return nil
	case a.Apart():
		if err := a.catchUp(ctx); err != nil { // what came before was not applied
			return err
		}
		a.setTogether()
	}
	if p.Failed != "" {
		a.Mirror.Fail(fmt.Errorf("the daemon that reads for the cluster says: %s", p.Failed))
		return nil
	}
	if p.Rest {
		if !a.parts.More || p.Run != a.parts.Run || !p.At.Equal(a.parts.At) {
			a.parts = publication{}
			if p.More {
				return nil
			}
			return a.catchUp(ctx) // its beginning was not received
		}
		p = p.after(a.parts)
	}
	if p.More {
		a.parts = p
		return nil
	}
	if p.First && a.Mirror.Listed() && a.Mirror.Standing().SyncedAt.Before(p.Since) {
		if err := a.catchUp(ctx); err != nil { // it has not read all that this one does not know
			return err
		}
	}
	if _, err := a.Mirror.Take(ctx, p.batch()); err != nil {
		return err
	}
	a.parts = publication{}
	a.check(ctx, p)
	return nil
}

// catchUp asks Notion for what was missed.
func (a *applier) catchUp(ctx context.Context) error {
	_, err := a.Mirror.RunOnce(ctx)
	return err
}

func (r *Relay) setApart(p publication) {
	r.mu.Lock()
	before := r.apart
	r.apart = true
	r.mu.Unlock()
	if !before {
		r.Log.Warn("this daemon reads the board itself: the one that reads for the cluster has another version, or other settings under tasks or sync.keep_finished", "format", p.Format)
		r.Mirror.Hasten()
	}
}

func (r *Relay) setTogether() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apart = false
	r.Log.Info("this daemon need not read the board itself any more")
}

// check reads the schema if the daemon that reads for all knows another one.
func (a *applier) check(ctx context.Context, p publication) {
	known, broken := a.Schema()
	if known == p.Schema && broken == p.Broken {
		return
	}
	same := a.checked.Schema == p.Schema && a.checked.Broken == p.Broken
	if same && (!broken || p.Broken || time.Since(a.when) < checkAgain) {
		return
	}
	a.checked, a.when = p, time.Now()
	if err := a.Check(ctx); err != nil && ctx.Err() == nil {
		a.Log.Debug("the schema of the tasks database could not be read", "error", err)
	}
	if _, still := a.Schema(); broken && !still {
		a.Mirror.Hasten() // what was missing in tasks shows again
	}
}
