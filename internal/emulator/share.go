package emulator

// Unshare takes the connection's access to a database away: it and its pages
// answer 404, as if they did not exist.
func (e *Emulator) Unshare(databaseID string) error { return e.hideDatabase(databaseID, true) }

// Share gives them back.
func (e *Emulator) Share(databaseID string) error { return e.hideDatabase(databaseID, false) }

// UnsharePage takes the connection's access to one page away: it answers 404, as
// if it did not exist, and queries leave it out. Relations still point to it.
func (e *Emulator) UnsharePage(id string) error { return e.hidePage(id, true) }

// SharePage gives it back.
func (e *Emulator) SharePage(id string) error { return e.hidePage(id, false) }

func (e *Emulator) hideDatabase(id string, hidden bool) error {
	return e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(id)
		if err != nil {
			return err
		}
		put(tx, tx.world.Hidden, s.Database, hidden)
		return nil
	})
}

// hidePage does not edit the page: who may see it is no part of it.
func (e *Emulator) hidePage(id string, hidden bool) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(id)
		if err != nil {
			return err
		}
		put(tx, tx.world.Hidden, p.ID, hidden)
		return nil
	})
}
