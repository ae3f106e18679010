package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Database describes a database, as its data source that is used shows it.
type Database struct {
	ID task.ID
	// Source is the data source, and Title is its title.
	Source  task.ID
	Title   string
	Columns map[string]Column // by name
}

// Column is a property of a database, with the part of its schema that is used here.
type Column struct {
	ID   string
	Name string
	Type string
	// Options are the names of the options of a select, multi-select or status.
	Options []string
	// as are the names of the property and its options in Notion, where these are not in form C, by
	// those in form C.
	as map[string]string
	// OptionIDs are the ids of options, by their names.
	OptionIDs map[string]string `json:",omitempty"`
	// Groups are the groups of a status's options, by their names: To-do, In progress or Complete,
	// whatever the language.
	Groups map[string]string `json:"-"`
	// Source is the data source that a relation relates to.
	Source task.ID `json:",omitempty"`
}

// schema is the part of an answer about a database or a data source that is read here.
type schema struct {
	Object     string                     `json:"object"`
	ID         string                     `json:"id"`
	Title      rawTitle                   `json:"title"`
	Archived   bool                       `json:"archived"`
	InTrash    bool                       `json:"in_trash"`
	Properties map[string]json.RawMessage `json:"properties"` // of a data source
	Parent     struct {
		Database string `json:"database_id"`
	} `json:"parent"` // of a data source
	Sources []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"data_sources"` // of a database
}

func (s *schema) kind() string { return s.Object }

// columns returns the known parts of a schema. A property of a new type has few of them.
func (s *schema) columns() map[string]Column {
	columns := make(map[string]Column, len(s.Properties))
	for given, data := range s.Properties {
		col := Column{Name: task.Name(given)}
		col.known(given)
		var raw map[string]json.RawMessage
		var config struct {
			Options []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"options"`
			Groups []struct {
				Name      string   `json:"name"`
				OptionIDs []string `json:"option_ids"`
			} `json:"groups"`
			Source string `json:"data_source_id"`
		}
		if json.Unmarshal(data, &raw) == nil && json.Unmarshal(raw["id"], &col.ID) == nil && json.Unmarshal(raw["type"], &col.Type) == nil &&
			json.Unmarshal(raw[col.Type], &config) == nil {
			col.Source, _ = task.ParseID(config.Source)
			for _, o := range config.Options {
				o.Name = col.known(o.Name)
				col.Options = append(col.Options, o.Name)
				if o.ID != "" {
					if col.OptionIDs == nil {
						col.OptionIDs = make(map[string]string, len(config.Options))
					}
					col.OptionIDs[o.Name] = o.ID
				}
				for _, g := range config.Groups {
					if slices.Contains(g.OptionIDs, o.ID) {
						if col.Groups == nil {
							col.Groups = make(map[string]string, len(config.Options))
						}
						col.Groups[o.Name] = g.Name
					}
				}
			}
		}
		columns[col.Name] = col
	}
	return columns
}

// known returns a name of the property, or of one of its options, in form C, and remembers how Notion
// has it.
func (col *Column) known(given string) string {
	name := task.Name(given)
	if name != given {
		if col.as == nil {
			col.as = make(map[string]string)
		}
		col.as[name] = given
	}
	return name
}

// inNotion returns a name of the property, or of one of its options, as Notion has it.
func (col Column) inNotion(name string) string { return cmp.Or(col.as[name], name) }

// Database reads a database, by its id or URL, with one request, and another one if its data source
// is not known yet. The error is a *SourceError if it is not clear which data source is meant.
func (c *Client) Database(ctx context.Context, id string) (Database, error) {
	canonical, err := task.ParseID(id)
	if err != nil {
		return Database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"%q is not the id of a database: give its id or its URL", id)
	}
	known, key := c.sources.of(canonical)
	db, err := c.database(ctx, canonical)
	if known == (Choice{}) || !gone(err) && !errors.Is(err, errTrashed) && !errors.Is(err, errElsewhere) {
		return db, err
	}
	// The database may have another one now, or one whose name looks like an id.
	named, _ := task.ParseID(known.Wanted)
	if another, ferr := c.find(ctx, canonical, key, known.Wanted); ferr != nil || another == cmp.Or(known.Source, named) {
		return db, cmp.Or(ferr, err)
	}
	return c.database(ctx, canonical)
}

func (c *Client) database(ctx context.Context, id task.ID) (Database, error) {
	source, err := c.source(ctx, id)
	if err != nil {
		return Database{}, err
	}
	db, trashed, err := c.schema(ctx, id, source, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Database.Get(ctx, notionapi.DatabaseID(source))
		return err
	})
	if err == nil && trashed {
		err = trashedError(db.Title)
	}
	if err == nil {
		choice, _ := c.sources.of(id)
		c.sources.set(id, Choice{choice.Wanted, source})
	}
	return db, err
}

// schema makes a request whose answer shows the data source of a database.
func (c *Client) schema(ctx context.Context, database, source task.ID, do func(context.Context, *notionapi.Client) error) (db Database, trashed bool, err error) {
	var shown schema
	if _, err := c.call(ctx, &shown, do); err != nil {
		return Database{}, false, storeError(err)
	}
	title := cmp.Or(plainText(shown.Title), string(database))
	if of, err := task.ParseID(shown.Parent.Database); err == nil && of != database {
		return Database{}, false, claim.Errorf(claim.Refused, claim.LandedNo, "data source %q %w %s, not of %s", title, errElsewhere, of, database)
	}
	return Database{ID: database, Source: source, Title: title, Columns: shown.columns()}, shown.Archived || shown.InTrash, nil
}

// errElsewhere is part of the error of a data source that belongs to another database.
var errElsewhere = errors.New("is one of database")

// errTrashed is part of the error of a database that cannot be used because it, or its data source, is
// in the trash.
var errTrashed = errors.New("is in the trash")

func trashedError(title string) error {
	return claim.Errorf(claim.Refused, claim.LandedNo, "database %q, its data source, or the page that it lies on, %w: restore it, or use another", title, errTrashed)
}

// above returns an error if a database is in the trash, or the page that it lies on. What cannot be
// read there does not count.
func (c *Client) above(ctx context.Context, database task.ID, title string) error {
	path := "/v1/databases/" + string(database)
	for range 2 {
		var shown struct {
			Archived bool `json:"archived"`
			InTrash  bool `json:"in_trash"`
			Parent   struct {
				Page string `json:"page_id"`
			} `json:"parent"`
		}
		if err := c.get(ctx, path, nil, &shown); err != nil {
			if failed := storeError(err); failed.Kind == claim.Unavailable {
				return failed
			}
			return nil
		}
		if shown.Archived || shown.InTrash {
			return trashedError(title)
		}
		if shown.Parent.Page == "" {
			return nil
		}
		path = "/v1/pages/" + url.PathEscape(shown.Parent.Page)
	}
	return nil
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
	schema, err := c.configs(ctx, "", columns)
	if err != nil {
		return Database{}, err
	}
	id, err := c.create(ctx, &notionapi.DatabaseCreateRequest{
		Parent:     notionapi.Parent{Type: notionapi.ParentTypePageID, PageID: notionapi.PageID(page)},
		Title:      new(spanWriter).write(title),
		Properties: schema,
	})
	if err != nil {
		return Database{}, err
	}
	db, err := c.Database(ctx, string(id)) // the schema is in the data source
	if err != nil {
		failed := *storeError(err)
		failed.Landed, failed.Err = claim.LandedYes, fmt.Errorf("database %q was made, with the id %s, and cannot be read: %w", title, id, failed.Err)
		return Database{}, &failed
	}
	return db, nil
}

func (c *Client) create(ctx context.Context, request *notionapi.DatabaseCreateRequest) (task.ID, error) {
	var made schema
	_, err := c.call(ctx, &made, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Database.Create(ctx, request)
		return err
	})
	if err != nil {
		return "", storeError(err)
	}
	id, err := task.ParseID(made.ID)
	if err != nil {
		return "", storeError(err)
	}
	if len(made.Sources) == 1 {
		if source, err := task.ParseID(made.Sources[0].ID); err == nil {
			c.sources.set(id, Choice{Source: source})
		}
	}
	return id, nil
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
	if db, err = c.updateSchema(ctx, db, missing); err != nil {
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
	all := NewColumn{Name: col.inNotion(col.Name), Type: col.Type, Groups: make(map[string]string)}
	for _, name := range slices.Concat(col.Options, missing) {
		all.Options = append(all.Options, col.inNotion(name))
	}
	for _, name := range missing {
		all.Groups[name] = more.Groups[name]
	}
	if db, err = c.updateSchema(ctx, db, []NewColumn{all}); err != nil {
		return Database{}, err
	}
	if left := lacking(db.Columns[column].Options, slices.Concat(col.Options, missing)); len(left) > 0 {
		return db, claim.Errorf(claim.Refused, claim.LandedNo,
			"property %q has no option %s although Notion accepted it: add it by hand", column, quotedList(left))
	}
	return db, nil
}

func (c *Client) updateSchema(ctx context.Context, of Database, columns []NewColumn) (Database, error) {
	schema, err := c.configs(ctx, of.Source, columns)
	if err != nil {
		return Database{}, err
	}
	db, _, err := c.schema(ctx, of.ID, of.Source, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Database.Update(ctx, notionapi.DatabaseID(of.Source), &notionapi.DatabaseUpdateRequest{Properties: schema})
		return err
	})
	return db, err
}

// newColumn is the request for a property. The library's own lacks some types, and always sends the
// groups of a status.
type newColumn struct {
	NewColumn
	to task.ID // the data source that a relation relates to
}

// configs makes a schema of columns, for a data source or for a new database, which has none yet.
func (c *Client) configs(ctx context.Context, own task.ID, columns []NewColumn) (notionapi.PropertyConfigs, error) {
	schema := make(notionapi.PropertyConfigs, len(columns))
	for _, col := range columns {
		to := own
		if col.To != "" {
			var err error
			if to, err = c.source(ctx, col.To); err != nil {
				return nil, err
			}
		}
		schema[col.Name] = newColumn{col, to}
	}
	return schema, nil
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
		config["data_source_id"] = n.to
		config["type"] = "single_property"
		config["single_property"] = struct{}{}
	case typeUniqueID:
		if n.Prefix != "" {
			config["prefix"] = n.Prefix
		}
	}
	return json.Marshal(map[string]any{n.Type: config})
}
