package daemon

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/others"
	"dibs/internal/worklog"
)

// lookOut prepares to look at the settings of other daemons, if that log can be asked for them.
func (d *works) lookOut(log worklog.Writer) {
	mesh, ok := log.(others.Mesh)
	if !ok {
		return
	}
	began := claim.NewID(d.notion.Now())
	d.others = others.New(others.Config{
		Met:  func(agent string, ago time.Duration) { d.broker.Met(agent, ago) }, // which is made last
		Mesh: mesh, Recorded: d.journal.Recorded, Settings: d.claimer.Settings, Now: d.notion.Now, Log: d.log,
		Strange: func(ctx context.Context, t claim.Token) bool {
			if _, err := d.claimer.Find(ctx, t.ID); !errors.Is(err, claim.ErrUnknownClaim) {
				return false
			}
			// Of what was done before this daemon began etcd tells nothing any more.
			return d.member == nil || !d.member.holders.Knew(t.ID) && !(t.Done && t.ID < began)
		},
	})
}

// othersLoop looks at the settings of other daemons.
func (d *works) othersLoop(ctx context.Context) {
	if d.others == nil {
		return
	}
	d.others.See(ctx, d.mirror.Tasks())
	d.others.Run(ctx)
}

// otherLines says which daemons on the board have other settings.
func (d *works) otherLines() []string {
	if d.others == nil {
		return nil
	}
	return d.others.Lines()
}
