package emulator

import (
	"encoding/json"
	"fmt"
	"time"
)

// The exported methods of this file change the workspace as a person does in Notion's own
// interface: they are not counted, logged or limited, and faults do not apply. Values and schemas
// have the API's form; types that are read-only there can be set, and are then shown as given.

// CreateDatabase makes a database below the workspace's home page. schema has an API property
// schema object for each name.
func (e *Emulator) CreateDatabase(title string, schema map[string]any) (id string, err error) {
	id = newID()
	return id, e.do(func(tx *tx) error { return tx.makeDatabase(id, title, schema) })
}

func (tx *tx) makeDatabase(id, title string, schema map[string]any) error {
	properties, err := asNode("schema", schema)
	if err != nil {
		return err
	}
	_, err = tx.createDatabase(id, parent{Page: homeID}, textSpans(title), properties)
	return err
}

// CreatePage makes a row of a database's first data source, or of the data source with that id.
// properties has an API property value for each name.
func (e *Emulator) CreatePage(databaseID string, properties map[string]any) (id string, err error) {
	err = e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		n, err := asNode("properties", properties)
		if err != nil {
			return err
		}
		p, err := tx.createPage(parent{Source: s.ID}, s, n)
		if err == nil {
			id = p.ID
		}
		return err
	})
	return id, err
}

// Fill makes n rows of a database's first data source, much faster than CreatePage. row returns the
// creation time of the i-th, and its properties.
func (e *Emulator) Fill(databaseID string, n int, row func(i int) (created time.Time, properties map[string]any)) error {
	return e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		for i := range n {
			created, properties := row(i)
			values, err := asNode("properties", properties)
			if err != nil {
				return err
			}
			tx.now = created
			if _, err := tx.createPage(parent{Source: s.ID}, s, values); err != nil {
				return err
			}
		}
		return nil
	})
}

// EditPage sets properties of a page, even of one in the trash, as a person.
func (e *Emulator) EditPage(id string, properties map[string]any) error {
	return e.EditPageAs(personID, id, properties)
}

// EditPageAs is EditPage as the user of that id.
func (e *Emulator) EditPageAs(user, id string, properties map[string]any) error {
	return e.do(func(tx *tx) error {
		tx.user = user
		p, err := tx.world.find(id)
		if err != nil {
			return err
		}
		n, err := asNode("properties", properties)
		if err != nil {
			return err
		}
		_, err = tx.editPage(p, n)
		return err
	})
}

// EditSchema changes, adds, renames and (with nil) removes properties of a database's first data
// source, or of the data source with that id.
func (e *Emulator) EditSchema(databaseID string, properties map[string]any) error {
	return e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		n, err := asNode("properties", properties)
		if err != nil {
			return err
		}
		return tx.updateSchema(s, n)
	})
}

// DataSource returns the id of a database's first data source; empty if there is no such database.
func (e *Emulator) DataSource(databaseID string) (id string) {
	_ = e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err == nil {
			id = s.ID
		}
		return err
	})
	return id
}

// AddDataSource adds a data source to a database: API versions before 2025-09-03 then refuse to
// work with the database.
func (e *Emulator) AddDataSource(databaseID, name string, schema map[string]any) (id string, err error) {
	err = e.do(func(tx *tx) error {
		first, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		n, err := asNode("schema", schema)
		if err != nil {
			return err
		}
		s, err := tx.createSource(tx.world.Databases[first.Database], textSpans(name), n)
		if err == nil {
			id = s.ID
		}
		return err
	})
	return id, err
}

// TrashDataSource moves a data source to the trash. It fails for the last one of a database.
func (e *Emulator) TrashDataSource(id string) error {
	return e.do(func(tx *tx) error {
		canonical, _ := parseID(id)
		s := tx.world.Sources[canonical]
		if s == nil {
			return fmt.Errorf("no data source with the id %q", id)
		}
		if tx.world.onlySource(s) {
			return fmt.Errorf("%s is the last data source of its database", id)
		}
		tx.editSource(s, func(s *source) { s.Trashed = true })
		return nil
	})
}

// TrashPage moves a page to the trash.
func (e *Emulator) TrashPage(id string) error {
	return e.change(id, func(p *page) { p.Trashed = true })
}

// RestorePage takes a page out of the trash.
func (e *Emulator) RestorePage(id string) error {
	return e.change(id, func(p *page) { p.Trashed = false })
}

// ArchivePage archives a page or undoes that: queries leave archived pages out, although they are
// not in the trash.
func (e *Emulator) ArchivePage(id string, archived bool) error {
	return e.change(id, func(p *page) { p.Archived = archived })
}

func (e *Emulator) change(id string, f func(*page)) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(id)
		if err == nil {
			tx.edit(p, f)
		}
		return err
	})
}

func (w *world) find(id string) (*page, error) {
	if canonical, ok := parseID(id); ok {
		if p := w.Pages[canonical]; p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no page with the id %q", id)
}

func (w *world) firstSource(databaseID string) (*source, error) {
	if canonical, ok := parseID(databaseID); ok {
		if d := w.Databases[canonical]; d != nil && !d.Linked {
			return w.first(d), nil
		}
		if s := w.Sources[canonical]; s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no database with the id %q", databaseID)
}

// asNode converts maps, slices and structs to what decoding a request's JSON returns.
func asNode(path string, v any) (node, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return node{}, err
	}
	n := node{path: path}
	err = json.Unmarshal(data, &n.value)
	n.present = n.value != nil
	return n, err
}

// AddPerson adds a person to the workspace. An empty address is one that the connection may not
// read.
func (e *Emulator) AddPerson(name, email string) (id string, err error) {
	id = newID()
	return id, e.do(func(tx *tx) error {
		put(tx, tx.world.Users, id, &user{ID: id, Name: name, Person: true, Email: email})
		return nil
	})
}

// AddBot adds a connection to the workspace, or, with agent, one of Notion's own agents.
func (e *Emulator) AddBot(name string, agent bool) (id string, err error) {
	id = newID()
	return id, e.do(func(tx *tx) error {
		put(tx, tx.world.Users, id, &user{ID: id, Name: name, Agent: agent})
		return nil
	})
}

// Comment is a comment as people see it.
type Comment struct {
	ID   string
	Name string // the display name
	Text string
	// Mentions are the ids of the users mentioned.
	Mentions []string
}

// Comments returns the comments on a page, the oldest first, including resolved ones.
func (e *Emulator) Comments(page string) []Comment {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Comment
	for _, m := range e.world.commentsOn(page) {
		shown := Comment{ID: m.ID, Name: m.Name, Text: plainText(m.Text)}
		for _, s := range m.Text {
			var mention struct {
				User struct {
					ID string `json:"id"`
				} `json:"user"`
			}
			if json.Unmarshal(s.Mention, &mention) == nil && mention.User.ID != "" {
				shown.Mentions = append(shown.Mentions, mention.User.ID)
			}
		}
		all = append(all, shown)
	}
	return all
}

// ResolveComment resolves a comment: the API no longer lists it.
func (e *Emulator) ResolveComment(id string) error {
	return e.do(func(tx *tx) error {
		m, ok := tx.world.Comments[id]
		if !ok {
			return notFound("comment", id)
		}
		next := *m
		next.Resolved = true
		put(tx, tx.world.Comments, id, &next)
		return nil
	})
}

// AddComment comments on a page as that user.
func (e *Emulator) AddComment(page, user, text string) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(page)
		if err != nil {
			return err
		}
		tx.addComment(p.ID, user, text)
		return nil
	})
}

func (tx *tx) addComment(page, user, text string) {
	m := &comment{
		ID: newID(), Parent: parent{Page: page}, Discussion: newID(), Text: textSpans(text), Created: tx.now, CreatedBy: user, Seq: tx.seq(),
	}
	put(tx, tx.world.Comments, m.ID, m)
}
