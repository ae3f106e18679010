package notion

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// find returns a database's data source. If it is unknown, find asks Notion, with the credentials
// of req.
func (s *source) find(req *http.Request, version string, database task.ID) (task.ID, error) {
	if chosen := s.sources.of(database); chosen != "" {
		return chosen, nil
	}
	var shown struct {
		Object  string `json:"object"`
		Title   []span `json:"title"`
		Sources []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"data_sources"`
	}
	if err := s.ask(req, version, "/v1/databases/"+string(database), &shown); err != nil {
		return "", err
	}
	said := s.sources.choice(database)
	list := &SourceError{Wanted: said.wanted, Key: said.key}
	for _, t := range shown.Title {
		list.Database += t.PlainText
	}
	for _, one := range shown.Sources {
		id, err := task.ParseID(one.ID)
		if err != nil {
			return "", transport.Unread(req, err)
		}
		list.Sources = append(list.Sources, Source{id, one.Name})
	}
	found, err := list.pick()
	alone := len(list.Sources) == 1
	if err != nil {
		if found, err = s.recognise(req, version, database, list); err != nil {
			return "", err
		}
	}
	s.sources.found(database, choice{wanted: said.wanted, key: said.key, source: found.ID, alone: alone})
	return found.ID, nil
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

// recognise returns, of several data sources, the one that the database used before, or else the
// one with properties that the database had then: the ids of properties never change. It asks only
// once about the same data sources.
func (s *source) recognise(req *http.Request, version string, database task.ID, list *SourceError) (Source, error) {
	unclear := &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: list}
	lasted := func(one Source) bool { return one.ID == s.sources.lasted(database) }
	if i := slices.IndexFunc(list.Sources, lasted); i >= 0 && list.Wanted == "" {
		return s.goesOn(list, list.Sources[i]), nil
	}
	ids := s.sources.properties(database, list.Sources)
	if list.Wanted != "" || len(ids) == 0 || len(list.Sources) > mostListed {
		return Source{}, unclear
	}
	var ours []Source
	for _, one := range list.Sources {
		var shown struct {
			Object     string                     `json:"object"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := s.ask(req, version, "/v1/data_sources/"+string(one.ID), &shown); err != nil {
			return Source{}, err
		}
		for _, data := range shown.Properties {
			var p struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(data, &p) == nil && slices.Contains(ids, p.ID) {
				ours = append(ours, one)
				break
			}
		}
	}
	if len(ours) != 1 {
		s.sources.unrecognised(database, list.Sources)
		return Source{}, unclear
	}
	s.sources.last(database, ours[0].ID)
	return s.goesOn(list, ours[0]), nil
}

// goesOn logs that one of several data sources stays in use, and returns it.
func (s *source) goesOn(list *SourceError, one Source) Source {
	if s.log != nil {
		s.log.Warn("a database has several data sources now; the one that it had goes on being used",
			"database", list.Database, "data_source", fmt.Sprintf("%q (%s)", one.Name, one.ID), "setting", list.Key)
	}
	return one
}

// ask makes a request with the credentials of req, in a version that knows data sources.
func (s *source) ask(req *http.Request, version, path string, answer any) error {
	out, err := http.NewRequestWithContext(transport.WithoutPermits(req.Context()), http.MethodGet, transport.DefaultBaseURL+path, nil)
	if err != nil {
		return transport.Unsent(req, err)
	}
	out.Header.Set("Authorization", req.Header.Get("Authorization"))
	out.Header.Set("Notion-Version", max(sourcesVersion, version))
	resp, err := s.next.RoundTrip(out)
	if err != nil {
		return err
	}
	body, err := transport.Body(resp)
	if err == nil {
		err = json.Unmarshal(body, answer)
	}
	if err != nil {
		return transport.Unread(out, err)
	}
	return nil
}

// Holds reports whether these are the database and the data source of the tasks. Either may be
// empty: unknown. As long as it is not known which data source of the database is meant, all are.
func (t *Tasks) Holds(database, source task.ID) bool {
	own := t.codec.Load().database
	known := t.client.sources.of(own)
	if known == "" {
		t.mu.Lock()
		known = t.only
		t.mu.Unlock()
	}
	if known != "" && source != "" {
		return source == known
	}
	return database == own
}
