package notion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// source makes a data source stand for its database, and speaks an API version that the server
// understands.
//
// If a data source stands for a database, requests for the database go to the data source, in
// an API version that knows data sources. The answer is turned back into that of a database.
// Once some database has several data sources, pages are read and written in that version, too:
// the older one refuses to make pages in such a database, or to relate to them. Those answers
// name the data source of a page; repair names its database instead.
//
// If the server does not take the library's version, all requests go out in a later one, and a
// data source stands for every database: the only one, or the chosen one.
type source struct {
	next    http.RoundTripper
	sources *sources
	heard   func(version string) // called with the version that the server understands; may be nil
	log     *slog.Logger         // may be nil
}

func (s *source) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := repeatable(req)
	if err != nil {
		return nil, transport.Unsent(req, err)
	}
	var refused error
	tried := make(map[string]bool) // versions actually sent
	for i, version := range toTry(s.sources.speaks()) {
		sent := max(version, req.Header.Get("Notion-Version"))
		if tried[sent] {
			continue
		}
		tried[sent] = true
		resp, err := s.in(req, version)
		if !errors.Is(err, errNewer) && !refusesVersion(req, err) {
			_, isAnswered := errors.AsType[*APIError](err)
			if i > 0 && (err == nil || isAnswered) {
				s.sources.speak(version)
				if s.heard != nil {
					s.heard(version)
				}
			}
			return resp, err
		}
		refused = err
	}
	return nil, errVersions(refused)
}

// in sends a request in a version of the API. If it is refused because a database has several
// data sources, in sends it again to the right one, if that is known.
func (s *source) in(req *http.Request, version string) (*http.Response, error) {
	resp, err := s.once(req, version)
	if !severalSources(err) || req.Header.Get("Notion-Version") != apiVersion || version != apiVersion {
		return resp, err
	}
	news := s.sources.met()
	path := pathOf(req)
	switch {
	case path[0] == "pages" && news:
		return s.once(req, version) // pages are written in another version from now on
	case path[0] == "databases" && len(path) > 1:
		database, perr := task.ParseID(path[1])
		if perr != nil || !s.sources.recognisable(database) {
			return resp, err
		}
		if _, ferr := s.find(req, version, database); ferr != nil {
			return resp, err
		}
		return s.once(req, version)
	}
	return resp, err
}

func (s *source) once(req *http.Request, version string) (*http.Response, error) {
	req, err := anew(req)
	if err != nil {
		return nil, transport.Unsent(req, err)
	}
	out, database, err := s.directed(req, version)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	asks := asksDatabase(out)
	resp, err := s.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if asks && newer(resp) {
		return nil, errNewer
	}
	if database == "" {
		return resp, nil
	}
	body, err := transport.Body(resp)
	if err == nil {
		body, err = asDatabase(body, database)
	}
	if err != nil {
		return nil, transport.Unread(out, err)
	}
	return transport.WithBody(resp, body), nil
}

func pathOf(req *http.Request) []string {
	return strings.Split(strings.TrimPrefix(req.URL.Path, "/v1/"), "/")
}

// directed returns the request as it goes out. database is set if the answer will show a data
// source and must be turned into that of this database.
func (s *source) directed(req *http.Request, version string) (out *http.Request, database task.ID, err error) {
	if asked := req.Header.Get("Notion-Version"); asked != apiVersion {
		return inVersion(req, max(asked, version)), "", nil // whoever made it knows what to ask for
	}
	later := version != apiVersion
	switch path := pathOf(req); {
	case path[0] == "pages" && (later || s.sources.known()):
		out = inVersion(req, max(sourcesVersion, version))
		switch {
		case req.Method == http.MethodPost && len(path) == 1:
			out, err = shaped(out, func(page map[string]json.RawMessage) error { return s.intoSource(req, version, page) })
		case req.Method == http.MethodPatch && version >= trashVersion:
			out, err = shaped(out, intoTrash)
		}
		return out, "", err
	case path[0] == "databases" && len(path) == 1 && later:
		out, err = shaped(inVersion(req, version), withSource)
		return out, "", err
	case path[0] == "databases" && len(path) > 1:
		id, perr := task.ParseID(path[1])
		if perr != nil {
			return inVersion(req, version), "", nil
		}
		chosen := s.sources.of(id)
		if chosen == "" && later {
			if chosen, err = s.find(req, version, id); err != nil {
				return nil, "", err
			}
		}
		if chosen == "" {
			return req, "", nil
		}
		path[0], path[1] = "data_sources", string(chosen)
		out = inVersion(req, max(sourcesVersion, version))
		if out == req {
			out = req.Clone(req.Context())
		}
		out.URL.Path, out.URL.RawPath = "/v1/"+strings.Join(path, "/"), ""
		if len(path) == 2 { // for a longer path, the answer is a list of pages
			database = id
		}
		return out, database, nil
	}
	return inVersion(req, version), "", nil
}

// shaped calls reshaped, and returns its own errors as those of an unsent request.
func shaped(req *http.Request, change func(map[string]json.RawMessage) error) (*http.Request, error) {
	out, err := reshaped(req, change)
	_, already := errors.AsType[*claim.StoreError](err)
	_, answered := errors.AsType[*APIError](err)
	_, failed := errors.AsType[*transport.SendError](err)
	if err == nil || already || answered || failed {
		return out, err
	}
	return nil, transport.Unsent(req, err)
}

// intoTrash replaces archived by in_trash.
func intoTrash(page map[string]json.RawMessage) error {
	if archived, ok := page["archived"]; ok {
		page["in_trash"] = archived
		delete(page, "archived")
	}
	return nil
}

// withSource moves the schema of a new database into its data source.
func withSource(database map[string]json.RawMessage) (err error) {
	if schema, ok := database["properties"]; ok {
		database["initial_data_source"], err = json.Marshal(map[string]json.RawMessage{"properties": schema})
		delete(database, "properties")
	}
	return err
}

// intoSource makes the data source that stands for its database the parent of a new page, as
// the versions that know data sources require.
func (s *source) intoSource(req *http.Request, version string, page map[string]json.RawMessage) error {
	var parent struct {
		Database task.ID `json:"database_id"`
	}
	if err := json.Unmarshal(page["parent"], &parent); err != nil {
		return fmt.Errorf("the parent of a page to be made: %w", err)
	}
	if parent.Database == "" {
		return nil
	}
	chosen, err := s.find(req, version, parent.Database)
	if err != nil {
		return err
	}
	page["parent"], err = json.Marshal(map[string]string{"type": "data_source_id", "data_source_id": string(chosen)})
	return err
}

// asDatabase turns an answer that shows a data source into one that shows a database.
// It leaves any other answer as it is.
func asDatabase(body []byte, database task.ID) ([]byte, error) {
	var shown map[string]json.RawMessage
	if json.Unmarshal(body, &shown) != nil || !bytes.Equal(shown["object"], []byte(`"data_source"`)) {
		return body, nil
	}
	shown["object"] = json.RawMessage(`"database"`)
	var err error
	if shown["id"], err = json.Marshal(database); err != nil {
		return nil, err
	}
	return json.Marshal(shown)
}
