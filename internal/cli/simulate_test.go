package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"dibs/internal/cli"
)

// printed matches the commands of the documentation, and their output.
var printed = regexp.MustCompile("(?s)```console\n\\$ dibs (simulate[^\n]*)\n(.*?)```")

// TestSimulateDocumentation runs the commands of docs/simulate.md and compares their output and
// pictures with the page. With UPDATE_DOCS in the environment it updates the page.
func TestSimulateDocumentation(t *testing.T) {
	takesSeconds(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the figures were made on amd64; another processor may round a latency differently")
	}
	const page, picture = "../../docs/simulate.md", "docs/races.svg"
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE_DOCS") != ""
	commands := 0
	want := printed.ReplaceAllStringFunc(string(doc), func(block string) string {
		commands++
		command := printed.FindStringSubmatch(block)[1]
		drawn := filepath.Join(t.TempDir(), "races.svg")
		args := strings.Fields(strings.Replace(command, picture, drawn, 1))
		var stdout, stderr bytes.Buffer
		if code := cli.Main(t.Context(), args, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
		if strings.Contains(command, picture) {
			comparePicture(t, drawn, "../../"+picture, update)
		}
		return "```console\n$ dibs " + command + "\n" + stdout.String() + "```"
	})
	if commands == 0 {
		t.Fatal("the documentation has no commands")
	}
	switch {
	case want == string(doc):
	case update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/simulate.md does not show what its commands print; run this test with UPDATE_DOCS=1")
	}
}

func comparePicture(t *testing.T, drawn, shown string, update bool) {
	t.Helper()
	want, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.WriteFile(shown, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(shown); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the command draws (%v); run this test with UPDATE_DOCS=1", shown, err)
	}
}
