package notion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// sourcesVersion is the version that speaks of data sources.
const sourcesVersion = "2025-09-03"

// source lets a data source stand for its database: what the library asks of a
// database of which one has been chosen is asked of that one, in the version that
// knows of them, and its answer is made that of a database again.
//
// From the first such database on, pages are read and written in that version,
// too: an older one refuses to make those of such a database, or to relate to them.
// What a page is in, repair says in the older words.
type source struct {
	next    http.RoundTripper
	sources *sources
}

func (s *source) RoundTrip(req *http.Request) (*http.Response, error) {
	out, database, err := s.directed(req)
	if err != nil {
		closeBody(req)
		return nil, unsent(req, err)
	}
	resp, err := s.next.RoundTrip(out)
	var answered *APIError
	if errors.As(err, &answered) && answered.several() {
		s.sources.met()
	}
	if err != nil || database == "" {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil {
		body, err = asDatabase(body, database)
	}
	if err != nil {
		return nil, &SendError{Method: out.Method, Path: out.URL.Path, Landed: claim.LandedUnknown, Err: err}
	}
	return withBody(resp, body), nil
}

// directed returns the request as it is to be sent. database is set if the answer
// shows the data source that stands for it.
func (s *source) directed(req *http.Request) (out *http.Request, database task.ID, err error) {
	if req.Header.Get("Notion-Version") != apiVersion {
		return req, "", nil // it knows what it asks for
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
		if len(path) == 2 { // else the answer is a list of pages
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

// intoSource has a page made in the data source that stands for its database. One
// that has a single data source, of which nothing is said, is a parent in every
// version.
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

// asDatabase makes an answer that shows a data source one that shows a database.
// Any other answer is left to whoever reads it.
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
