package daemon

import (
	"context"

	"dibs/internal/foreign"
	"dibs/internal/worklog"
)

// openForeign starts to compare settings with other daemons, if the mesh log can be queried.
func (d *works) openForeign(log worklog.Writer) {
	mesh, ok := log.(foreign.Mesh)
	if !ok {
		return
	}
	d.foreign = foreign.New(foreign.Config{
		Mesh: mesh, Journal: d.journal, Claims: d.claimer, Settings: d.claimer.Policy().Settings(), Clock: d.notion, Log: d.log,
	})
}

// seeForeign finds claims of other daemons in the mirror.
func (d *works) seeForeign(ctx context.Context) {
	for _, s := range d.foreign.See(ctx, d.mirror.Tasks()) {
		d.broker.Met(s.Agent, s.Ago)
	}
}

// foreignLoop compares settings with other daemons.
func (d *works) foreignLoop(ctx context.Context) {
	d.seeForeign(ctx)
	d.foreign.Run(ctx)
}

// otherLines returns a line for each daemon on the board whose settings differ.
func (d *works) otherLines() []string {
	if d.foreign == nil {
		return nil
	}
	return d.foreign.Lines()
}
