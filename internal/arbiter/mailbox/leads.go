package mailbox

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leads are the agents that the configuration has told what is finished.
type leads struct {
	names []string
	put   map[string]bool
	lease clientv3.LeaseID
	at    time.Time
}

// For how long it is known which leads a member's configuration names once it is gone, and how
// often that is prolonged.
const (
	leadsTime  = 24 * time.Hour
	leadsEvery = time.Hour
)

// SetLeads names the agents that the configuration has told what is finished. Tend tells etcd.
func (in *Inbox) SetLeads(names []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.leads.names = names
}

// tendLeads tells etcd of the leads.
func (in *Inbox) tendLeads(ctx context.Context) error {
	in.mu.Lock()
	l := in.leads
	in.mu.Unlock()
	same := len(l.put) == len(l.names)
	for _, name := range l.names {
		same = same && l.put[name]
	}
	if same && (len(l.names) == 0 || time.Since(l.at) < leadsEvery) {
		return nil
	}
	if same && in.Etcd.Prolong(ctx, l.lease) == nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.leads.at = time.Now()
		return nil
	}
	lease, err := in.Etcd.Lease(ctx, leadsTime)
	if err != nil {
		return err
	}
	now := make(map[string]bool)
	for _, name := range l.names {
		key := in.box.key("leads", name, in.Etcd.Member())
		if _, err := in.box.commit(ctx, nil, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(lease))}, nil); err != nil {
			return err
		}
		now[name] = true
	}
	for name := range l.put {
		if now[name] {
			continue
		}
		if _, err := in.box.commit(ctx, nil, []clientv3.Op{clientv3.OpDelete(in.box.key("leads", name, in.Etcd.Member()))}, nil); err != nil {
			return err
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.leads.put, in.leads.lease, in.leads.at = now, lease, time.Now()
	return nil
}

// leadsNow are the agents that are told what is finished, as of the whole cluster.
func (in *Inbox) leadsNow(ctx context.Context) ([]string, error) {
	resp, err := in.box.commit(ctx, nil, []clientv3.Op{in.box.all(true, "leads"), in.box.all(false, "pollers")}, nil)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	names := append([]string(nil), in.leads.names...)
	in.mu.Unlock()
	names = append(names, in.box.names(resp.Responses[0].GetResponseRange().Kvs, 1)...)
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if p, err := decode[poller](kv); err == nil && p.Finished {
			names = append(names, in.box.part(kv.Key, 1))
		}
	}
	return compact(names), nil
}
