package daemon

import (
	"cmp"
	"context"
	"slices"

	"dibs/internal/arbiter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// seatFirst has the member lead that has been there for the longest time.
func (d *Daemon) seatFirst(ctx context.Context) error {
	list := d.member.Key("members")
	resp, err := d.member.Commit(ctx, nil, []clientv3.Op{clientv3.OpGet(list+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())}, nil)
	if err != nil {
		return err
	}
	first := false
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		oldest := slices.MinFunc(kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
		parts, _ := arbiter.Parts(string(oldest.Key), list)
		first = slices.Equal(parts, []string{d.member.Member()})
	}
	if d.member.first.Swap(first) != first {
		wake(d.news)
	}
	return nil
}

// leads reports whether this daemon is the one that tells of the board, and reads what is for
// all. Without a cluster it is.
func (d *Daemon) leads() bool { return d.member == nil || d.member.first.Load() }
