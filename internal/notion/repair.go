package notion

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// repair shapes requests and answers so that the library can carry them.
//
// Of an answer it leaves what is read here, in the plainest form that the library
// understands. A property of a type that the library has never heard of would make it
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
	x := exchangeOf(req.Context())
	body, err := transport.Body(resp)
	if err == nil {
		body, err = r.answer(req, body, x)
	}
	if err != nil {
		return nil, transport.Unread(req, fmt.Errorf("the answer is not of Notion's form: %w", err))
	}
	return transport.WithBody(resp, body), nil
}

// repairRequest limits a query to the wanted properties. It also removes "archived": false from
// page updates: the library always sends it, and it would restore a page that somebody has just
// moved to the trash.
func repairRequest(req *http.Request) (*http.Request, error) {
	if only := exchangeOf(req.Context()).only; len(only) > 0 {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		for _, id := range only {
			// Ids come URL-encoded, and the query string encodes them once more.
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
		return nil, transport.Unsent(req, err)
	}
	return out, nil
}

// reshaped returns the request with its JSON body changed by change. It closes the old body.
func reshaped(req *http.Request, change func(map[string]json.RawMessage) error) (*http.Request, error) {
	defer req.Body.Close()
	var body map[string]json.RawMessage
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, fmt.Errorf("the body of the request is not a JSON object: %w", err)
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

// answer converts the body of a good answer for the library.
func (r *repair) answer(req *http.Request, body []byte, x *exchange) ([]byte, error) {
	switch kind := objectOf(req.URL.Path); {
	case req.Method == http.MethodGet && req.URL.Path == "/v1/"+kind+"s":
		var listed struct {
			Object string `json:"object"`
		}
		return body, read(body, "list", &listed, &listed.Object)
	case kind == "page":
		var page rawPage
		if err := read(body, kind, &page, &page.Object); err != nil {
			return nil, err
		}
		x.keepSpans(body)
		return json.Marshal(r.page(&page, x))
	case kind == "database":
		return r.database(body, x)
	case strings.HasSuffix(req.URL.Path, "/query"):
		return r.query(body, x)
	default:
		var said struct {
			Object string `json:"object"`
		}
		return body, read(body, kind, &said, &said.Object)
	}
}

// read reads an answer that must be an object of that kind; said is the kind that it is.
// Any other answer, taken for an empty list, would empty the mirror.
func read(body []byte, kind string, into any, said *string) error {
	err := json.Unmarshal(body, into)
	_, isSyntax := errors.AsType[*json.SyntaxError](err)
	if *said != kind && !isSyntax {
		return fmt.Errorf("want a %s, got %q", kind, transport.Excerpt(*said))
	}
	return err
}

// objectOf returns the kind of object in a good answer.
func objectOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	if len(parts) == 3 && parts[2] == "markdown" {
		return "page_markdown"
	}
	if len(parts) > 2 { // databases/{id}/query, pages/{id}/properties/{id}, blocks/{id}/children
		return "list"
	}
	return strings.TrimSuffix(parts[0], "s")
}

// rawPage is the part of a page that is read.
type rawPage struct {
	Object         string                 `json:"object"`
	ID             string                 `json:"id"`
	CreatedTime    json.RawMessage        `json:"created_time"`
	LastEditedTime json.RawMessage        `json:"last_edited_time"`
	Archived       bool                   `json:"archived"`
	InTrash        bool                   `json:"in_trash"`
	IsArchived     bool                   `json:"is_archived"`
	CreatedBy      json.RawMessage        `json:"created_by"`
	LastEditedBy   json.RawMessage        `json:"last_edited_by"`
	Parent         json.RawMessage        `json:"parent"`
	Properties     map[string]rawProperty `json:"properties"`
	URL            string                 `json:"url"`
	Title          rawTitle               `json:"title"` // of a database
}

// plainPage is the part of a page that is passed on. Its properties are in the exchange: the library
// decodes each of them three times.
type plainPage struct {
	Object         string          `json:"object"`
	ID             string          `json:"id"`
	CreatedTime    json.RawMessage `json:"created_time,omitempty"`
	LastEditedTime json.RawMessage `json:"last_edited_time,omitempty"`
	LastEditedBy   *person         `json:"last_edited_by,omitempty"`
	Archived       bool            `json:"archived"`
	Parent         json.RawMessage `json:"parent,omitempty"`
	Properties     struct{}        `json:"properties"`
	URL            string          `json:"url"`
}

// page returns what is passed on of a page. It also says "archived" of a page that is
// in the trash: the library knows one such state only, and neither kind is a task to
// work on. Nor does the library know of pages in data sources: it is told of the
// database that the data source stands for.
func (r *repair) page(page *rawPage, x *exchange) plainPage {
	var in struct {
		Database string `json:"database_id"`
		Source   string `json:"data_source_id"`
	}
	if json.Unmarshal(page.Parent, &in) == nil && in.Source != "" {
		x.source = in.Source
		page.Parent = json.RawMessage(fmt.Sprintf(`{"type":"database_id","database_id":%q}`, r.sources.database(in.Database, in.Source)))
	}
	var by person
	if x.makers != nil && json.Unmarshal(page.CreatedBy, &by) == nil {
		x.makers[page.ID] = by.ID
	}
	var last *person
	if json.Unmarshal(page.LastEditedBy, &last) != nil {
		last = nil
	}
	properties := make(notionapi.Properties, len(page.Properties))
	for name, p := range page.Properties {
		x.keepField(page.ID, &p)
		property, ok := p.property()
		if !ok {
			continue
		}
		properties[name] = property
		if p.HasMore {
			if x.truncated == nil {
				x.truncated = make(map[relation]bool)
			}
			x.truncated[relation{page.ID, p.ID}] = true
		}
	}
	if x.properties == nil {
		x.properties = make(map[string]notionapi.Properties)
	}
	x.properties[page.ID] = properties
	return plainPage{
		Object: page.Object, ID: page.ID, CreatedTime: page.CreatedTime, LastEditedTime: page.LastEditedTime, LastEditedBy: last,
		Archived: page.Archived || page.InTrash || page.IsArchived,
		Parent:   page.Parent, URL: page.URL,
	}
}

func (r *repair) query(body []byte, x *exchange) ([]byte, error) {
	var answer struct {
		Object        string  `json:"object"`
		Results       rawRows `json:"results"`
		HasMore       bool    `json:"has_more"`
		NextCursor    *string `json:"next_cursor"`
		RequestStatus struct {
			Type   string `json:"type"`
			Reason string `json:"incomplete_reason"`
		} `json:"request_status"`
	}
	if err := read(body, "list", &answer, &answer.Object); err != nil {
		return nil, err
	}
	if answer.Results == nil {
		return nil, errors.New("a list without results")
	}
	if s := answer.RequestStatus; s.Type == "incomplete" {
		x.incomplete = cmp.Or(s.Reason, s.Type)
	}
	pages := make([]plainPage, 0, len(answer.Results))
	bare := answer.Results.bare(body)
	for i := range answer.Results {
		row := &answer.Results[i]
		if odd, ok := row.odd(bare[i]); ok {
			x.skipped = append(x.skipped, odd)
			continue
		}
		pages = append(pages, r.page(row, x))
	}
	return json.Marshal(struct {
		Object     string      `json:"object"`
		Results    []plainPage `json:"results"`
		HasMore    bool        `json:"has_more"`
		NextCursor *string     `json:"next_cursor"`
	}{answer.Object, pages, answer.HasMore, answer.NextCursor})
}

// database moves the schema into the exchange. The library reads schemas only of
// the types that it knows, and loses the ids of relations.
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
	if err := read(body, "database", &database, &database.Object); err != nil {
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

// column reads the known parts of a property's schema. A new type has few of them.
func (r *repair) column(name string, data json.RawMessage) Column {
	col := Column{Name: name}
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) != nil ||
		json.Unmarshal(raw["id"], &col.ID) != nil || json.Unmarshal(raw["type"], &col.Type) != nil {
		return col
	}
	var config struct {
		Options []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"options"`
		DatabaseID string `json:"database_id"`
		SourceID   string `json:"data_source_id"`
	}
	if json.Unmarshal(raw[col.Type], &config) == nil {
		for _, o := range config.Options {
			col.Options = append(col.Options, o.Name)
			if o.ID != "" {
				if col.OptionIDs == nil {
					col.OptionIDs = make(map[string]string, len(config.Options))
				}
				col.OptionIDs[o.Name] = o.ID
			}
		}
		col.Database = r.sources.database(config.DatabaseID, config.SourceID)
	}
	return col
}
