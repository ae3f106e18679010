package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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

// WriteMarkdown appends Markdown to a page, as a person does by typing.
func (e *Emulator) WriteMarkdown(id, text string) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(id)
		if err != nil {
			return err
		}
		tx.appendBlocks(p.ID, parent{Page: p.ID}, markdownBlocks(text), len(tx.world.Children[p.ID]))
		tx.edit(p, func(*page) {})
		return nil
	})
}

// SetMarkdownLimit sets how many blocks one answer shows of a page as Markdown; 0 restores Notion's
// limit of about 20,000.
func (e *Emulator) SetMarkdownLimit(n int) error {
	return e.do(func(tx *tx) error {
		assign(tx, &tx.world.MarkdownLimit, n)
		return nil
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

// These methods change the options of a select or a status as a person does.

// RenameOption renames an option, as a person does. It keeps its id, and the pages that have it
// show the new name.
func (e *Emulator) RenameOption(databaseID, property, from, to string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		i := slices.IndexFunc(options, func(o option) bool { return o.Name == from })
		if i < 0 {
			return nil, fmt.Errorf("property %q has no option %q", property, from)
		}
		options[i].Name = to
		return options, nil
	})
}

// DeleteOption removes an option. The pages that had it then show none, or the default of a status,
// even if an option of that name is added again.
func (e *Emulator) DeleteOption(databaseID, property, name string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		return slices.DeleteFunc(options, func(o option) bool { return o.Name == name }), nil
	})
}

// AddOption appends an option.
func (e *Emulator) AddOption(databaseID, property, name string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		return append(options, option{ID: newID(), Name: name, Color: "default"}), nil
	})
}

func (e *Emulator) editOptions(databaseID, name string, edit func([]option) ([]option, error)) error {
	return e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Properties, func(p property) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("no property %q", name)
		}
		options, err := edit(slices.Clone(s.Properties[i].Options))
		if err != nil {
			return err
		}
		tx.editSource(s, func(s *source) {
			s.Properties = slices.Clone(s.Properties)
			p := &s.Properties[i]
			p.Options = options
			if p.Type == "status" {
				p.Groups = p.regroup(slices.Clone(p.Groups))
			}
		})
		return nil
	})
}

// MovePage moves a row to another database's first data source, or to the data source with that id,
// as a person can. The row keeps its id, and the values of properties that exist in both places.
func (e *Emulator) MovePage(id, databaseID string) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(id)
		if err != nil {
			return err
		}
		from := tx.world.source(p)
		if from == nil {
			return fmt.Errorf("%s is not a row of a database", id)
		}
		to, err := tx.world.firstSource(databaseID)
		if err == nil && from != to {
			tx.movePage(p, from, to)
		}
		return err
	})
}

func (tx *tx) movePage(p *page, from, to *source) {
	values := map[string]value{}
	for _, prop := range from.Properties {
		if same, ok := to.property(prop.Name); ok {
			values[same.ID] = carried(p.Values[prop.ID], prop, same)
		}
		if prop.Type == "relation" {
			tx.relate(p, prop, p.Values[prop.ID].Pages, nil)
		}
	}
	rows := tx.world.Rows
	put(tx, rows, from.ID, slices.DeleteFunc(slices.Clone(rows[from.ID]), func(row string) bool { return row == p.ID }))
	at, _ := slices.BinarySearchFunc(rows[to.ID], p.Seq, func(row string, seq int64) int {
		return cmp.Compare(tx.world.Pages[row].Seq, seq)
	})
	put(tx, rows, to.ID, slices.Insert(slices.Clone(rows[to.ID]), at, p.ID))
	moved := tx.edit(tx.world.Pages[p.ID], func(p *page) { p.Parent, p.Values = parent{Source: to.ID}, values })
	tx.relateAll(moved, nil)
}

// carried returns what a moved value keeps: options with the same name in the new property, and
// pages to which that may point as well.
func carried(v value, from, to property) value {
	if from.Type != to.Type || from.Type == "relation" && from.Link.Source != to.Link.Source {
		return value{}
	}
	var options []string
	for _, id := range v.Options {
		if o, ok := from.option(func(o option) bool { return o.ID == id }); ok {
			if o, ok = to.optionNamed(o.Name); ok {
				options = append(options, o.ID)
			}
		}
	}
	v.Options = options
	return v
}

// EmptyTrash deletes the pages in the trash with their blocks and comments, as Notion does after a
// month.
func (e *Emulator) EmptyTrash() error {
	return e.do(func(tx *tx) error {
		gone := make(map[string]bool)
		for id, p := range tx.world.Pages {
			if p.Trashed {
				gone[id] = true
			}
		}
		for id := range gone {
			tx.removePage(tx.world.Pages[id])
		}
		for source, rows := range tx.world.Rows {
			left := slices.DeleteFunc(slices.Clone(rows), func(id string) bool { return gone[id] })
			put(tx, tx.world.Rows, source, left)
		}
		for id, m := range tx.world.Comments {
			if gone[m.Parent.Page] || m.Parent.Block != "" && tx.world.Blocks[m.Parent.Block] == nil {
				drop(tx, tx.world.Comments, id)
			}
		}
		return nil
	})
}

// removePage removes a page, its blocks, and the relations that point back to it.
func (tx *tx) removePage(p *page) {
	if s := tx.world.source(p); s != nil {
		for _, prop := range s.Properties {
			if prop.Type == "relation" {
				tx.relate(p, prop, p.Values[prop.ID].Pages, nil)
			}
		}
	}
	tx.removeBlocks(p.ID)
	drop(tx, tx.world.past, p.ID)
	drop(tx, tx.world.Pages, p.ID)
}

// removeBlocks removes everything inside a page or a block.
func (tx *tx) removeBlocks(id string) {
	for _, child := range tx.world.Children[id] {
		tx.removeBlocks(child)
		drop(tx, tx.world.Blocks, child)
	}
	drop(tx, tx.world.Children, id)
}

// Page returns a page, even from the trash.
func (e *Emulator) Page(id string) (Page, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.world.find(id)
	if err != nil {
		return Page{}, false
	}
	return e.world.snapshot(p), true
}

// Pages returns the rows of all data sources of a database, in the order of their creation,
// including those in the trash.
func (e *Emulator) Pages(databaseID string) []Page {
	e.mu.Lock()
	defer e.mu.Unlock()
	canonical, _ := parseID(databaseID)
	d := e.world.Databases[canonical]
	if d == nil {
		return nil
	}
	var out []Page
	for _, s := range d.Sources {
		for _, id := range e.world.Rows[s] {
			out = append(out, e.world.snapshot(e.world.Pages[id]))
		}
	}
	return out
}

func (w *world) snapshot(p *page) Page {
	out := Page{
		ID: p.ID, Trashed: p.Trashed, Archived: p.Archived, Created: p.Created, Edited: p.Edited,
		properties: map[string]string{}, title: w.title(p), body: w.blockLines(p.ID),
	}
	if s := w.source(p); s != nil {
		out.Database = s.Database
		for _, prop := range s.Properties {
			m := w.encodeProperty(p, prop)
			m[prop.Type] = w.encodeValue(p, prop)
			out.properties[prop.Name] = string(compact(m))
		}
	}
	return out
}
