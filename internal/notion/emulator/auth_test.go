package emulator_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"
)

const nobody = "00000000-0000-0000-0000-000000000000"

func TestRequestsAreCheckedInOrder(t *testing.T) {
	a := start(t, emulator.Options{Token: "secret"})
	stranger := *a
	stranger.token = "wrong"
	anonymous := *a
	anonymous.token = ""
	for _, c := range []struct {
		name         string
		as           *api
		method, path string
		body         any
		status       int
		code         string
		message      string
	}{
		{"JSON comes before the token", &stranger, "POST", "/v1/search", "{", 400, "invalid_json", "Error parsing JSON body."},
		{"wrong token", &stranger, "GET", "/v1/users/me", nil, 401, "unauthorized", "API token is invalid."},
		{"no token", &anonymous, "GET", "/v1/users/me", nil, 401, "unauthorized", `Authorization header must use the format "Bearer <token>".`},
		{"token comes before the version", stranger.as(""), "GET", "/v1/users/me", nil, 401, "unauthorized", ""},
		{"no version", a.as(""), "GET", "/v1/users/me", nil, 400, "missing_version",
			"Notion-Version header failed validation: Notion-Version header should be defined, instead was `undefined`."},
		{"unknown version", a.as("2020-01-01"), "GET", "/v1/users/me", nil, 400, "validation_error", ""},
		{"unknown path", a, "GET", "/v1/nonsense", nil, 400, "invalid_request_url", "Invalid request URL."},
		{"unknown method", a, "DELETE", "/v1/pages/" + nobody, nil, 400, "invalid_request_url", "Invalid request URL."},
		{"no uuid", a, "GET", "/v1/pages/abc", nil, 400, "validation_error",
			"path failed validation: path.page_id should be a valid uuid, instead was `\"abc\"`."},
		{"unknown page", a, "GET", "/v1/pages/" + nobody, nil, 404, "object_not_found",
			"Could not find page with ID: " + nobody + ". Make sure the relevant pages and databases are shared with your integration \"dibs\"."},
		{"unknown page, patched", a, "PATCH", "/v1/pages/" + nobody, object{}, 404, "object_not_found", ""},
		{"unknown database", a, "GET", "/v1/databases/" + nobody, nil, 404, "object_not_found",
			"Could not find database with ID: " + nobody + ". Make sure the relevant pages and databases are shared with your integration \"dibs\"."},
		{"unknown block", a, "GET", "/v1/blocks/" + nobody, nil, 404, "object_not_found", ""},
		{"unknown user", a, "GET", "/v1/users/" + nobody, nil, 404, "object_not_found", ""},
		{"too large", a, "POST", "/v1/search", object{"query": strings.Repeat("x", 500*1024)}, 400, "validation_error", "body failed validation: body.length should be ≤ `512000`."},
		{"query path of old versions", a.as("2025-09-03"), "POST", "/v1/databases/" + nobody + "/query", object{}, 400, "invalid_request_url", ""},
		{"data sources in old versions", a, "GET", "/v1/data_sources/" + nobody, nil, 400, "invalid_request_url", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.as.in(t).refused(c.method, c.path, c.body, c.status, c.code, c.message)
		})
	}
}

func TestAnswersCarryHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, emulator.Options{})
		time.Sleep(90*time.Second + 700*time.Millisecond)
		for path, status := range map[string]int{"/v1/users/me": 200, "/v1/pages/" + nobody: 404} {
			r := a.do("GET", path, nil)
			if r.status != status {
				t.Errorf("%s: status %d, want %d", path, r.status, status)
			}
			if got, want := r.header.Get("Date"), "Sat, 01 Jan 2000 00:01:30 GMT"; got != want {
				t.Errorf("%s: Date is %q, want %q", path, got, want)
			}
			if got, want := r.header.Get("Content-Type"), "application/json; charset=utf-8"; got != want {
				t.Errorf("%s: Content-Type is %q, want %q", path, got, want)
			}
			id := r.header.Get("X-Notion-Request-Id")
			if id == "" || id != r.body["request_id"] {
				t.Errorf("%s: x-notion-request-id is %q, request_id %q", path, id, r.body["request_id"])
			}
		}
	})
}

func TestIDsMayBeWrittenWithoutDashes(t *testing.T) {
	a, dbs := seeded(t, "empty")
	got := a.ok("GET", "/v1/databases/"+strings.ToUpper(strings.ReplaceAll(dbs.Tasks, "-", "")), nil)
	if got["id"] != dbs.Tasks {
		t.Errorf("id = %v, want %s", got["id"], dbs.Tasks)
	}
}

func TestUnsharedDatabasesAreNotThere(t *testing.T) {
	a, dbs := seeded(t, "demo")
	page := a.e.Pages(dbs.Tasks)[0].ID
	if err := a.e.Unshare(dbs.Tasks); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/databases/" + dbs.Tasks},
		{"PATCH", "/v1/databases/" + dbs.Tasks},
		{"POST", "/v1/databases/" + dbs.Tasks + "/query"},
		{"GET", "/v1/pages/" + page},
		{"PATCH", "/v1/pages/" + page},
		{"GET", "/v1/pages/" + page + "/properties/title"},
		{"GET", "/v1/blocks/" + page},
		{"GET", "/v1/blocks/" + page + "/children"},
		{"GET", "/v1/comments?block_id=" + page},
	} {
		var body any
		if c.method != "GET" {
			body = object{}
		}
		a.refused(c.method, c.path, body, http.StatusNotFound, "object_not_found", "")
	}
	a.refused("POST", "/v1/pages", object{"parent": object{"database_id": dbs.Tasks}}, http.StatusNotFound, "object_not_found", "")
	for _, hit := range a.ok("POST", "/v1/search", object{"page_size": 100})["results"].(list) {
		if at(hit, "id") == dbs.Tasks || at(hit, "parent", "database_id") == dbs.Tasks {
			t.Errorf("the search finds %v", hit)
		}
	}
	if err := a.e.Unshare(nobody); err == nil {
		t.Error("a database that does not exist was unshared")
	}
}
