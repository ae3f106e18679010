package mirror

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Look brings pages up to date of which Notion said that something happened to them. One page is
// read. Of several, those that are not in gone are looked for by a sync, and read only if that does
// not show them. gone are pages that were moved to the trash, which no query shows. Look reports to
// the watcher like a sync, waits for one that is under way, and reads maxLookups pages at most: a
// later sync finds the others. The result has what Look found.
func (m *Mirror) Look(ctx context.Context, changed, gone []task.ID) (Result, error) {
	ctx = m.source.Impatient(ctx)
	var result Result
	if len(changed)+len(gone) > 1 && len(changed) > 0 {
		began := m.next()
		found, err := m.sync(ctx, false, true)
		if err != nil {
			return found, err
		}
		result = found
		for _, id := range changed {
			if !m.rows.readSince(id, began) {
				gone = append(gone, id)
			}
		}
	} else {
		gone = append(gone, changed...)
	}
	if len(gone) == 0 {
		return result, nil
	}
	read, err := m.read(ctx, gone[:min(len(gone), maxLookups)])
	read.Hinted = true
	result.Changed = append(result.Changed, read.Changed...)
	result.Gone = append(result.Gone, read.Gone...)
	if err == nil {
		err = m.watcher.Synced(ctx, read)
	}
	return result, err
}

// read reads pages, and drops those that are not there any more.
func (m *Mirror) read(ctx context.Context, pages []task.ID) (result Result, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { m.tell(append(ids(result.Changed), result.removed...)) }()
	for _, id := range pages {
		s := m.next()
		err := m.ask(ctx, id, &result)
		if err == nil {
			continue
		}
		if !isKind(err, claim.NotFound) {
			return result, err
		}
		t, known := m.Task(id)
		if !known {
			continue
		}
		if err := m.remove(ctx, []task.ID{id}, s, &result); err != nil {
			return result, err
		}
		result.Gone = append(result.Gone, t)
	}
	m.lookUp(ctx)
	return result, nil
}
