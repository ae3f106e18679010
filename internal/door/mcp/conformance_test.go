package mcp_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"dibs/internal/api/client"
	"dibs/internal/door/mcp"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// scenarios are those of the conformance suite that fit any server; the others want tools,
// prompts and resources of their own names.
var scenarios = []string{
	"server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "prompts-list",
	"resources-subscribe", "resources-unsubscribe",
}

// TestConformance has the protocol's own suite look at the server. The suite speaks HTTP
// only, so that the server is put behind the SDK's. .ci/mcp installs the suite, in the
// folder that TEST_CLIENTS names.
func TestConformance(t *testing.T) {
	dir := os.Getenv("TEST_CLIENTS")
	switch {
	case testing.Short():
		t.Skip("takes seconds: left out with -short")
	case dir == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case dir == "":
		t.Skip("the suite is not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	b := mcp.New(t.Context(), mcp.Options{
		Agent: "Sandman", Version: "test", Log: slog.New(slog.DiscardHandler),
		Daemon: func() (*client.Client, error) { return nil, errors.New("there is none") },
	})
	defer b.Close()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.Server() }, nil))
	defer web.Close()
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(filepath.Join(dir, "node_modules", "node", "bin", "node"), filepath.Join(dir, "node_modules", ".bin", "conformance"),
				"server", "--url", web.URL, "--scenario", scenario)
			cmd.Dir = t.TempDir() // where it leaves its results
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
