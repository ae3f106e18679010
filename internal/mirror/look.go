package mirror

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Look brings pages up to date of which Notion said that something happened to them. One page is
// read. Of several, those that are not in gone are looked for by a sync, and read only if that does
// not show them. gone are pages that were moved to the trash, which no query shows. Look reads
// maxLookups pages at most, and returns those that are left; after an error, all that it did not
// read. It reports to the watcher like a sync, waits for one that is under way, and waits until it
// is within the share that quick syncs and looks have of the rate.
func (m *Mirror) Look(ctx context.Context, changed, gone []task.ID) (result Result, left []task.ID, err error) {
	if err := m.allowed(ctx); err != nil {
		return Result{}, append(changed, gone...), err
	}
	ctx = m.source.Background(m.source.Impatient(ctx))
	pages := gone
	if len(changed)+len(gone) > 1 && len(changed) > 0 {
		began := m.next()
		if result, err = m.sync(ctx, false, true); err != nil {
			return result, append(changed, gone...), err
		}
		for _, id := range changed {
			if !m.rows.readSince(id, began) {
				pages = append(pages, id)
			}
		}
	} else {
		pages = append(pages, changed...)
	}
	if len(pages) == 0 {
		return result, nil, nil
	}
	read, left, err := m.read(ctx, pages)
	result.Changed = append(result.Changed, read.Changed...)
	result.Gone = append(result.Gone, read.Gone...)
	if serr := m.watcher.Synced(ctx, read); err == nil {
		err = serr
	}
	return result, left, err
}

// allowed waits until one more request is within the share.
func (m *Mirror) allowed(ctx context.Context) error {
	for {
		wait := m.share.wait()
		if wait <= 0 {
			return nil
		}
		if !sleep(ctx, wait, nil, nil) {
			return context.Cause(ctx)
		}
	}
}

// read reads pages, as many as it may, drops those that are not there any more, and returns those
// that it did not get to.
func (m *Mirror) read(ctx context.Context, pages []task.ID) (result Result, left []task.ID, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, pages, context.Cause(ctx)
	}
	result.Hinted = true
	defer func() {
		m.tell(append(ids(result.Changed), result.removed...))
		_, apart := m.source.Room()
		m.share.spend(result.requests, apart)
	}()
	for i, id := range pages {
		if i == maxLookups {
			return result, pages[i:], nil
		}
		s := m.next()
		result.requests++
		err := m.ask(ctx, id, &result)
		if err == nil {
			continue
		}
		if !isKind(err, claim.NotFound) {
			return result, pages[i:], err
		}
		t, known := m.Task(id)
		if !known {
			continue
		}
		if err := m.remove(ctx, []task.ID{id}, s, &result); err != nil {
			return result, pages[i:], err
		}
		result.Gone = append(result.Gone, t)
	}
	result.requests += m.lookUp(ctx)
	return result, nil, nil
}
