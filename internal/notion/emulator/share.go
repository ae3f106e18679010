package emulator

// Unshare revokes the connection's access to a database: it and its pages answer 404, as if they
// did not exist.
func (e *Emulator) Unshare(databaseID string) error { return e.hideDatabase(databaseID, true) }

// Share restores the access.
func (e *Emulator) Share(databaseID string) error { return e.hideDatabase(databaseID, false) }

// UnsharePage revokes the connection's access to one page: it answers 404, as if it did not exist,
// and queries leave it out. Relations still point to it.
func (e *Emulator) UnsharePage(id string) error { return e.hidePage(id, true) }

// SharePage restores the access.
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

// hidePage does not count as an edit of the page.
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
