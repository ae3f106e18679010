package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
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
		return fmt.Sprintf("%s has several data sources, %s: move all but one to databases of their own", database, listed(e.Sources))
	case e.Wanted == "":
		return fmt.Sprintf("%s has several data sources, %s: set %s to the name or the id of the one that is meant", database, listed(e.Sources), e.Key)
	case len(namesakes) > 1:
		return fmt.Sprintf("%s has several data sources of the name %q, %s: set %s to the id of the one that is meant",
			database, transport.Excerpt(e.Wanted), listed(namesakes), e.Key)
	default:
		return fmt.Sprintf("%s has no data source %q, only %s: set %s to the name or the id of one of them",
			database, transport.Excerpt(e.Wanted), listed(e.Sources), e.Key)
	}
}

// mostListed is the most data sources listed in a message. Nobody has as many.
const mostListed = 20

// listed lists data sources in a sentence, each with its id, since names may be equal.
func listed(sources []Source) string {
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
		return Source{}, claim.Errorf(claim.Refused, claim.LandedNo, "database %q shows no data source: %s", transport.Excerpt(e.Database), hidden)
	case e.Wanted != "":
		which = meant(which, e.Wanted)
	}
	if len(which) != 1 {
		return Source{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: e}
	}
	return which[0], nil
}

// Choice is the data source of a database that is used.
type Choice struct {
	Wanted string  `json:",omitempty"` // the name or the id that was given; empty if none was
	Source task.ID // empty until it is found
}

// UnmarshalJSON implements json.Unmarshaler. A string is the form in which an earlier version of dibs
// kept a data source that nobody had named.
func (c *Choice) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.Source) == nil {
		return nil
	}
	type fields Choice
	return json.Unmarshal(data, (*fields)(c))
}

// sources records which data source of each database is used. It is safe for concurrent use.
type sources struct {
	mu   sync.Mutex
	keys map[task.ID]string // the configuration's keys for the data sources, by database
	used map[task.ID]Choice
}

func (s *sources) of(database task.ID) (c Choice, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[database], s.keys[database]
}

// set records the data source of a database, unless another one was named meanwhile.
func (s *sources) set(database task.ID, c Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.used[database]; !ok || was.Wanted == c.Wanted {
		s.used[database] = c
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
	var shown schema
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

// Holds reports whether these are the database and the data source of the tasks. Either may be
// empty: unknown.
func (t *Tasks) Holds(database, source task.ID) bool {
	c := t.codec.Load()
	if source != "" {
		return source == c.source
	}
	return database == c.database
}

// unclear reports whether an error says that a database has several data sources and none is
// chosen.
func unclear(err error) bool {
	_, isWhich := errors.AsType[*SourceError](err)
	return isWhich
}
