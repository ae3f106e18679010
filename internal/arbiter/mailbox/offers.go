package mailbox

import (
	"context"
	"slices"

	"dibs/internal/inbox"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Offers returns the offers that wait for an answer, of all members as far as is known.
func (in *Inbox) Offers(ctx context.Context) ([]inbox.Offer, error) {
	offers, err := in.Journal.Offers(ctx)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, o := range in.offers {
		if o.Member != in.Etcd.Member() && !slices.ContainsFunc(offers, func(ours inbox.Offer) bool { return ours.Task == id }) {
			offers = append(offers, o.Offer)
		}
	}
	return offers, nil
}

// hearOf sees to it that the offers are known here that triggers tell of: the agent may answer
// before the watch has told of them.
func (in *Inbox) hearOf(ctx context.Context, got []inbox.Trigger) error {
	for _, t := range got {
		in.mu.Lock()
		known := t.Type != inbox.TaskOffered || in.offers[t.Task.ID].ID == t.ID
		in.mu.Unlock()
		if known {
			continue
		}
		err := in.ask(ctx, func(ctx context.Context) error {
			resp, err := in.box.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(in.box.offerKey(t.Task.ID))}, nil)
			if err != nil {
				return err
			}
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
				if o, err := decode[offer](kv); err == nil && kv.ModRevision > in.offersAt {
					o.raw = string(kv.Value)
					in.offers[o.Task] = o
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Ours reports whether an offer was made at this member.
func (in *Inbox) Ours(o inbox.Offer) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	there, ok := in.offers[o.Task]
	return !ok || there.ID != o.ID || there.Member == in.Etcd.Member()
}

// EndOffer forgets the offer of a task, and tells those concerned.
func (in *Inbox) EndOffer(ctx context.Context, id task.ID, news ...inbox.Trigger) error {
	if err := in.Journal.EndOffer(ctx, id, news...); err != nil {
		return err
	}
	in.mu.Lock()
	o, ok := in.offers[id]
	in.mu.Unlock()
	if !ok {
		return nil
	}
	err := in.ask(ctx, func(ctx context.Context) error { return in.box.endOffer(ctx, o) })
	if away(err) && o.Member == in.Etcd.Member() {
		in.Owes()
		return nil // Push sees that there is none any more
	}
	return err
}
