package emulator

import (
	"maps"
	"slices"
	"time"
)

// tx is one transaction, which may only read. It runs with the emulator's lock, and is rolled back
// if it fails.
type tx struct {
	world *world
	now   time.Time
	user  string // the author
	// direct is set for changes that bypass the API: they may set read-only values, and have no
	// limits.
	direct bool
	// oneSource is set for API versions that know only one data source per database.
	oneSource bool
	undo      []func()
	// watched is set if a webhook is to hear of the changes: they are then kept in changes.
	watched bool
	changes []change
}

// change says what an object was before a transaction wrote it: a nil pointer if it is new.
type change struct {
	id  string
	was any
}

// changed reports whether the transaction has written anything.
func (tx *tx) changed() bool { return len(tx.undo) > 0 }

// rollback undoes everything that was written.
func (tx *tx) rollback() {
	for i := len(tx.undo) - 1; i >= 0; i-- {
		tx.undo[i]()
	}
	tx.undo, tx.changes = nil, nil
}

// put replaces an entry of one of the world's maps.
func put[K comparable, V any](tx *tx, m map[K]V, key K, v V) {
	old, ok := m[key]
	tx.undo = append(tx.undo, func() {
		if ok {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
	if tx.watched {
		if id, isID := any(key).(string); isID {
			tx.changes = append(tx.changes, change{id, old})
		}
	}
	m[key] = v
}

// drop removes an entry of one of the world's maps, if it is there.
func drop[K comparable, V any](tx *tx, m map[K]V, key K) {
	if old, ok := m[key]; ok {
		tx.undo = append(tx.undo, func() { m[key] = old })
		delete(m, key)
	}
}

// assign replaces a variable of the world.
func assign[T any](tx *tx, to *T, v T) {
	old := *to
	tx.undo = append(tx.undo, func() { *to = old })
	*to = v
}

// seq numbers a new object.
func (tx *tx) seq() int64 {
	tx.world.Seq++
	return tx.world.Seq
}

// takeBlocks counts n new blocks against the limit.
func (tx *tx) takeBlocks(n int) error {
	left := tx.world.BlocksLeft
	if left == nil {
		return nil
	}
	if n > *left {
		return restricted()
	}
	rest := *left - n
	assign(tx, &tx.world.BlocksLeft, &rest)
	return nil
}

// edit replaces a page by a changed copy and keeps the old version.
func (tx *tx) edit(old *page, change func(*page)) *page {
	p := *old
	p.Values = maps.Clone(old.Values)
	change(&p)
	p.Edited, p.EditedBy = tx.now, tx.user
	past := append(slices.Clone(tx.world.past[p.ID]), old)
	for len(past) > maxPast || len(past) > 1 && tx.now.Sub(past[1].Edited) > keepPast {
		past = past[1:]
	}
	put(tx, tx.world.past, p.ID, past)
	put(tx, tx.world.Pages, p.ID, &p)
	return &p
}

// editSource replaces a data source by a changed copy.
func (tx *tx) editSource(old *source, change func(*source)) *source {
	s := *old
	s.Properties = slices.Clone(old.Properties)
	change(&s)
	s.Edited, s.EditedBy = tx.now, tx.user
	put(tx, tx.world.Sources, s.ID, &s)
	return &s
}

// editDatabase replaces a database by a changed copy.
func (tx *tx) editDatabase(old *database, change func(*database)) *database {
	d := *old
	change(&d)
	d.Edited, d.EditedBy = tx.now, tx.user
	put(tx, tx.world.Databases, d.ID, &d)
	return &d
}
