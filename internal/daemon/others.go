package daemon

import (
	"context"

	"dibs/internal/others"
	"dibs/internal/worklog"
)

// openOthers starts to compare settings with other daemons, if the mesh log can be queried.
func (d *works) openOthers(log worklog.Writer) {
	mesh, ok := log.(others.Mesh)
	if !ok {
		return
	}
	d.others = others.New(others.Config{
		Mesh: mesh, Journal: d.journal, Claims: d.claimer, Settings: d.claimer.Policy().Settings(), Clock: d.notion, Log: d.log,
	})
}

// seeOthers finds claims of other daemons in the mirror.
func (d *works) seeOthers(ctx context.Context) {
	for _, s := range d.others.See(ctx, d.mirror.Tasks()) {
		d.broker.Met(s.Agent, s.Ago)
	}
}

// othersLoop compares settings with other daemons.
func (d *works) othersLoop(ctx context.Context) {
	d.seeOthers(ctx)
	d.others.Run(ctx)
}

// otherLines returns a line for each daemon on the board whose settings differ.
func (d *works) otherLines() []string {
	if d.others == nil {
		return nil
	}
	return d.others.Lines()
}
