package mirror

import (
	"context"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Batch is what a sync of another daemon has found out. That daemon passes on what is new or
// different for those who know what it passed on before.
type Batch struct {
	// At is Notion's time when the sync began, and Full says that it read the whole board.
	At   time.Time
	Full bool
	// Tasks are those that may be new or different.
	Tasks []task.Task
	// Claimed, Removed and Absent are as in a Result. Gone are those of Removed that the
	// database does not have any more.
	Claimed, Removed, Gone, Absent []task.ID
	// Has, if set, tells which tasks the other daemon's mirror has.
	Has func(task.ID) bool
}

// apart is how far two daemons' ideas of Notion's time may differ.
const apart = 10 * time.Second

// Again is how long after a task was passed on first it has to be passed on once more: who
// has read it itself in the meantime goes by its own reading, which may be the earlier one if
// its idea of Notion's time is another.
const Again = apart + 2*time.Second

// Take takes over what a sync of another daemon has found out, as if it had been made here,
// with hardly ever a request. What this daemon has read itself after that sync began counts
// for more. If the board has not been read here yet, nothing is taken over, since it will be.
func (m *Mirror) Take(ctx context.Context, b Batch) (Result, error) {
	result, err := m.receive(ctx, b)
	if err != nil || result.At.IsZero() {
		return result, err
	}
	if m.synced != nil && m.synced(ctx, result) != nil {
		return result, nil // it is done again with the next batch, or sync
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = time.Now()
	return result, nil
}

func (m *Mirror) receive(ctx context.Context, b Batch) (Result, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	if !m.Listed() {
		return Result{}, nil
	}
	result := Result{At: b.At, Full: b.Full, Read: len(b.Tasks), Claimed: b.Claimed}
	err := m.adopt(m.source.Impatient(ctx), b, &result)
	if err == nil {
		m.mu.Lock()
		m.at = later(m.at, b.At)
		m.lacked = m.lacked || m.source.Broken() != nil
		at := m.at
		m.mu.Unlock()
		err = m.storage.SetMeta(ctx, metaSynced, at.Format(time.RFC3339Nano))
	}
	if all := append(ids(result.Changed), result.Removed...); len(all) > 0 {
		m.onChange(all)
	}
	if err != nil {
		return result, err
	}
	if err := m.lookUp(m.source.Impatient(ctx), &result); err != nil {
		m.log.Warn("dependencies could not be looked up", "error", err)
	}
	m.note(nil)
	return result, nil
}

// adopt takes over the tasks of a batch.
func (m *Mirror) adopt(ctx context.Context, b Batch, result *Result) error {
	s := m.next()
	began := time.Now().Add(-max(0, m.source.Now().Sub(b.At)))
	mine := func(id task.ID) bool { return m.rows.readHere(id, began) }
	asked := make(map[task.ID]bool)
	rows := slices.DeleteFunc(slices.Clone(b.Tasks), func(t task.Task) bool { return mine(t.ID) })
	rows, err := m.settle(ctx, rows, asked, began.Add(-apart), result)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, batch) {
		read := make([]reading, len(some))
		for i, t := range some {
			read[i] = reading{Task: t, at: s}
		}
		changed, err := m.apply(ctx, read...)
		if err != nil {
			return err
		}
		result.Changed = append(result.Changed, changed...)
	}
	if err := m.leave(ctx, b, began, s, result); err != nil {
		return err
	}
	m.mu.Lock()
	if b.Full {
		clear(m.absent)
	}
	for _, id := range b.Absent {
		m.absent[id] = struct{}{}
	}
	m.mu.Unlock()
	listed := make(map[task.ID]bool, len(b.Claimed))
	for _, id := range b.Claimed {
		listed[id] = true
	}
	// The other daemon may not know of the claims that were made here since its last sync.
	err = m.missed(ctx, asked, s, result, func(t task.Task) bool {
		page := m.rows.page(t.ID)
		return listed[t.ID] || page.IsZero() || page.After(began.Add(-apart))
	})
	if isKind(err, claim.Unavailable) {
		return nil // which is asked again with the next batch
	}
	return err
}

// leave removes what the other daemon has removed. What this one has read at about that time,
// or later, it keeps.
func (m *Mirror) leave(ctx context.Context, b Batch, began time.Time, s stamp, result *Result) error {
	var remove []task.ID
	for _, id := range b.Removed {
		if known, ok := m.Task(id); ok && !m.rows.readHere(id, began) {
			remove = append(remove, id)
			if slices.Contains(b.Gone, id) && !known.Trashed {
				result.Gone = append(result.Gone, known)
			}
		}
	}
	if b.Has != nil {
		needed, kept := needed(m.Tasks()), b.At.Add(-m.keep)
		for t := range m.Tasks() {
			expired := t.Status.Finished() && t.Edited.Before(kept)
			if b.Has(t.ID) || slices.Contains(remove, t.ID) || expired && needed[t.ID] || m.rows.readHere(t.ID, began.Add(-apart)) {
				continue
			}
			remove = append(remove, t.ID)
			if !expired && !t.Trashed {
				result.Gone = append(result.Gone, t)
			}
		}
	}
	return m.remove(ctx, remove, s, result)
}

// Rewind has the next sync read what was edited from that time of Notion's on, if it would
// read less.
func (m *Mirror) Rewind(to time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.After(to) {
		m.at = to
	}
}

// Hasten has Run make its next sync now.
func (m *Mirror) Hasten() {
	select {
	case m.hurry <- struct{}{}:
	default:
	}
}

// Fail notes that the daemon that reads for this one cannot.
func (m *Mirror) Fail(why error) { m.note(why) }

// waits reports whether another daemon reads for this one now, so that it makes no syncs of
// its own.
func (m *Mirror) waits() bool {
	if m.follows == nil || !m.follows() {
		return false
	}
	broken := m.source.Broken() != nil
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed && (!m.lacked || broken)
}

// ReadSince reports whether a task was read, or would have been if it had been edited, at that
// time of Notion's or later, here or by the daemon that reads for this one.
func (m *Mirror) ReadSince(id task.ID, at time.Time) bool {
	m.mu.Lock()
	synced := m.at
	m.mu.Unlock()
	page := m.rows.page(id)
	return synced.After(at.Add(apart/5)) || !page.IsZero() && page.After(time.Now().Add(-m.source.Now().Sub(at)))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
