package mailbox

import (
	"context"
	"errors"
	"time"

	"dibs/internal/arbiter"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Tend looks after what this member has in etcd. It has to be called every few seconds.
func (in *Inbox) Tend(ctx context.Context) error {
	return in.ask(ctx, func(ctx context.Context) error {
		return errors.Join(in.tendHolds(ctx), in.tendLeads(ctx), in.giveBack(ctx), in.tidy(ctx))
	})
}

// tendHolds has what processes took come back when they are gone, and not before.
func (in *Inbox) tendHolds(ctx context.Context) error {
	in.mu.Lock()
	holds := make(map[clientv3.LeaseID]hold, len(in.holds))
	for lease, h := range in.holds {
		holds[lease] = h
	}
	in.mu.Unlock()
	var failed error
	for lease, h := range holds {
		over := !time.Now().Before(h.until)
		if !over && time.Since(h.prolonged) < h.lasts/4 && in.Lives(h.process) {
			continue
		}
		if over || !in.Lives(h.process) {
			if err := in.Etcd.EndLease(ctx, lease); err != nil {
				failed = err
				continue
			}
			over = true
		} else if err := in.Etcd.Prolong(ctx, lease); err != nil {
			if over = errors.Is(err, arbiter.ErrLeaseOver); !over {
				failed = err
				continue
			}
		}
		in.mu.Lock()
		if h.prolonged = time.Now(); over {
			delete(in.holds, lease)
		} else {
			in.holds[lease] = h
		}
		in.mu.Unlock()
	}
	return failed
}

// tidy forgets what is of no use any more.
func (in *Inbox) tidy(ctx context.Context) error {
	in.mu.Lock()
	for id, h := range in.handed {
		if time.Since(h.at) > in.Visibility {
			delete(in.handed, id)
		}
	}
	for agent, l := range in.listens {
		if time.Since(l.at) > listenTime {
			delete(in.listens, agent)
		}
	}
	for agent, at := range in.polled {
		if time.Since(at) > registerEvery {
			delete(in.polled, agent)
		}
	}
	for agent, w := range in.waits {
		if time.Since(w.at) >= waitsFor {
			delete(in.waits, agent)
		}
	}
	for _, at := range in.changed { // a look from before that says no more than one from before any of it
		in.anything = max(in.anything, at)
	}
	clear(in.changed)
	var failed []string
	for agent := range in.failed {
		failed = append(failed, agent)
	}
	in.mu.Unlock()
	for _, agent := range failed {
		unlock, ok := in.agents.Try(agent)
		if !ok {
			continue // a poll is at it
		}
		err := in.undo(ctx, agent)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
