package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMCPClients runs the scripts in testdata/mcp, in which third-party clients use dibs mcp.
// .ci/mcp installs them in the folder named by TEST_CLIENTS.
func TestMCPClients(t *testing.T) {
	takesSeconds(t)
	dir := os.Getenv("TEST_CLIENTS")
	switch {
	case dir == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case dir == "":
		t.Skip("the clients are not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	t.Setenv("PATH", filepath.Join(dir, "node_modules", "node", "bin")+string(filepath.ListSeparator)+
		filepath.Join(dir, "node_modules", ".bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	runEndToEnd(t, "testdata/mcp")
}
