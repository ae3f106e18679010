package notion

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"

	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
)

// The ids of a database, of the data source that stands for it, and of another one.
const (
	databaseID = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	sourceID   = "30000000-2bbb-81b6-9700-e18108a40b1f"
	otherID    = "40000000-2bbb-81b6-9700-e18108a40b1f"
	thirdID    = "70000000-2bbb-81b6-9700-e18108a40b1f" // the only data source of the database otherID
)

// chosen knows which data source stands for the database.
func chosen() *sources {
	s := new(sources)
	s.choose(databaseID, choice{wanted: "Tasks", key: "k"})
	s.found(databaseID, choice{wanted: "Tasks", source: sourceID})
	return s
}

// sent is a request as it left.
type sent struct{ Method, Path, Query, Version, Body string }

// exchanged sends a request through repair and source, and returns what left and
// what came back. It goes out in the version that the library speaks.
func exchanged(t *testing.T, s *sources, x *exchange, method, path, body, answer string) (sent, string, error) {
	t.Helper()
	var out sent
	chain := &repair{sources: s, next: &source{sources: s, next: transporttest.Server(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/v1/databases/"+otherID && req.Header.Get("Notion-Version") != apiVersion {
			return transporttest.Reply(200, `{"object":"database","id":"`+otherID+`","data_sources":[{"id":"`+thirdID+`","name":"Other"}]}`), nil
		}
		out = sent{req.Method, req.URL.Path, req.URL.RawQuery, req.Header.Get("Notion-Version"), transporttest.Body(t, req)}
		if int64(len(out.Body)) != req.ContentLength {
			t.Errorf("Content-Length %d of a body of %d bytes", req.ContentLength, len(out.Body))
		}
		return transporttest.Reply(200, answer), nil
	})}}
	req := transporttest.Request(t, x.in(t.Context()), method, path, body)
	req.Header.Set("Notion-Version", apiVersion)
	resp, err := chain.RoundTrip(req)
	if err != nil {
		return out, "", err
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return out, string(data), nil
}

func TestRequestsOfADataSource(t *testing.T) {
	const (
		database = `{"object":"database","id":"x"}`
		page     = `{"object":"page","id":"p"}`
		list     = `{"object":"list","results":[]}`
		block    = `{"object":"list","results":[]}`
		old, now = apiVersion, sourcesVersion
	)
	dashless := strings.ToUpper(strings.ReplaceAll(databaseID, "-", ""))
	for name, tc := range map[string]struct {
		method, path, body, answer string
		want                       sent
	}{
		"schema":                        {"GET", "/v1/databases/" + databaseID, "", database, sent{"GET", "/v1/data_sources/" + sourceID, "", now, ""}},
		"schema, dashless":              {"GET", "/v1/databases/" + dashless, "", database, sent{"GET", "/v1/data_sources/" + sourceID, "", now, ""}},
		"change of schema":              {"PATCH", "/v1/databases/" + databaseID, `{"properties":{}}`, database, sent{"PATCH", "/v1/data_sources/" + sourceID, "", now, `{"properties":{}}`}},
		"query":                         {"POST", "/v1/databases/" + databaseID + "/query", `{"page_size":1}`, list, sent{"POST", "/v1/data_sources/" + sourceID + "/query", "filter_properties=%3BCha", now, `{"page_size":1}`}},
		"page":                          {"GET", transporttest.PagePath, "", page, sent{"GET", transporttest.PagePath, "", now, ""}},
		"change of a page":              {"PATCH", transporttest.PagePath, `{"properties":{}}`, page, sent{"PATCH", transporttest.PagePath, "", now, `{"properties":{}}`}},
		"property":                      {"GET", transporttest.PagePath + "/properties/a", "", list, sent{"GET", transporttest.PagePath + "/properties/a", "", now, ""}},
		"new page":                      {"POST", "/v1/pages", `{"parent":{"type":"database_id","database_id":"` + databaseID + `"},"properties":{}}`, page, sent{"POST", "/v1/pages", "", now, `{"parent":{"data_source_id":"` + sourceID + `","type":"data_source_id"},"properties":{}}`}},
		"new page, in another database": {"POST", "/v1/pages", `{"parent":{"database_id":"` + otherID + `"}}`, page, sent{"POST", "/v1/pages", "", now, `{"parent":{"data_source_id":"` + thirdID + `","type":"data_source_id"}}`}},
		"another database":              {"GET", "/v1/databases/" + otherID, "", database, sent{"GET", "/v1/databases/" + otherID, "", old, ""}},
		"query of another":              {"POST", "/v1/databases/" + otherID + "/query", `{}`, list, sent{"POST", "/v1/databases/" + otherID + "/query", "filter_properties=%3BCha", old, `{}`}},
		"new database":                  {"POST", "/v1/databases", `{}`, database, sent{"POST", "/v1/databases", "", old, `{}`}},
		"what is on a page":             {"GET", "/v1/blocks/" + otherID + "/children", "", block, sent{"GET", "/v1/blocks/" + otherID + "/children", "", old, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var x exchange
			if strings.HasSuffix(tc.path, "/query") {
				x.only = []string{"%3BCha"}
			}
			got, _, err := exchanged(t, chosen(), &x, tc.method, tc.path, tc.body, tc.answer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			// Where nothing was said, nothing is different.
			got, _, err = exchanged(t, new(sources), &x, tc.method, tc.path, tc.body, tc.answer)
			if err != nil {
				t.Fatal(err)
			}
			if got.Path != tc.path || got.Version != old || got.Body != tc.body {
				t.Errorf("without a choice %+v was sent", got)
			}
		})
	}
}

// Who asks in the version that knows of data sources gets what was asked for.
func TestRequestsInAnotherVersion(t *testing.T) {
	var version, path string
	chain := &source{sources: chosen(), next: transporttest.Server(func(req *http.Request) (*http.Response, error) {
		version, path = req.Header.Get("Notion-Version"), req.URL.Path
		return transporttest.Reply(200, `{"object":"database"}`), nil
	})}
	req := transporttest.Request(t, t.Context(), "GET", "/v1/databases/"+databaseID, "")
	req.Header.Set("Notion-Version", sourcesVersion)
	if _, err := chain.RoundTrip(req); err != nil || version != sourcesVersion || path != "/v1/databases/"+databaseID {
		t.Errorf("%s %s, %v", version, path, err)
	}
}

func TestAnswersOfADataSource(t *testing.T) {
	// A data source is shown as the database that it stands for.
	var x exchange
	_, got, err := exchanged(t, chosen(), &x, "GET", "/v1/databases/"+databaseID, "", fmt.Sprintf(`{"object":"data_source","id":%q,
		"title":[{"plain_text":"Tasks"}],"in_trash":true,"parent":{"type":"database_id","database_id":%q},"properties":{
		"Own":{"id":"a","type":"relation","relation":{"data_source_id":%[1]q,"database_id":%[2]q,"type":"single_property"}},
		"Short":{"id":"b","type":"relation","relation":{"data_source_id":%[1]q}},
		"Beside":{"id":"c","type":"relation","relation":{"data_source_id":%[3]q,"database_id":%[2]q}},
		"Elsewhere":{"id":"d","type":"relation","relation":{"data_source_id":"50000000-2bbb-81b6-9700-e18108a40b1f","database_id":"60000000-2bbb-81b6-9700-e18108a40b1f"}}}}`,
		sourceID, databaseID, otherID))
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, `{"object":"database","id":"`+databaseID+`","title":[{"plain_text":"Tasks"}],"archived":true,"in_trash":true,"properties":null,"url":""}`)
	relates := make(map[string]string)
	for name, col := range x.columns {
		relates[name] = col.Database
	}
	want := map[string]string{"Own": databaseID, "Short": databaseID, "Beside": otherID, "Elsewhere": "60000000-2bbb-81b6-9700-e18108a40b1f"}
	if diff := cmp.Diff(want, relates); diff != "" {
		t.Errorf("relations (-want +got):\n%s", diff)
	}

	// Its pages are in the database; those of the other data source are not.
	for parent, want := range map[string]string{
		`{"type":"data_source_id","data_source_id":"` + sourceID + `","database_id":"` + databaseID + `"}`: databaseID,
		`{"type":"data_source_id","data_source_id":"` + sourceID + `"}`:                                    databaseID,
		`{"type":"data_source_id","data_source_id":"` + otherID + `","database_id":"` + databaseID + `"}`:  otherID,
	} {
		page := `{"object":"page","id":"p","parent":` + parent + `,"archived":false,"properties":{},"url":""}`
		wanted := `{"object":"page","id":"p","parent":{"type":"database_id","database_id":"` + want + `"},"archived":false,"properties":{},"url":""}`
		_, got, err := exchanged(t, chosen(), new(exchange), "GET", transporttest.PagePath, "", page)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, got, wanted)
		_, got, err = exchanged(t, chosen(), new(exchange), "POST", "/v1/databases/"+databaseID+"/query", "{}", `{"object":"list","type":"page_or_data_source","results":[`+page+`],"has_more":false,"next_cursor":null}`)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, got, `{"object":"list","results":[`+wanted+`],"has_more":false,"next_cursor":null}`)
	}

	// An answer about something else is still none of Notion's form.
	_, _, err = exchanged(t, chosen(), new(exchange), "GET", "/v1/databases/"+databaseID, "", `{"object":"page"}`)
	_, isFailed := errors.AsType[*transport.SendError](err)
	if !isFailed {
		t.Errorf("err = %v", err)
	}
}

// A request that is sent again is whole each time; a page is asked for once.
func TestADataSourceIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []sent
		s := chosen()
		chain := &repair{sources: s, next: &source{sources: s, next: carried(t, func(req *http.Request) (*http.Response, error) {
			got = append(got, sent{req.Method, req.URL.Path, req.URL.RawQuery, req.Header.Get("Notion-Version"), transporttest.Body(t, req)})
			switch len(got) {
			case 1:
				return transporttest.Reply(429, transporttest.Failure("rate_limited", "slow down", nil), "Retry-After", "1"), nil
			case 2:
				return transporttest.Reply(502, "<html>", "Content-Type", "text/html"), nil
			}
			return transporttest.Reply(200, `{"object":"list","results":[]}`), nil
		})}}
		req := transporttest.Request(t, (&exchange{only: []string{"title"}}).in(t.Context()), "POST", "/v1/databases/"+databaseID+"/query", `{"page_size":100}`)
		req.Header.Set("Notion-Version", apiVersion)
		if _, err := chain.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		one := sent{"POST", "/v1/data_sources/" + sourceID + "/query", "filter_properties=title", sourcesVersion, `{"page_size":100}`}
		if diff := cmp.Diff([]sent{one, one, one}, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}

		got = nil
		req = transporttest.Request(t, t.Context(), "POST", "/v1/pages", `{"parent":{"database_id":"`+databaseID+`"}}`)
		req.Header.Set("Notion-Version", apiVersion)
		_, err := chain.RoundTrip(req)
		answered, isAnswered := errors.AsType[*APIError](err)
		if !isAnswered || !answered.RateLimited() || answered.Landed != claim.LandedNo || len(got) != 1 {
			t.Errorf("err = %v after %d requests, want the 429 of one", err, len(got))
		}
	})
}

// From the moment that some database is found to have several data sources, pages
// are read and written in the version that knows of them.
func TestPagesAfterSeveralDataSourcesWereMet(t *testing.T) {
	s := new(sources)
	var version string
	answer := transporttest.Reply(400, transporttest.Failure("validation_error", "no", map[string]any{"error_type": multipleSources}))
	chain := &source{sources: s, next: carried(t, func(req *http.Request) (*http.Response, error) {
		version = req.Header.Get("Notion-Version")
		return answer, nil
	})}
	ask := func(method, path, body string) error {
		req := transporttest.Request(t, t.Context(), method, path, body)
		req.Header.Set("Notion-Version", apiVersion)
		_, err := chain.RoundTrip(req)
		return err
	}
	if err := ask("POST", transporttest.QueryPath, "{}"); !severalSources(err) || version != apiVersion {
		t.Errorf("in version %s: %v", version, err)
	}
	answer = transporttest.Reply(200, `{"object":"page"}`)
	if err := ask("PATCH", transporttest.PagePath, "{}"); err != nil || version != sourcesVersion {
		t.Errorf("in version %s: %v", version, err)
	}
	answer = transporttest.Reply(200, `{"object":"list"}`)
	if err := ask("POST", transporttest.QueryPath, "{}"); err != nil || version != apiVersion {
		t.Errorf("in version %s: %v", version, err)
	}
	// What is no page cannot be sent, and was not.
	var failed *transport.SendError
	if err := ask("POST", "/v1/pages", "[]"); !errors.As(err, &failed) || failed.Landed != claim.LandedNo {
		t.Errorf("err = %v, want one of a request that was not sent", err)
	}
}
