// Package doctor finds what keeps dibs from working, or from working well, and says what to do
// about it. It needs no daemon. It changes nothing, except that measuring makes scratch rows and
// moves them to the trash.
package doctor

import (
	"context"

	"dibs/internal/notion"
)

// Run checks everything. It does not wait if Notion asks for a long pause. Findings after the end
// of ctx are left out, because they may be due only to that.
func Run(ctx context.Context, o Options) *Report {
	e := &examination{Options: o, Report: new(Report)}
	e.accept = func(f Finding) bool {
		if ctx.Err() != nil {
			return false
		}
		if o.OnFinding != nil {
			o.OnFinding(f)
		}
		return true
	}
	ctx = notion.Impatient(ctx)
	e.token()
	e.rate()
	if e.connect(ctx) {
		e.clock(ctx)
		e.databases(ctx)
	}
	e.stateDir()
	e.daemon(ctx)
	e.journal(ctx)
	e.agents(ctx)
	e.notify()
	if o.Probe {
		e.probe(ctx)
	}
	return e.Report
}
