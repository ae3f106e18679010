package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Database describes a database.
type Database struct {
	ID    task.ID
	Title string
	// Source is the chosen data source if the database has several or one was named; Title is then
	// its title. It is empty if the database has only one and none was named.
	Source  task.ID
	Columns map[string]Column // by name
}

// Database reads a database, by its id or URL, with one request. If its data source was named, the
// first read takes another request. The error is a *SourceError if the database has several data
// sources and none is chosen.
func (c *Client) Database(ctx context.Context, id string) (Database, error) {
	canonical, err := task.ParseID(id)
	if err != nil {
		return Database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"%q is not the id of a database: give its id or its URL", id)
	}
	if err := c.findSource(ctx, canonical); err != nil {
		return Database{}, err
	}
	var x exchange
	db, err := c.api.Database.Get(x.in(ctx), notionapi.DatabaseID(canonical))
	if gone(err) && c.sources.forget(canonical) { // the database may have another one now
		x = exchange{}
		db, err = c.api.Database.Get(x.in(ctx), notionapi.DatabaseID(canonical))
	}
	if severalSources(err) {
		which, err := c.listSources(ctx, canonical)
		if err != nil {
			return Database{}, err
		}
		return Database{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: which}
	}
	if gone(err) && !c.sources.read(canonical) {
		if other := c.mistaken(ctx, canonical); other != nil {
			return Database{}, other
		}
	}
	if err != nil {
		return Database{}, storeError(err)
	}
	read := c.shown(canonical, db, &x)
	if db.Archived {
		return Database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"database %q is in the trash: restore it, or use another", read.Title)
	}
	return read, nil
}

// shown converts an answer to a Database.
func (c *Client) shown(id task.ID, db *notionapi.Database, x *exchange) Database {
	title := ""
	for _, s := range db.Title {
		title += s.PlainText
	}
	read := Database{ID: id, Title: cmp.Or(title, string(id)), Columns: x.columns}
	if said := c.sources.choice(id); !said.alone {
		read.Source = said.source
	}
	c.sources.remember(id, x.columns)
	return read
}

// Below returns the titles of the databases directly on a page, by their ids.
func (c *Client) Below(ctx context.Context, page task.ID) (map[task.ID]string, error) {
	below := make(map[task.ID]string)
	query := url.Values{"page_size": {"100"}}
	for {
		var blocks struct {
			Results []struct {
				ID            string `json:"id"`
				ChildDatabase *struct {
					Title string `json:"title"`
				} `json:"child_database"`
			} `json:"results"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.get(ctx, "/v1/blocks/"+string(page)+"/children", query, &blocks); err != nil {
			return nil, storeError(err)
		}
		for _, b := range blocks.Results {
			if b.ChildDatabase == nil {
				continue
			}
			id, err := task.ParseID(b.ID)
			if err != nil {
				return nil, storeError(err)
			}
			below[id] = b.ChildDatabase.Title
		}
		if !blocks.HasMore {
			return below, nil
		}
		if blocks.NextCursor == "" || blocks.NextCursor == query.Get("start_cursor") {
			return nil, storeError(errNoCursor)
		}
		query.Set("start_cursor", blocks.NextCursor)
	}
}

// NewColumn is a property to create.
type NewColumn struct {
	Name, Type string
	// Options are the options of a select or a status.
	Options []string
	// Groups are the groups of a status's options, by the options' names.
	Groups map[string]string
	// Prefix is the prefix of a unique_id; it may be empty.
	Prefix string
	// Expression is a formula's expression.
	Expression string
	// To is the target database of a relation; empty for its own.
	To task.ID
}

// CreateDatabase makes a database on a page, with one request that is sent at most once. If the
// error leaves open whether the database was made, call Below.
func (c *Client) CreateDatabase(ctx context.Context, page task.ID, title string, columns ...NewColumn) (Database, error) {
	var x exchange
	db, err := c.api.Database.Create(x.in(ctx), &notionapi.DatabaseCreateRequest{
		Parent:     notionapi.Parent{Type: notionapi.ParentTypePageID, PageID: notionapi.PageID(page)},
		Title:      new(spanWriter).write(title),
		Properties: c.configs("", columns),
	})
	if err != nil {
		return Database{}, storeError(err)
	}
	id, err := task.ParseID(db.ID.String())
	if err != nil {
		return Database{}, storeError(err)
	}
	if len(x.sources) == 1 { // the schema is in the data source
		c.sources.found(id, choice{source: x.sources[0].ID, alone: true})
		return c.Database(ctx, string(id))
	}
	return c.shown(id, db, &x), nil
}

// AddColumns adds the properties that the database lacks. It reads the database first, because a
// request for an existing property would change its type.
func (c *Client) AddColumns(ctx context.Context, id task.ID, columns ...NewColumn) (Database, error) {
	db, err := c.Database(ctx, string(id))
	if err != nil {
		return Database{}, err
	}
	var missing []NewColumn
	for _, col := range columns {
		if _, ok := db.Columns[col.Name]; !ok {
			missing = append(missing, col)
		}
	}
	if len(missing) == 0 {
		return db, nil
	}
	if db, err = c.updateSchema(ctx, id, c.configs(id, missing)); err != nil {
		return Database{}, err
	}
	for _, col := range missing {
		if db.Columns[col.Name].Type != col.Type {
			return db, claim.Errorf(claim.Refused, claim.LandedNo,
				"Notion accepted property %q of type %s and did not add it: add it by hand", col.Name, col.Type)
		}
	}
	return db, nil
}

// Extend adds the options of more to the select or status of that name, in the given groups. Notion
// removes options that a change does not name, so Extend reads the present ones right before. It
// loses an option that somebody adds between the two requests.
func (c *Client) Extend(ctx context.Context, id task.ID, more NewColumn) (Database, error) {
	column := more.Name
	db, err := c.Database(ctx, string(id))
	if err != nil {
		return Database{}, err
	}
	col, ok := db.Columns[column]
	if !ok || col.Type != typeSelect && col.Type != typeStatus {
		return Database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"property %q of database %q has no options to add to: it is neither a select nor a status", column, db.Title)
	}
	missing := lacking(col.Options, more.Options)
	if len(missing) == 0 {
		return db, nil
	}
	all := NewColumn{Name: column, Type: col.Type, Options: append(col.Options, missing...), Groups: make(map[string]string)}
	for _, name := range missing {
		all.Groups[name] = more.Groups[name]
	}
	if db, err = c.updateSchema(ctx, id, c.configs(id, []NewColumn{all})); err != nil {
		return Database{}, err
	}
	if left := lacking(db.Columns[column].Options, all.Options); len(left) > 0 {
		return db, claim.Errorf(claim.Refused, claim.LandedNo,
			"property %q has no option %s although Notion accepted it: add it by hand", column, quotedList(left))
	}
	return db, nil
}

func (c *Client) updateSchema(ctx context.Context, id task.ID, columns notionapi.PropertyConfigs) (Database, error) {
	var x exchange
	db, err := c.api.Database.Update(x.in(ctx), notionapi.DatabaseID(id), &notionapi.DatabaseUpdateRequest{Properties: columns})
	if err != nil {
		return Database{}, storeError(err)
	}
	return c.shown(id, db, &x), nil
}

// newColumn is the request for a property. The library's own lacks some types, and always sends the
// groups of a status.
type newColumn struct {
	NewColumn
	to map[string]string // a relation's target
}

// itself returns the target of a relation to a database.
func (c *Client) itself(id task.ID) map[string]string {
	if source := c.sources.of(id); source != "" {
		return map[string]string{"data_source_id": string(source)}
	}
	return map[string]string{"database_id": string(id)}
}

// configs makes a schema of columns. A new database has no id yet.
func (c *Client) configs(id task.ID, columns []NewColumn) notionapi.PropertyConfigs {
	schema := make(notionapi.PropertyConfigs, len(columns))
	for _, col := range columns {
		schema[col.Name] = newColumn{col, c.itself(cmp.Or(col.To, id))}
	}
	return schema
}

// GetID implements notionapi.PropertyConfig. A property to be made has none.
func (newColumn) GetID() notionapi.PropertyID { return "" }

// GetType implements notionapi.PropertyConfig.
func (n newColumn) GetType() notionapi.PropertyConfigType {
	return notionapi.PropertyConfigType(n.Type)
}

// MarshalJSON implements json.Marshaler.
func (n newColumn) MarshalJSON() ([]byte, error) {
	config := make(map[string]any)
	switch n.Type {
	case typeSelect, typeStatus:
		options := []map[string]string{}
		for _, name := range n.Options {
			option := map[string]string{"name": name}
			if group := n.Groups[name]; group != "" && n.Type == typeStatus {
				option["group"] = group
			}
			options = append(options, option)
		}
		config["options"] = options
	case typeFormula:
		config["expression"] = n.Expression
	case typeRelation:
		for key, id := range n.to {
			config[key] = id
		}
		config["type"] = "single_property"
		config["single_property"] = struct{}{}
	case typeUniqueID:
		if n.Prefix != "" {
			config["prefix"] = n.Prefix
		}
	}
	return json.Marshal(map[string]any{n.Type: config})
}
