package mailbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"dibs/internal/inbox"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pushBatch is how many triggers are read from the journal at a time.
const pushBatch = 100

// Push passes on to etcd what the journal owes to it. What it cannot be told now it is told by
// the next call; the error is a *claim.ArbiterError then.
func (in *Inbox) Push(ctx context.Context) error {
	in.pushing.Lock()
	defer in.pushing.Unlock()
	return errors.Join(in.pushAcks(ctx), in.pushTriggers(ctx), in.pushOffers(ctx))
}

func (in *Inbox) pushAcks(ctx context.Context) error {
	for {
		owed, err := in.Journal.OwedAcks(ctx, pushBatch)
		if err != nil || len(owed) == 0 {
			return err
		}
		for agent, ids := range owed {
			err := in.ask(ctx, func(ctx context.Context) error {
				_, err := in.box.ack(ctx, agent, ids)
				return err
			})
			if err != nil {
				return err
			}
			if err := in.Journal.AcksDone(ctx, ids...); err != nil {
				return err
			}
		}
	}
}

func (in *Inbox) pushTriggers(ctx context.Context) error {
	for {
		owed, err := in.Journal.Unshared(ctx, time.Now().Add(-in.Visibility), pushBatch)
		if err != nil || len(owed) == 0 {
			return err
		}
		offers, err := in.Journal.Offers(ctx)
		if err != nil {
			return err
		}
		for len(owed) > 0 {
			n := 0
			for n < len(owed) && alike(owed[n]) {
				n++
			}
			if n == 0 {
				if err := in.pushOne(ctx, owed[0], offers); err != nil {
					return err
				}
				owed = owed[1:]
				continue
			}
			err := in.ask(ctx, func(ctx context.Context) error {
				_, _, err := in.box.put(ctx, nil, owed[:n])
				return err
			})
			if err != nil {
				return err
			}
			var ids []string
			for _, t := range owed[:n] {
				ids = append(ids, t.ID)
			}
			if err := in.Journal.Shared(ctx, time.Now(), ids...); err != nil {
				return err
			}
			owed = owed[n:]
		}
	}
}

// alike reports whether a trigger is simply put.
func alike(t inbox.Trigger) bool {
	return t.Agent != inbox.Everybody && t.Agent != inbox.Leads && t.Type != inbox.TaskOffered && t.Type != inbox.TasksAvailable
}

// pushOne pushes a trigger with which there is more to do.
func (in *Inbox) pushOne(ctx context.Context, t inbox.Trigger, offers []inbox.Offer) error {
	var agents []string
	err := in.ask(ctx, func(ctx context.Context) (err error) {
		switch {
		case t.Agent == inbox.Leads:
			agents, err = in.leadsNow(ctx)
		case t.Agent == inbox.Everybody:
			agents, err = in.everybody(ctx)
			agents = slices.DeleteFunc(slices.Clone(agents), func(name string) bool { return name == t.From })
		case t.Type == inbox.TasksAvailable: // from before there was a cluster: its first poll tells
		default:
			var with []clientv3.Op
			if i := slices.IndexFunc(offers, func(o inbox.Offer) bool { return o.ID == t.ID }); i >= 0 {
				op, err := in.box.offering(offers[i])
				if err != nil {
					return err
				}
				with = append(with, op)
			}
			_, _, err = in.box.put(ctx, nil, []inbox.Trigger{t}, with...)
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.Type == inbox.TaskOffered {
		return in.Journal.Shared(ctx, time.Now(), t.ID)
	}
	return in.Journal.Address(ctx, t, agents)
}

// pushOffers takes off the offers of this member that have ended, and puts those that are not
// there.
func (in *Inbox) pushOffers(ctx context.Context) error {
	in.mu.Lock()
	there, following := maps.Clone(in.offers), in.following
	in.mu.Unlock()
	if !following {
		return nil
	}
	here, err := in.Journal.Offers(ctx)
	if err != nil {
		return err
	}
	for id, o := range there {
		if o.Member != in.Etcd.Member() || slices.ContainsFunc(here, func(ours inbox.Offer) bool { return ours.ID == o.ID }) {
			continue
		}
		if err := in.ask(ctx, func(ctx context.Context) error { return in.box.endOffer(ctx, there[id]) }); err != nil {
			return err
		}
	}
	for _, o := range here {
		if _, ok := there[o.Task]; ok {
			continue
		}
		op, err := in.box.offering(o)
		if err != nil {
			return err
		}
		free := clientv3.Compare(clientv3.CreateRevision(in.box.offerKey(o.Task)), "=", 0)
		err = in.ask(ctx, func(ctx context.Context) error {
			_, err := in.box.commit(ctx, []clientv3.Cmp{free}, []clientv3.Op{op}, nil)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Emptied has everything that is known here to be unacknowledged put into etcd again, which
// has lost it.
func (in *Inbox) Emptied(ctx context.Context) error {
	in.mu.Lock()
	clear(in.polled)
	clear(in.listens)
	in.leads.put = nil
	in.mu.Unlock()
	in.box.mu.Lock()
	in.box.lease = 0
	in.box.mu.Unlock()
	in.TellNoMore()
	return in.Journal.ShareAgain(ctx)
}

func compact(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
