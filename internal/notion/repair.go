package notion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// repair shapes requests and answers so that the library can carry them. Of an
// answer it leaves what this daemon reads, in the plainest form that the library
// understands: a property of a type that the library has never heard of makes it
// refuse the whole answer. What the library has no field for goes into the
// request's exchange.
type repair struct {
	next    http.RoundTripper
	sources *sources
}

func (r *repair) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := repairRequest(req)
	if err != nil {
		return nil, err
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil {
		body, err = r.answer(req, body, exchangeOf(req.Context()))
	}
	if err != nil {
		return nil, &SendError{
			Method: req.Method, Path: req.URL.Path, Landed: claim.LandedUnknown,
			Err: fmt.Errorf("the answer is not of Notion's form: %w", err),
		}
	}
	return withBody(resp, body), nil
}

// repairRequest takes "archived": false out of page updates, which the library
// always says and which brings a page back that somebody has just moved to the
// trash, and asks a query for the properties wanted.
func repairRequest(req *http.Request) (*http.Request, error) {
	if only := exchangeOf(req.Context()).only; len(only) > 0 {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		for _, id := range only {
			// Ids come URL-encoded; the query string encodes them, too.
			plain, err := url.PathUnescape(id)
			if err != nil {
				plain = id
			}
			query.Add("filter_properties", plain)
		}
		req.URL.RawQuery = query.Encode()
	}
	if req.Method != http.MethodPatch || !strings.HasPrefix(req.URL.Path, "/v1/pages/") || req.Body == nil {
		return req, nil
	}
	out, err := reshaped(req, func(body map[string]json.RawMessage) error {
		if string(body["archived"]) == "false" {
			delete(body, "archived")
		}
		return nil
	})
	if err != nil {
		return nil, unsent(req, err)
	}
	return out, nil
}

// reshaped returns the request with its body, a JSON object, as change leaves it.
func reshaped(req *http.Request, change func(map[string]json.RawMessage) error) (*http.Request, error) {
	defer req.Body.Close()
	var body map[string]json.RawMessage
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, fmt.Errorf("the request is not an object: %w", err)
	}
	if err := change(body); err != nil {
		return nil, err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.ContentLength = int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	req.Body, err = req.GetBody()
	return req, err
}

func (r *repair) answer(req *http.Request, body []byte, x *exchange) ([]byte, error) {
	var kind struct {
		Object string `json:"object"`
	}
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, err
	}
	// Taken for an empty list, any other answer would empty the mirror.
	if want := objectOf(req.URL.Path); kind.Object != want {
		return nil, fmt.Errorf("want a %s, got %q", want, oneLine(kind.Object))
	}
	switch {
	case kind.Object == "page":
		page, err := r.page(body, x)
		if err != nil {
			return nil, err
		}
		return json.Marshal(page)
	case kind.Object == "database":
		return r.database(body, x)
	case strings.HasSuffix(req.URL.Path, "/query"):
		return r.query(body, x)
	default:
		return body, nil
	}
}

// objectOf is the kind of object that a good answer is.
func objectOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	if len(parts) > 2 { // databases/{id}/query, pages/{id}/properties/{id}, blocks/{id}/children
		return "list"
	}
	return strings.TrimSuffix(parts[0], "s")
}

// The shapes below name what is read of an answer and what is passed on.

type rawPage struct {
	Object         string                     `json:"object"`
	ID             string                     `json:"id"`
	CreatedTime    json.RawMessage            `json:"created_time,omitempty"`
	LastEditedTime json.RawMessage            `json:"last_edited_time,omitempty"`
	Archived       bool                       `json:"archived"`
	InTrash        bool                       `json:"in_trash,omitempty"`
	IsArchived     bool                       `json:"is_archived,omitempty"`
	Parent         json.RawMessage            `json:"parent,omitempty"`
	Properties     map[string]json.RawMessage `json:"properties"`
	URL            string                     `json:"url"`
}

// page also says "archived" of a page that is in the trash or archived: the
// library knows one such state only, and neither kind is a task to work on. Nor does
// it know of pages in data sources: it is told of the database that one stands for.
func (r *repair) page(data []byte, x *exchange) (rawPage, error) {
	var page rawPage
	if err := json.Unmarshal(data, &page); err != nil {
		return page, err
	}
	page.Archived = page.Archived || page.InTrash || page.IsArchived
	var in struct {
		Database string `json:"database_id"`
		Source   string `json:"data_source_id"`
	}
	if json.Unmarshal(page.Parent, &in) == nil && in.Source != "" {
		x.source = in.Source
		page.Parent = json.RawMessage(fmt.Sprintf(`{"type":"database_id","database_id":%q}`, r.sources.database(in.Database, in.Source)))
	}
	for name, data := range page.Properties {
		var p rawProperty
		plain, ok := json.RawMessage(nil), false
		if err := json.Unmarshal(data, &p); err == nil {
			plain, ok = p.plain()
		}
		if !ok {
			delete(page.Properties, name)
			continue
		}
		page.Properties[name] = plain
		if p.HasMore {
			if x.truncated == nil {
				x.truncated = make(map[relation]bool)
			}
			x.truncated[relation{page.ID, p.ID}] = true
		}
	}
	return page, nil
}

func (r *repair) query(body []byte, x *exchange) ([]byte, error) {
	var query struct {
		Object        string            `json:"object"`
		Results       []json.RawMessage `json:"results"`
		HasMore       bool              `json:"has_more"`
		NextCursor    *string           `json:"next_cursor"`
		RequestStatus *struct {
			Type   string `json:"type"`
			Reason string `json:"incomplete_reason"`
		} `json:"request_status,omitempty"`
	}
	if err := json.Unmarshal(body, &query); err != nil {
		return nil, err
	}
	if query.Results == nil {
		return nil, errors.New("a list without results")
	}
	if s := query.RequestStatus; s != nil && s.Type == "incomplete" {
		x.incomplete = s.Reason
		if x.incomplete == "" {
			x.incomplete = s.Type
		}
	}
	for i, data := range query.Results {
		page, err := r.page(data, x)
		if err != nil {
			return nil, err
		}
		if query.Results[i], err = json.Marshal(page); err != nil {
			return nil, err
		}
	}
	return json.Marshal(query)
}

// database moves the schema into the exchange. The library reads schemas of
// the types it knows only, and loses the ids of relations.
func (r *repair) database(body []byte, x *exchange) ([]byte, error) {
	var database struct {
		Object     string                     `json:"object"`
		ID         string                     `json:"id"`
		Title      []span                     `json:"title"`
		Archived   bool                       `json:"archived"`
		InTrash    bool                       `json:"in_trash,omitempty"`
		Properties map[string]json.RawMessage `json:"properties"`
		URL        string                     `json:"url"`
		Sources    []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"data_sources,omitempty"`
	}
	if err := json.Unmarshal(body, &database); err != nil {
		return nil, err
	}
	database.Archived = database.Archived || database.InTrash
	x.columns = make(map[string]Column, len(database.Properties))
	for name, data := range database.Properties {
		x.columns[name] = r.column(name, data)
	}
	for _, s := range database.Sources {
		id, err := task.ParseID(s.ID)
		if err != nil {
			return nil, err
		}
		x.sources = append(x.sources, Source{id, s.Name})
	}
	database.Properties, database.Sources = nil, nil
	return json.Marshal(database)
}

// column reads as much of a property's schema as it understands: of a property
// without a type, or of a new one, that is little.
func (r *repair) column(name string, data json.RawMessage) Column {
	col := Column{Name: name}
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) != nil ||
		json.Unmarshal(raw["id"], &col.ID) != nil || json.Unmarshal(raw["type"], &col.Type) != nil {
		return col
	}
	var config struct {
		Options []struct {
			Name string `json:"name"`
		} `json:"options"`
		DatabaseID string `json:"database_id"`
		SourceID   string `json:"data_source_id"`
	}
	if json.Unmarshal(raw[col.Type], &config) == nil {
		for _, o := range config.Options {
			col.Options = append(col.Options, o.Name)
		}
		col.Database = r.sources.database(config.DatabaseID, config.SourceID)
	}
	return col
}
