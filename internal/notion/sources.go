package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// Source is a data source of a database: a schema, and the pages that follow it.
type Source struct {
	ID   task.ID
	Name string
}

// SourceError says that a database has several data sources and none is chosen. Pages with known
// ids can still be read and written.
type SourceError struct {
	// Database is the title of the database, and Sources are its data sources.
	Database string
	Sources  []Source
	// Wanted is the given name or id; empty if none was given.
	Wanted string
	// Key is the configuration key for Wanted; empty if there is none.
	Key string
}

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

// sources records the databases' data sources, and the API version that the server understands. The
// zero value knows no data source, and the library's version. It is safe for concurrent use.
type sources struct {
	mu      sync.Mutex
	version string             // empty for the library's
	choices map[task.ID]choice // by database
	several bool               // some database has, or may have, several data sources
	// ids are the ids of the databases' properties, without those of titles, which are all the
	// same. strange are the data sources among which none was recognised by its properties.
	ids     map[task.ID][]string
	strange map[task.ID]string
	// lasting are the data sources that are known to have been a database's only one, or to
	// have stood for it.
	lasting map[task.ID]task.ID
}

// choice is the data source that stands for a database.
type choice struct {
	wanted string  // the name or the id that was given; empty if none was
	key    string  // the key of the configuration that gives it
	source task.ID // the data source with it; empty until the database is read
	alone  bool    // it was the database's only one
}

// speaks returns the API version that the server last understood.
func (s *sources) speaks() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.version, apiVersion)
}

// speak records the API version that the server understands.
func (s *sources) speak(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// choose records the name or id given for a database's data source.
func (s *sources) choose(database task.ID, c choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.choices[database]; was.wanted == c.wanted {
		c.source, c.alone = was.source, was.alone
	}
	s.set(database, c)
}

func (s *sources) set(database task.ID, c choice) {
	if s.choices == nil {
		s.choices = make(map[task.ID]choice)
	}
	s.choices[database] = c
}

// found records a database's data source, unless another one was named meanwhile.
func (s *sources) found(database task.ID, c choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.choices[database]; ok {
		if was.wanted != c.wanted {
			return
		}
		c.key = was.key
	}
	s.set(database, c)
	s.several = s.several || !c.alone || c.wanted != ""
}

// forget forgets a data source that nobody named.
func (s *sources) forget(database task.ID) (forgotten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.choices[database]
	if c.source == "" || c.wanted != "" {
		return false
	}
	c.source, c.alone = "", false
	s.set(database, c)
	return true
}

func (s *sources) choice(database task.ID) choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choices[database]
}

// of returns a database's data source; empty if the database stands for itself.
func (s *sources) of(database task.ID) task.ID { return s.choice(database).source }

// open reports whether a name or an id was given whose data source has yet to be found.
func (s *sources) open(database task.ID) bool {
	c := s.choice(database)
	return c.wanted != "" && c.source == ""
}

// met records that a database has several data sources, and reports whether that is news.
func (s *sources) met() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.several
	s.several = true
	return !was
}

// known reports whether some database is known to have several data sources.
func (s *sources) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.several
}

// remember records the properties of a database.
func (s *sources) remember(database task.ID, columns map[string]Column) {
	var ids []string
	for _, col := range columns {
		if col.Type != typeTitle && col.ID != "" {
			ids = append(ids, col.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids, s.strange = make(map[task.ID][]string), make(map[task.ID]string)
	}
	s.ids[database] = ids
	delete(s.strange, database)
}

// read reports whether a database was read before.
func (s *sources) read(database task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids[database]) > 0
}

// recall records the properties that a database had in an earlier run.
func (s *sources) recall(database task.ID, columns taskColumns) {
	known := make(map[string]Column)
	for _, col := range columns.inUse() {
		known[col.ID] = col
	}
	s.remember(database, known)
}

// recognisable reports whether a database's data source can be recognised by its properties, or
// as its lasting one, where none was named.
func (s *sources) recognisable(database task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choices[database].wanted == "" && (len(s.ids[database]) > 0 || s.lasting[database] != "")
}

// properties returns the ids of a database's properties; none if no data source among these was
// recognised by them before.
func (s *sources) properties(database task.ID, among []Source) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strange[database] == fmt.Sprint(among) {
		return nil
	}
	return s.ids[database]
}

// unrecognised records data sources among which none was recognised.
func (s *sources) unrecognised(database task.ID, among []Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strange == nil {
		s.strange = make(map[task.ID]string)
	}
	s.strange[database] = fmt.Sprint(among)
}

// database returns the id under which pages of a data source are known here. If the data source
// stands for its database, that is the database's id. If another one stands for the database,
// it is the id of the data source itself, which is none of the databases in use.
func (s *sources) database(database, source string) string {
	if source == "" {
		return database
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := task.ParseID(source)
	for of, c := range s.choices {
		if c.source == id && id != "" {
			return string(of)
		}
	}
	if of, err := task.ParseID(database); err == nil && s.choices[of].source != "" {
		return source
	}
	return database
}

// Choose selects a database's data source by name or id; wanted is empty for a database with
// only one. key is the configuration key for it. Choose sends nothing: the data source is found
// when the database is next read, and stays the same until the next Choose.
func (c *Client) Choose(database task.ID, key, wanted string) {
	c.sources.choose(database, choice{wanted: strings.TrimSpace(wanted), key: key})
}

// findSource finds the data source that Choose named, with one request. It does nothing if
// Choose named none, or if the data source is known.
func (c *Client) findSource(ctx context.Context, database task.ID) error {
	if !c.sources.open(database) {
		return nil
	}
	said := c.sources.choice(database)
	source, err := c.FindSource(ctx, database, said.key, said.wanted)
	if err != nil {
		return err
	}
	c.sources.found(database, choice{wanted: said.wanted, key: said.key, source: source.ID})
	return nil
}

// FindSource finds the data source that Choose would select with the same arguments, with one
// request. The error is a *SourceError if there is none, or more than one.
func (c *Client) FindSource(ctx context.Context, database task.ID, key, wanted string) (Source, error) {
	unclear, err := c.listSources(ctx, database)
	if err != nil {
		return Source{}, err
	}
	unclear.Key, unclear.Wanted = key, strings.TrimSpace(wanted)
	return unclear.pick()
}

// SourceOf reads a page's data source; empty if it has none.
func (c *Client) SourceOf(ctx context.Context, page task.ID) (task.ID, error) {
	var x exchange
	var shown struct{}
	if err := c.getIn(x.in(ctx), sourcesVersion, "/v1/pages/"+string(page), nil, &shown); err != nil {
		return "", storeError(err)
	}
	id, err := task.ParseID(x.source)
	if x.source != "" && err != nil {
		return "", storeError(err)
	}
	return id, nil
}

// listSources reads a database's data sources, and returns them as the error that asks for a
// choice.
func (c *Client) listSources(ctx context.Context, database task.ID) (*SourceError, error) {
	var x exchange
	var shown struct {
		Title []span `json:"title"`
	}
	if err := c.getIn(x.in(ctx), sourcesVersion, "/v1/databases/"+string(database), nil, &shown); err != nil {
		return nil, storeError(err)
	}
	said := c.sources.choice(database)
	unclear := &SourceError{Sources: x.sources, Wanted: said.wanted, Key: said.key}
	for _, s := range shown.Title {
		unclear.Database += s.PlainText
	}
	return unclear, nil
}

// multipleSources is the error type of an answer in an API version that knows only one data
// source for a database, about a database that has several.
const multipleSources = "multiple_data_sources_for_database"

// severalSources reports whether a request failed because a database has several
// data sources.
func severalSources(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.Data("error_type") == multipleSources
}

// unclear reports whether an error says that a database has several data sources and none is
// chosen.
func unclear(err error) bool {
	_, isWhich := errors.AsType[*SourceError](err)
	return isWhich
}
