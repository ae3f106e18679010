package daemon

import (
	"context"
	"slices"
	"strings"

	"dibs/internal/arbiter"
)

// seatFirst has the first of the members, by their ids, be the one that leads.
func (d *Daemon) seatFirst(ctx context.Context) error {
	members, err := d.member.Members(ctx)
	if err != nil {
		return err
	}
	first := len(members) > 0 && slices.MinFunc(members, func(a, b arbiter.Member) int { return strings.Compare(a.ID, b.ID) }).ID == d.member.Member()
	if d.member.first.Swap(first) != first {
		wake(d.news)
	}
	return nil
}

// leads reports whether this daemon is the one that tells of the board, and reads what is for
// all. Without a cluster it is.
func (d *Daemon) leads() bool { return d.member == nil || d.member.first.Load() }
