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

// TestSimulateDocumentation runs the commands of the pages and compares their output and pictures
// with what the pages show. With UPDATE_DOCS in the environment it updates them.
func TestSimulateDocumentation(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the figures were made on amd64; another processor may round a latency differently")
	}
	t.Run("claim", func(t *testing.T) {
		compareDocumentation(t, "how-a-claim-works.md", "docs/how-a-claim-works.svg")
	})
	t.Run("races", func(t *testing.T) {
		takesSeconds(t)
		compareDocumentation(t, "simulate.md", "docs/races.svg")
	})
}

// compareDocumentation runs the commands of a page, one of which draws the picture.
func compareDocumentation(t *testing.T, page, picture string) {
	t.Helper()
	file := "../../docs/" + page
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE_DOCS") != ""
	pictures := 0
	want := printed.ReplaceAllStringFunc(string(doc), func(block string) string {
		command := printed.FindStringSubmatch(block)[1]
		drawn := filepath.Join(t.TempDir(), filepath.Base(picture))
		args := strings.Fields(strings.Replace(command, picture, drawn, 1))
		var stdout, stderr bytes.Buffer
		if code := cli.Main(t.Context(), args, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
		if strings.Contains(command, picture) {
			pictures++
			comparePicture(t, drawn, "../../"+picture, update)
		}
		return "```console\n$ dibs " + command + "\n" + stdout.String() + "```"
	})
	if pictures != 1 {
		t.Fatalf("%d commands of docs/%s draw %s", pictures, page, picture)
	}
	switch {
	case want == string(doc):
	case update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s does not show what its commands print; run this test with UPDATE_DOCS=1", page)
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
