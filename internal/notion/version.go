package notion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
)

// The versions of the API in use.
const (
	// apiVersion is the library's version, and the first one asked for.
	apiVersion = "2022-06-28"
	// sourcesVersion knows of data sources.
	sourcesVersion = "2025-09-03"
	// trashVersion has in_trash instead of archived.
	trashVersion = "2026-03-11"
)

var versions = []string{apiVersion, sourcesVersion, trashVersion}

// toTry returns the versions in the order in which they are tried, starting with the one that
// the server last understood.
func toTry(spoken string) []string {
	return append([]string{spoken}, slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return v == spoken })...)
}

// inVersion returns the request with the given API version.
func inVersion(req *http.Request, version string) *http.Request {
	if req.Header.Get("Notion-Version") == version {
		return req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Notion-Version", version)
	return req
}

// aboutVersion matches Notion's message about a version that it does not take, or no longer
// takes. The answer has no code of its own.
var aboutVersion = regexp.MustCompile(`(?i)\bnotion-version\b|\bAPI version\b`)

// refusesVersion reports whether a request failed because of its version. Then it has not
// landed.
func refusesVersion(req *http.Request, err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	if !isAnswered || answered.Status != http.StatusBadRequest || severalSources(err) {
		return false
	}
	if answered.Code == "invalid_request_url" { // later versions have no queries of databases
		return strings.HasPrefix(req.URL.Path, "/v1/databases/") && strings.HasSuffix(req.URL.Path, "/query")
	}
	return answered.Data("minimum_api_version") != "" || answered.Code == codeVersion || aboutVersion.MatchString(answered.Message)
}

// codeVersion is the code of an answer to a request in which Notion sees no version.
const codeVersion = "missing_version"

// errNewer is the error of a request in the first version whose answer shows a database in the
// form of a later version.
var errNewer = errors.New("the server answers in a later version of the API")

// asksDatabase reports whether a request asks for a database in the first version.
func asksDatabase(req *http.Request) bool {
	return req.Method == http.MethodGet && req.Header.Get("Notion-Version") == apiVersion && objectOf(req.URL.Path) == "database"
}

// newer reports whether a good answer shows a database in the form of a later version.
func newer(resp *http.Response) bool {
	body, err := transport.Body(resp)
	if err == nil {
		transport.WithBody(resp, body)
	}
	if err != nil || !bytes.Contains(body, []byte(`"data_sources"`)) {
		return false
	}
	var shown map[string]json.RawMessage
	return json.Unmarshal(body, &shown) == nil && shown["data_sources"] != nil && shown["properties"] == nil
}

// errVersions returns the error of a server that speaks none of the versions.
func errVersions(why error) error {
	return &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: fmt.Errorf(
		"the server takes none of the versions of Notion's API that dibs speaks (%s): use a newer dibs, or check notion.base_url: %w",
		strings.Join(versions, ", "), why)}
}

// repeatable returns the request with a body that can be sent several times.
func repeatable(req *http.Request) (*http.Request, error) {
	if req.Body == nil || req.GetBody != nil {
		return req, nil
	}
	data, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	req.Body, err = req.GetBody()
	return req, err
}

// anew returns a copy of a repeatable request with its body at the beginning.
func anew(req *http.Request) (*http.Request, error) {
	req = req.Clone(req.Context())
	if req.GetBody == nil {
		return req, nil
	}
	body, err := req.GetBody()
	req.Body = body
	return req, err
}
