package creation

import (
	"context"
	"errors"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"
)

// page is the page of a task that is being created.
type page struct {
	*Maker
	title string
	plan  Plan
	// found has the pages that it may be. behind is set if they come from a query, which may lag.
	found  []claim.Reading
	behind bool
}

var _ outbox.Effect = (*page)(nil)

// Send implements outbox.Effect: it creates the page. If Notion created the page but did not say
// which, the creation is in doubt until the page is found.
func (p *page) Send(ctx context.Context, in outbox.Intent) (ref string, err error) {
	read, err := p.plan.Create(ctx, in.ID)
	if err == nil {
		p.found = []claim.Reading{read}
		return string(read.Task.ID), nil
	}
	failed, ok := errors.AsType[*claim.StoreError](err)
	if ok && failed.Landed == claim.LandedNo {
		return "", err
	}
	p.log.Info("the fate of a task that was to be made is unknown; it is looked up", claim.AttrTitle, claim.Brief(p.title), "entry", in.ID, claim.AttrError, err)
	if ok {
		unknown := *failed
		unknown.Landed = claim.LandedUnknown
		err = &unknown
	}
	return "", err
}

// Find implements outbox.Effect.
func (p *page) Find(ctx context.Context, in outbox.Intent) (refs []string, err error) {
	p.found, err = p.tasks.Find(ctx, Sought{ID: in.ID, Title: p.title, Since: in.At})
	p.behind = true
	for _, read := range p.found {
		refs = append(refs, string(read.Task.ID))
	}
	return refs, err
}

// show returns the task of the page.
func (p *page) show(ctx context.Context, ref string) task.Task {
	i := slices.IndexFunc(p.found, func(r claim.Reading) bool { return r.Task.ID == task.ID(ref) })
	read := p.found[i]
	if p.behind { // somebody may have claimed the task since
		now, err := p.tasks.Get(ctx, read.Task.ID)
		if err != nil {
			return read.Task
		}
		read = now
	}
	p.observe(read)
	return read.Task
}
