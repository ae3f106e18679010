package notion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"

	"github.com/jomei/notionapi"
)

// call makes one request through the library, and decodes the answer into into; see deliver. The
// library itself gets an empty answer: it fails on properties that it does not know, and loses much
// of the others. only lists the properties, by id, that a query shall return; without any it
// returns all. The moment is that of the answer.
func (c *Client) call(ctx context.Context, into any, do func(context.Context, *notionapi.Client) error, only ...string) (transport.Moment, error) {
	tap := &tap{client: c, into: into, only: only}
	err := do(ctx, notionapi.NewClient(notionapi.Token(c.token),
		notionapi.WithHTTPClient(&http.Client{Transport: tap}), notionapi.WithVersion(transport.Version), notionapi.WithRetry(1)))
	return tap.at, err
}

// tap carries one request of the library, and takes its answer.
type tap struct {
	client *Client
	into   any
	only   []string
	at     transport.Moment // of the answer
}

func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := current(req)
	if err != nil {
		return nil, transport.Unsent(req, err)
	}
	if len(t.only) > 0 {
		query := req.URL.Query()
		for _, id := range t.only {
			query.Add("filter_properties", plainID(id)) // the query string encodes it again
		}
		req.URL.RawQuery = query.Encode()
	}
	if t.at, err = t.client.deliver(req, t.into); err != nil {
		return nil, err
	}
	return transport.WithBody(&http.Response{StatusCode: http.StatusOK}, []byte("{}")), nil
}

// plainID returns the id of a property without the URL encoding in which Notion gives it.
func plainID(id string) string {
	if plain, err := url.PathUnescape(id); err == nil {
		return plain
	}
	return id
}

// current returns a request of the library as this version of the API has it. Where the library
// speaks of a database, Notion now has a data source: callers give the library the data source's id.
// The library also sends "archived": false with each change of a page, which would restore a page
// that somebody has just moved to the trash; that is left out.
func current(req *http.Request) (*http.Request, error) {
	req = req.Clone(req.Context())
	path := strings.Split(strings.TrimPrefix(req.URL.Path, "/v1/"), "/")
	switch {
	case path[0] == "databases" && len(path) > 1:
		path[0] = "data_sources"
		req.URL.Path, req.URL.RawPath = "/v1/"+strings.Join(path, "/"), ""
	case path[0] == "databases":
		return reshaped(req, func(database map[string]json.RawMessage) (err error) {
			schema := map[string]json.RawMessage{"properties": database["properties"]}
			delete(database, "properties")
			database["initial_data_source"], err = json.Marshal(schema)
			return err
		})
	case path[0] == "pages" && req.Method == http.MethodPost:
		return reshaped(req, func(page map[string]json.RawMessage) error {
			var parent struct {
				Source string `json:"database_id"`
			}
			err := json.Unmarshal(page["parent"], &parent)
			if err == nil {
				page["parent"], err = json.Marshal(inSource(parent.Source))
			}
			return err
		})
	case path[0] == "pages" && req.Method == http.MethodPatch:
		return reshaped(req, func(page map[string]json.RawMessage) error {
			if string(page["archived"]) == "true" {
				page["in_trash"] = page["archived"]
			}
			delete(page, "archived")
			return nil
		})
	}
	return req, nil
}

// inSource returns the parent of a page to be made in a data source.
func inSource(source string) map[string]string {
	return map[string]string{"type": "data_source_id", "data_source_id": source}
}

// reshaped changes the JSON body of a request.
func reshaped(req *http.Request, change func(map[string]json.RawMessage) error) (*http.Request, error) {
	defer req.Body.Close()
	var body map[string]json.RawMessage
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return req, fmt.Errorf("the body of the request is not a JSON object: %w", err)
	}
	if err := change(body); err != nil {
		return req, err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return req, err
	}
	req.ContentLength = int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	req.Body, err = req.GetBody()
	return req, err
}

// get makes a request that the library lacks.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := c.ask(ctx, http.MethodGet, path, query, nil, into)
	return err
}

// post makes a request that the library lacks. It is sent at most once. into may be nil.
func (c *Client) post(ctx context.Context, path string, body, into any) error {
	_, err := c.ask(ctx, http.MethodPost, path, nil, body, into)
	return err
}

// ask makes a request that the library lacks. The moment is that of the answer.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body, into any) (at transport.Moment, err error) {
	address := transport.DefaultBaseURL + path // as in the library; the transport knows the server
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return at, err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, sent)
	if err != nil {
		return at, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Notion-Version", transport.Version)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.deliver(req, into)
}

// deliver sends a request, and decodes its good answer into into; nil means that only the kind of
// its object matters. The moment is that of the answer. The error is an *APIError or a
// *transport.SendError.
func (c *Client) deliver(req *http.Request, into any) (at transport.Moment, err error) {
	resp, err := c.carrier.RoundTrip(req)
	if err != nil {
		return at, err
	}
	body, err := transport.Body(resp)
	if err == nil {
		err = read(body, objectOf(req), into)
	}
	if err != nil {
		return at, transport.Unread(req, fmt.Errorf("the answer is not of Notion's form: %w", err))
	}
	return transport.MomentOf(resp), nil
}

// kinder is an answer that says of which kind its object is.
type kinder interface{ kind() string }

// read decodes an answer that must be an object of that kind. Any other, taken for an empty list,
// would empty the mirror.
func read(body []byte, kind string, into any) error {
	var object struct {
		Object string `json:"object"`
	}
	var err error
	if into != nil {
		err = json.Unmarshal(body, into)
	}
	if known, ok := into.(kinder); ok {
		object.Object = known.kind()
	} else if serr := json.Unmarshal(body, &object); serr != nil {
		return serr
	}
	_, isSyntax := errors.AsType[*json.SyntaxError](err)
	if object.Object != kind && !isSyntax {
		return fmt.Errorf("want a %s, got %q", kind, transport.Excerpt(object.Object))
	}
	return err
}

// pageSize is the most rows that Notion puts into one answer.
const pageSize = 100

// maxAnswers limits the answers of a list: ten times those of the largest practical board.
const maxAnswers = 10_000

// errNoCursor says that an answer has more results but no cursor.
var errNoCursor = errors.New("the answer says that there are more results, but has no cursor to them")

// errEndless says that a list does not end.
var errEndless = errors.New("the list of results does not come to an end")

// objectOf returns the kind of object in a good answer to a request.
func objectOf(req *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(req.URL.Path, "/v1/"), "/")
	switch {
	case len(parts) == 3 && parts[2] == "markdown":
		return "page_markdown"
	case len(parts) > 2, len(parts) == 1 && req.Method == http.MethodGet:
		return "list" // a query, a property's values, a page's blocks; users, comments, views
	}
	return strings.TrimSuffix(parts[0], "s")
}

// codeValidation is the code of an answer that refuses a request for its content.
const codeValidation = "validation_error"

// gone reports whether Notion knows of no such object.
func gone(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.Status == http.StatusNotFound
}

// forbidden reports whether an answer means that the connection lacks a capability.
func forbidden(e *APIError) bool {
	return e.Status == http.StatusForbidden && e.Code != "" && !e.Blocked() && e.Data("block_limit") == ""
}

// storeError returns the error of a request as a StoreError, however the library wrapped it. If
// a person must act, the error says how.
func storeError(err error) *claim.StoreError {
	if already, ok := errors.AsType[*claim.StoreError](err); ok {
		return already
	}
	if answered, ok := errors.AsType[*APIError](err); ok {
		kind, advice := sorted(answered)
		err := error(answered)
		if advice != "" {
			err = fmt.Errorf("%s: %w", advice, answered)
		}
		return &claim.StoreError{Kind: kind, Landed: answered.Landed, RetryAfter: answered.RetryAfter, Err: err}
	}
	if failed, ok := errors.AsType[*transport.SendError](err); ok {
		return &claim.StoreError{Kind: claim.Unavailable, Landed: failed.Landed, RetryAfter: failed.RetryAfter, Err: failed}
	}
	// The answer was good, but not what the library expects.
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion's answer cannot be read: %w", err)
}

// Advice returns what a person can do about an answer; empty if only Notion can act.
func Advice(e *APIError) string {
	_, advice := sorted(e)
	return advice
}

// inTrash matches Notion's message about a page that cannot be written because it is in the
// trash. The answer has no code of its own.
var inTrash = regexp.MustCompile(`(?i)\bedit\b.*\b(archived|in (the )?trash)\b|\bunarchive\b`)

// Notion's messages about an id that is not that of a usable database have no code of their own
// either.
var (
	unshownSources = regexp.MustCompile(`(?i)\bnot contain any data sources\b|\blinked databases?\b`)
	otherKind      = regexp.MustCompile(`(?i)\bis a (page|block), not a database\b`)
	badID          = regexp.MustCompile(`(?i)^path failed validation: .*\bshould be a valid uuid\b`)
)

// hiddenAdvice is the advice for a database without a data source.
const hiddenAdvice = "that is a linked view of another database, or a database whose data source is not shared: open the original database in Notion, share it with the connection, and use its id"

// sorted returns the kind of failure, and what a person can do about it.
func sorted(e *APIError) (kind claim.StoreErrorKind, advice string) {
	switch {
	case e.Blocked():
		return claim.Refused, "Notion has blocked this connection: see the connection's page in Notion, or ask Notion's support"
	case e.Status == http.StatusUnauthorized:
		return claim.Refused, "the token was refused: check notion.token"
	case e.Data("block_limit") != "":
		return claim.Refused, "the workspace has no blocks left: make room or upgrade its plan"
	case e.Status == http.StatusForbidden && e.Code == "":
		return claim.Unavailable, "the edge in front of Notion turned the request away, not Notion itself: see whether a proxy, a VPN or a firewall is on the way, or try from another network"
	case e.Status == http.StatusForbidden:
		return claim.Refused, "the connection may not do this: check its capabilities in Notion"
	case e.Status == http.StatusNotFound:
		return claim.NotFound, "no such object, or it is not shared: share the database with the connection"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && unshownSources.MatchString(e.Message):
		return claim.Refused, hiddenAdvice
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && otherKind.MatchString(e.Message):
		return claim.Refused, "that is the id of something else, not of a database: open the database as a page of its own, and copy the id from its URL"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && badID.MatchString(e.Message):
		return claim.NotFound, "that is no id of Notion's, though it looks like one: copy it anew from the URL of the database or page"
	case e.Status == http.StatusBadRequest && e.Code == codeValidation && inTrash.MatchString(e.Message):
		return claim.Trashed, ""
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusConflict, e.RateLimited(), e.Status >= 500:
		return claim.Unavailable, ""
	case e.Status < 300:
		return claim.Unavailable, "the server does not answer like Notion: check notion.base_url"
	case e.Status < 400:
		return claim.Refused, "the server sends requests elsewhere: check notion.base_url"
	default:
		return claim.Refused, ""
	}
}
