package notion

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

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
	var made rawSchema
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

// mostViews is how many views of a database are examined.
const mostViews = 10

// HasBoard reports whether one of a database's first views is of type board. It makes one
// request for the list, and up to one for each view.
func (c *Client) HasBoard(ctx context.Context, database task.ID) (bool, error) {
	type view struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	var listed struct {
		Results []view `json:"results"`
	}
	query := url.Values{"database_id": {string(database)}, "page_size": {fmt.Sprint(mostViews)}}
	if err := c.get(ctx, "/v1/views", query, &listed); err != nil {
		return false, storeError(err)
	}
	for _, v := range listed.Results {
		if v.Type == "" { // the list may have only references
			if err := c.get(ctx, "/v1/views/"+url.PathEscape(v.ID), nil, &v); err != nil {
				return false, storeError(err)
			}
		}
		if v.Type == "board" {
			return true, nil
		}
	}
	return false, nil
}

// AddBoard adds a view of type board to a database, with a column for each option of the
// property, which is a status or a select. Its last request makes the view and is
// sent at most once.
func (c *Client) AddBoard(ctx context.Context, database task.ID, name, property string) error {
	db, err := c.Database(ctx, string(database))
	if err != nil {
		return err
	}
	col := db.Columns[property]
	group := map[string]any{"type": col.Type, "property_id": col.ID, "sort": map[string]any{"type": "manual"}}
	if col.Type == typeStatus {
		group["group_by"] = "option"
	}
	err = c.post(ctx, "/v1/views", map[string]any{
		"database_id": database, "data_source_id": db.Source, "name": name, "type": "board",
		"configuration": map[string]any{"type": "board", "group_by": group},
	}, nil)
	if err != nil {
		return storeError(err)
	}
	return nil
}
