package daemon

import (
	"context"

	"dibs/internal/foreign"
	"dibs/internal/worklog"
)

// lookOut prepares to look at the settings of other daemons, if that log can be asked for them.
func (d *works) lookOut(log worklog.Writer) {
	mesh, ok := log.(foreign.Mesh)
	if !ok {
		return
	}
	d.foreign = foreign.New(foreign.Config{
		Mesh: mesh, Journal: d.journal, Claims: d.claimer, Settings: d.claimer.Policy().Settings(), Clock: d.notion, Log: d.log,
	})
}

// lookAround looks for claims of other daemons.
func (d *works) lookAround(ctx context.Context) {
	for _, s := range d.foreign.See(ctx, d.mirror.Tasks()) {
		d.broker.Met(s.Agent, s.Ago)
	}
}

// foreignLoop looks at the settings of other daemons.
func (d *works) foreignLoop(ctx context.Context) {
	d.lookAround(ctx)
	d.foreign.Run(ctx)
}

// otherLines says which daemons on the board have other settings.
func (d *works) otherLines() []string {
	if d.foreign == nil {
		return nil
	}
	return d.foreign.Lines()
}
