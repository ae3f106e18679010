package board_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"dibs/internal/api"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// TestReopenOnlyWhatWasShown sends a form about a task that the board showed as BLOCKED, and
// that a person has completed since: it stays so. The form that comes back shows it.
func TestReopenOnlyWhatWasShown(t *testing.T) {
	m := newMesh(t, "empty", 0)
	id := m.add("Paint the gate", status("BLOCKED"))
	if _, err := m.client.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(m.link, "/enter")
	ask := func(path string, form url.Values) (int, url.Values, string) {
		t.Helper()
		method, body := http.MethodGet, ""
		if form != nil {
			method, body = http.MethodPost, form.Encode()
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", base)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		fields := make(url.Values)
		for _, field := range hidden.FindAllStringSubmatch(string(page), -1) {
			fields.Set(field[1], field[2])
		}
		return resp.StatusCode, fields, string(page)
	}
	ask(strings.TrimPrefix(m.link, base), nil)
	_, shown, page := ask("/tasks/"+id+"/reopen", nil)
	if shown.Get("was") != "BLOCKED" {
		t.Fatalf("the form says %v: %s", shown, page)
	}
	if err := m.notion.EditPage(id, status("COMPLETED")); err != nil {
		t.Fatal(err)
	}
	code, again, page := ask("/tasks/"+id+"/reopen", shown)
	if code != http.StatusConflict || again.Get("was") != "COMPLETED" || !strings.Contains(page, "was not reopened: it is COMPLETED, and not BLOCKED any more") {
		t.Errorf("answered %d, with %v: %s", code, again, page)
	}
	if p, _ := m.notion.Page(id); !strings.Contains(fmt.Sprint(p), "COMPLETED") {
		t.Errorf("the page says %v", p)
	}
	if code, _, page := ask("/tasks/"+id+"/reopen", again); code != http.StatusOK || !strings.Contains(page, "The task is open again.") {
		t.Errorf("what was shown is reopened: answered %d %s", code, page)
	}
}
