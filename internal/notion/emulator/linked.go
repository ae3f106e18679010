package emulator

import (
	"fmt"
	"slices"
)

// LinkDatabase adds a linked view of a database to the home page. It looks like a database, but the
// API has no data source for it and refuses to work with it.
func (e *Emulator) LinkDatabase(databaseID string) (id string, err error) {
	id = newID()
	return id, e.do(func(tx *tx) error {
		if _, err := tx.world.firstSource(databaseID); err != nil {
			return err
		}
		put(tx, tx.world.Databases, id, &database{
			ID: id, Linked: true, Parent: parent{Page: homeID}, Seq: tx.seq(),
			Created: tx.now, Edited: tx.now, CreatedBy: tx.user, EditedBy: tx.user,
		})
		return nil
	})
}

// noSources is Notion's answer for a linked database, and for one whose data sources are not
// shared.
func noSources(id string) error {
	return invalid("Database with ID %s does not contain any data sources accessible by this API bot.", id)
}

// CreateRowDatabase makes a database that is a row of another one, as in wikis. Queries return it
// among the pages.
func (e *Emulator) CreateRowDatabase(databaseID, title string, schema map[string]any) (id string, err error) {
	id = newID()
	return id, e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		properties, err := asNode("schema", schema)
		if err != nil {
			return err
		}
		_, err = tx.createDatabase(id, parent{Source: s.ID}, textSpans(title), properties)
		return err
	})
}

// encodeRowDatabases encodes the databases that are rows of a data source, in the order of their
// creation.
func (c *call) encodeRowDatabases(s *source) []any {
	var rows []*database
	for _, d := range c.world.Databases {
		if d.Parent.Source == s.ID && !d.Trashed && !c.world.Hidden[d.ID] {
			rows = append(rows, d)
		}
	}
	slices.SortFunc(rows, func(a, b *database) int { return int(a.Seq - b.Seq) })
	var out []any
	for _, d := range rows {
		if c.version.hasSources() {
			out = append(out, c.encodeSource(c.world.first(d)))
		} else {
			out = append(out, c.encodeDatabase(d))
		}
	}
	return out
}

// CopyDataSource adds a copy of a database's first data source to the database, without its rows.
// The copy's properties keep the original's ids.
func (e *Emulator) CopyDataSource(databaseID, name string) (id string, err error) {
	err = e.do(func(tx *tx) error {
		first, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		made, err := tx.createSource(tx.world.Databases[first.Database], textSpans(name), node{
			path: "schema", present: true, value: map[string]any{"Name": map[string]any{"title": map[string]any{}}},
		})
		if err != nil {
			return err
		}
		id = made.ID
		tx.editSource(made, func(s *source) {
			s.Properties = slices.Clone(first.Properties)
			for i, p := range s.Properties {
				if p.Link != nil && p.Link.Source == first.ID && p.Link.Synced == "" {
					s.Properties[i].Link = &relation{Source: id}
				}
			}
		})
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("copying a data source: %w", err)
	}
	return id, nil
}
