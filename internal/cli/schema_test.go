package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// newPage makes an empty page in the workspace, as $PAGE.
func newPage(ts *testscript.TestScript, url, token string) {
	body := `{"parent":{"workspace":true},"properties":{"title":{"title":[{"text":{"content":"Team"}}]}}}`
	req, err := http.NewRequest("POST", url+"/v1/pages", strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Notion-Version", "2025-09-03")
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	var page struct {
		ID string `json:"id"`
	}
	ts.Check(json.NewDecoder(resp.Body).Decode(&page))
	ts.Setenv("PAGE", page.ID)
}

// property changes the type of a database's property, or removes it.
func property(ts *testscript.TestScript, _ bool, args []string) {
	var schema any
	if args[2] != "-" {
		schema = map[string]any{args[2]: map[string]any{}}
	}
	ts.Check(boardOf(ts).notion.EditSchema(args[0], map[string]any{args[1]: schema}))
}

// rename renames a property of a database.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.EditSchema(args[0], map[string]any{args[1]: map[string]any{"name": args[2]}}))
}

// addOption adds an option to a property.
func addOption(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.AddOption(args[0], args[1], args[2]))
}

// unshare revokes the connection's access to a database.
func unshare(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.Unshare(args[0]))
}
