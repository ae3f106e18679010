package cli_test

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"dibs/internal/cli"
)

// printed matches the commands of the documentation, and their output.
var printed = regexp.MustCompile("(?s)```console\n\\$ dibs (simulate[^\n]*)\n(.*?)```")

// TestSimulateDocumentation runs the commands of the page and compares their output with what the
// page shows. With UPDATE_DOCS in the environment it updates the page.
func TestSimulateDocumentation(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the figures were made on amd64; another processor may round a latency differently")
	}
	takesSeconds(t)
	const file = "../../docs/simulate.md"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	want := printed.ReplaceAllStringFunc(string(doc), func(block string) string {
		commands++
		command := printed.FindStringSubmatch(block)[1]
		var stdout, stderr bytes.Buffer
		if code := cli.Main(t.Context(), strings.Fields(command), nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
		return "```console\n$ dibs " + command + "\n" + stdout.String() + "```"
	})
	switch {
	case commands == 0:
		t.Fatal("docs/simulate.md shows no command")
	case want == string(doc):
	case os.Getenv("UPDATE_DOCS") != "":
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/simulate.md does not show what its commands print; run this test with UPDATE_DOCS=1")
	}
}
