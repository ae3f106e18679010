package mailbox

import (
	"context"
	"slices"
	"time"
)

// TriggerAgents returns whose triggers these are; unknown ids are left out. While etcd is away
// only those are known that were handed out here.
func (in *Inbox) TriggerAgents(ctx context.Context, ids []string) (map[string]string, error) {
	agents, err := in.Journal.TriggerAgents(ctx, ids)
	if err != nil {
		return nil, err
	}
	var left []string
	in.mu.Lock()
	for _, id := range ids {
		if h, ok := in.handed[id]; ok {
			agents[id] = h.agent
		}
		if agents[id] == "" {
			left = append(left, id)
		}
	}
	in.mu.Unlock()
	if len(left) == 0 {
		return agents, nil
	}
	err = in.ask(ctx, func(ctx context.Context) error {
		owners, err := in.box.owners(ctx, left)
		for id, owner := range owners {
			agents[id], _ = ownerOf(owner)
		}
		return err
	})
	return agents, err
}

// AckTriggers says that an agent is done with triggers, once or again. It returns those that it
// knows none of. While etcd is away all are taken to be known, and etcd is told later.
func (in *Inbox) AckTriggers(ctx context.Context, agent string, ids []string) (unknown []string, err error) {
	err = in.ask(ctx, func(ctx context.Context) error {
		unknown, err = in.box.ack(ctx, agent, ids)
		return err
	})
	switch {
	case away(err):
		unknown = nil
		if err := in.Journal.OweAcks(ctx, time.Now(), agent, ids...); err != nil {
			return nil, err
		}
		in.Owes()
	case err != nil:
		return nil, err
	}
	// It has its copies, and what etcd has yet to get.
	here, err := in.Journal.AckTriggers(ctx, agent, ids)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waits, agent)
	for _, id := range ids {
		delete(in.handed, id)
	}
	return slices.DeleteFunc(unknown, func(id string) bool { return !slices.Contains(here, id) }), nil
}
