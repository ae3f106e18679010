package daemon

import (
	"context"
	"errors"

	"dibs/internal/api"
	"dibs/internal/api/server"
	"dibs/internal/arbiter"
)

// settle tells the others what became of a request, or has tend do it.
func (r *repeats) settle(ctx context.Context, q server.SharedRequest, o owed) {
	n := nameOf(q)
	o.flight, o.fingerprint, o.own = flightOf(q), q.Fingerprint, q.Repeating == server.Own
	err := r.tell(ctx, n, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, o.flight)
	if delete(r.owed, n); err != nil {
		r.log.Debug("the cluster could not be told of a request; it is tried again", "key", q.Key, "error", err)
		r.owed[n] = o
	}
}

// tell tells the others what became of a request, unless it is no longer this member's. What
// only this member can have done is its own, although another one may be working on it at the
// moment, which can only refuse it.
func (r *repeats) tell(ctx context.Context, n arbiter.RequestName, o owed) error {
	return r.member.ledger.Ask(ctx, func(ctx context.Context) error {
		now, err := r.remembered(ctx, n)
		for err == nil {
			var at int64
			if now != nil {
				at = now.Revision
				if now.Member != r.member.Member() && !(o.own && o.answer != nil) || now.Status != 0 {
					return nil
				}
			}
			next := arbiter.Request{Fingerprint: o.fingerprint}
			switch {
			case o.answer != nil:
				next.Member, next.Name, next.UID = r.member.Member(), r.member.name, o.uid
				next.Status = o.answer.Status
				if len(o.answer.Body) <= maxPassedOn {
					next.Body = string(o.answer.Body)
				}
			case now == nil:
				return nil
			case now.Note == "":
				if now, err = r.member.ForgetRequest(ctx, n, at); now == nil {
					return err
				}
				continue
			default:
				next.Note = now.Note
			}
			var put bool
			if put, now, err = r.member.PutRequest(ctx, n, next, at, ""); put {
				return nil
			}
		}
		return err
	})
}

// remembered is what is remembered of a request; nil if nothing is.
func (r *repeats) remembered(ctx context.Context, n arbiter.RequestName) (*arbiter.Remembered, error) {
	if now, working := r.member.Working(n); working {
		return &now, nil
	}
	return r.member.LookRequest(ctx, n)
}

// tend tells the others what they could not be told before, of this run's requests and of
// those that an earlier one was cut off from.
func (r *repeats) tend(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	var errs []error
	for n, o := range r.owing() {
		was := o
		if r.worksOn(o.flight) {
			continue // it was asked for again since
		}
		if o.left {
			answer, err := r.resolve(ctx, o.uid, o.key)
			if _, open := errors.AsType[*api.Problem](err); open {
				continue // what becomes of its claim is not known yet
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			o.answer = answer
		}
		if err := r.tell(ctx, n, o); err != nil {
			errs = append(errs, err)
			continue
		}
		r.mu.Lock()
		if r.owed[n] == was { // nothing else has come of it meanwhile
			delete(r.owed, n)
		}
		r.mu.Unlock()
	}
	return errors.Join(errs...)
}

// owing is what the others are to be told now: not of what is being worked on again.
func (r *repeats) owing() map[arbiter.RequestName]owed {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[arbiter.RequestName]owed)
	for n, o := range r.owed {
		if _, open := r.open[o.flight]; !open {
			out[n] = o
		}
	}
	return out
}

func (r *repeats) worksOn(f flight) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, open := r.open[f]
	return open
}

// look finds what an earlier run has begun and not answered.
func (r *repeats) look(ctx context.Context) error {
	r.mu.Lock()
	looked := r.looked
	r.mu.Unlock()
	if looked {
		return nil
	}
	var names []arbiter.RequestName
	err := r.member.ledger.Ask(ctx, func(ctx context.Context) (err error) {
		names, err = r.member.BegunRequests(ctx)
		return err
	})
	for _, n := range names {
		if err == nil {
			err = r.lookAt(ctx, n)
		}
	}
	if err == nil {
		r.mu.Lock()
		r.looked = true
		r.mu.Unlock()
	}
	return err
}

// lookAt looks at a request that this member has begun.
func (r *repeats) lookAt(ctx context.Context, n arbiter.RequestName) error {
	var now *arbiter.Remembered
	err := r.member.ledger.Ask(ctx, func(ctx context.Context) (err error) {
		now, err = r.member.LookRequest(ctx, n)
		return err
	})
	if err != nil || now == nil || now.Member != r.member.Member() || now.Run == r.run || now.Status != 0 {
		return err
	}
	o := owed{flight: flight{now.UID, n.Key}, fingerprint: now.Fingerprint, left: true}
	if now.Stays {
		// Whether it was done is not known; it is done here, if at all. Only an answer is told.
		o.answer, err = r.resolve(ctx, now.UID, n.Key)
		if o.left = false; err != nil || o.answer == nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.owed[n]; !known {
		r.owed[n] = o
	}
	return nil
}
