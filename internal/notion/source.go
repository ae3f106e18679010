package notion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// source lets a data source stand for its database. If a data source was chosen for a
// database, what the library asks of the database is asked of the data source, in the
// version of the API that knows of data sources. The answer is made that of a database
// again.
//
// Once there is such a database, pages are read and written in that version, too: the
// older one refuses to make pages of such a database, or to relate to them. Those
// answers name the data source that a page is in; repair names its database instead.
type source struct {
	next    http.RoundTripper
	sources *sources
}

func (s *source) RoundTrip(req *http.Request) (*http.Response, error) {
	out, database, err := s.directed(req)
	if err != nil {
		return nil, transport.Unsent(req, err)
	}
	resp, err := s.next.RoundTrip(out)
	if severalSources(err) {
		s.sources.met()
	}
	if err != nil || database == "" {
		return resp, err
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

// directed returns the request as it is to be sent. database is set if the answer
// will show a data source, and must be made that of this database.
func (s *source) directed(req *http.Request) (out *http.Request, database task.ID, err error) {
	if req.Header.Get("Notion-Version") != apiVersion {
		return req, "", nil // whoever made it knows what to ask for
	}
	path := strings.Split(strings.TrimPrefix(req.URL.Path, "/v1/"), "/")
	switch {
	case path[0] == "pages" && s.sources.known():
		out = inSourcesVersion(req)
		if len(path) == 1 {
			out, err = reshaped(out, s.intoSource)
		}
	case path[0] == "databases" && len(path) > 1:
		id, perr := task.ParseID(path[1])
		chosen := s.sources.of(id)
		if perr != nil || chosen == "" {
			return req, "", nil
		}
		path[0], path[1] = "data_sources", string(chosen)
		out = inSourcesVersion(req)
		out.URL.Path, out.URL.RawPath = "/v1/"+strings.Join(path, "/"), ""
		if len(path) == 2 { // any longer, and the answer is a list of pages
			database = id
		}
	default:
		out = req
	}
	return out, database, err
}

func inSourcesVersion(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Set("Notion-Version", sourcesVersion)
	return req
}

// intoSource has a page made in the data source that stands for its database. If none
// does, the database has only one, and can itself be the parent in every version.
func (s *source) intoSource(page map[string]json.RawMessage) error {
	var parent struct {
		Database task.ID `json:"database_id"`
	}
	if err := json.Unmarshal(page["parent"], &parent); err != nil {
		return fmt.Errorf("the parent of a page to be made: %w", err)
	}
	chosen := s.sources.of(parent.Database)
	if chosen == "" {
		return nil
	}
	var err error
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
