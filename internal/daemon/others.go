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
	d.others = others.New(others.Config{
		Met:  func(agent string, ago time.Duration) { d.broker.Met(agent, ago) }, // which is made last
		Mesh: mesh, Recorded: d.journal.Recorded, Settings: func() claim.Settings { return d.claimer.Policy().Settings() }, Now: d.notion.Now, Log: d.log,
		Strange: func(ctx context.Context, t claim.Token) bool {
			_, err := d.claimer.Find(ctx, t.ID)
			return errors.Is(err, claim.ErrUnknownClaim)
		},
	})
}

// othersLoop looks at the settings of other daemons.
func (d *works) othersLoop(ctx context.Context) {
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
