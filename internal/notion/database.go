package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Source is a data source of a database: a schema, and the pages that follow it.
type Source struct {
	ID   task.ID
	Name string
}

// SourceError says that it is not known which data source of a database is meant.
type SourceError struct {
	// Database is the title of the database, and Sources are its data sources.
	Database string
	Sources  []Source
	// Wanted is the given name or id; empty if none was given.
	Wanted string
	// Key is the configuration key for Wanted; empty if there is none.
	Key string
}

// Setting returns the key of the setting that has to be given; empty if there is none.
func (e *SourceError) Setting() string { return e.Key }

func (e *SourceError) Error() string {
	database := fmt.Sprintf("database %q", transport.Excerpt(e.Database))
	namesakes := meant(e.Sources, e.Wanted)
	switch {
	case e.Key == "":
		return fmt.Sprintf("%s has several data sources, %s: move all but one to databases of their own", database, listSources(e.Sources))
	case e.Wanted == "":
		return fmt.Sprintf("%s has several data sources, %s: set %s to the name or the id of the one that is meant", database, listSources(e.Sources), e.Key)
	case len(namesakes) > 1:
		return fmt.Sprintf("%s has several data sources of the name %q, %s: set %s to the id of the one that is meant",
			database, transport.Excerpt(e.Wanted), listSources(namesakes), e.Key)
	default:
		return fmt.Sprintf("%s has no data source %q, only %s: set %s to the name or the id of one of them",
			database, transport.Excerpt(e.Wanted), listSources(e.Sources), e.Key)
	}
}

// mostListed is the most data sources listed in a message. Nobody has as many.
const mostListed = 20

// listSources lists data sources in a sentence, each with its id, since names may be equal.
func listSources(sources []Source) string {
	var names []string
	for i, s := range sources {
		if i == mostListed {
			names = append(names, fmt.Sprintf("%d more", len(sources)-i))
			break
		}
		names = append(names, fmt.Sprintf("%q (%s)", transport.Excerpt(s.Name), s.ID))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// meant returns the data sources that wanted may mean: the one with that id, in any spelling,
// or else those with that name.
func meant(sources []Source, wanted string) []Source {
	if id, err := task.ParseID(wanted); err == nil {
		if i := slices.IndexFunc(sources, func(s Source) bool { return s.ID == id }); i >= 0 {
			return sources[i : i+1]
		}
	}
	return slices.DeleteFunc(slices.Clone(sources), func(s Source) bool { return s.Name != wanted })
}

// pick returns the data source: the named one, or the only one.
func (e *SourceError) pick() (Source, error) {
	which := e.Sources
	switch {
	case len(which) == 0:
		return Source{}, claim.Errorf(claim.Refused, claim.LandedNo, "database %q shows no data source: %s", transport.Excerpt(e.Database), hiddenAdvice)
	case e.Wanted != "":
		which = meant(which, e.Wanted)
	}
	if len(which) != 1 {
		return Source{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: e}
	}
	return which[0], nil
}

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
	var shown rawSchema
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

// Choose selects a database's data source by name or id; wanted is empty for a database with
// only one. key is the configuration key for it. Choose sends nothing: the data source is found
// when the database is next read, and stays the same until the next Choose.
func (c *Client) Choose(database task.ID, key, wanted string) {
	c.sources.mu.Lock()
	defer c.sources.mu.Unlock()
	wanted = strings.TrimSpace(wanted)
	c.sources.keys[database] = key
	if was, ok := c.sources.used[database]; !ok || was.Wanted != wanted {
		c.sources.used[database] = Choice{Wanted: wanted}
	}
}

// Sources returns the data sources that are used, by database, as far as they are known.
func (c *Client) Sources() map[task.ID]Choice {
	c.sources.mu.Lock()
	defer c.sources.mu.Unlock()
	known := maps.Clone(c.sources.used)
	maps.DeleteFunc(known, func(_ task.ID, c Choice) bool { return c.Source == "" })
	return known
}

// RecallSources gives the client the result of Sources from an earlier run. It sends nothing. Call
// it after Choose: what was found under another name does not count.
func (c *Client) RecallSources(known map[task.ID]Choice) {
	for database, choice := range known {
		c.sources.set(database, choice)
	}
}

// source returns the data source of a database that is used. If it is neither known nor named by its
// id, source asks Notion, with one request. The error is a *SourceError if it is not clear which one is
// meant.
func (c *Client) source(ctx context.Context, database task.ID) (task.ID, error) {
	choice, key := c.sources.of(database)
	if choice.Source != "" {
		return choice.Source, nil
	}
	if named, err := task.ParseID(choice.Wanted); err == nil {
		return named, nil // whoever reads its schema finds out whether it is the database's
	}
	return c.find(ctx, database, key, choice.Wanted)
}

// find finds the data source of a database, and uses it from then on.
func (c *Client) find(ctx context.Context, database task.ID, key, wanted string) (task.ID, error) {
	found, err := c.FindSource(ctx, database, key, wanted)
	if gone(err) {
		if other := c.mistaken(ctx, database, key); other != nil {
			return "", other
		}
	}
	if err != nil {
		return "", err
	}
	c.sources.set(database, Choice{wanted, found.ID})
	return found.ID, nil
}

// FindSource finds the data source that Choose would select with the same arguments, with one
// request.
func (c *Client) FindSource(ctx context.Context, database task.ID, key, wanted string) (Source, error) {
	var shown rawSchema
	if err := c.get(transport.WithoutPermits(ctx), "/v1/databases/"+string(database), nil, &shown); err != nil {
		return Source{}, storeError(err)
	}
	list := SourceError{Database: plainText(shown.Title), Wanted: strings.TrimSpace(wanted), Key: key}
	for _, s := range shown.Sources {
		id, err := task.ParseID(s.ID)
		if err != nil {
			return Source{}, storeError(err)
		}
		list.Sources = append(list.Sources, Source{id, s.Name})
	}
	found, err := list.pick()
	if err == nil && (shown.Archived || shown.InTrash) {
		err = trashedError(list.Database)
	}
	return found, err
}

// SourceOf reads a page's data source; empty if it has none.
func (c *Client) SourceOf(ctx context.Context, id task.ID) (task.ID, error) {
	shown, err := c.page(ctx, id)
	if err != nil {
		return "", err
	}
	source, _ := task.ParseID(shown.Parent.Source)
	return source, nil
}

// unclear reports whether an error says that a database has several data sources and none is
// chosen.
func unclear(err error) bool {
	_, isWhich := errors.AsType[*SourceError](err)
	return isWhich
}

// mistaken returns an error that says what an id is, if it is no database's, with two more requests
// at most. It returns nil if that is unknown: a database that is not shared looks like one that
// does not exist.
func (c *Client) mistaken(ctx context.Context, id task.ID, key string) error {
	var source struct {
		Object string   `json:"object"`
		Title  rawTitle `json:"title"`
		Parent struct {
			Database string `json:"database_id"`
		} `json:"parent"`
	}
	if c.get(ctx, "/v1/data_sources/"+string(id), nil, &source) == nil {
		of, err := task.ParseID(source.Parent.Database)
		if err != nil {
			return nil
		}
		if key == "" {
			key = "the key with _source behind its name"
		}
		return refusedID(fmt.Sprintf("%s is the id of the data source %q, not of a database: use that of its database, %s, and if the database has several data sources set %s to the one that you gave",
			id, transport.Excerpt(plainText(source.Title)), of, key))
	}
	var page struct {
		Object string `json:"object"`
	}
	if c.get(ctx, "/v1/pages/"+string(id), nil, &page) == nil {
		return refusedID(fmt.Sprintf("%s is the id of a page, not of a database: open the database as a page of its own, and copy the id from its URL", id))
	}
	return nil
}

func refusedID(says string) error {
	return claim.Errorf(claim.Refused, claim.LandedNo, "%s", says)
}
