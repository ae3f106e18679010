package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// change replaces a text in a source file, whose path is relative to this folder.
type change struct{ file, what, by string }

// mutant builds this test with changes in the program, for daemons with a known fault, and returns
// the binary.
func mutant(t *testing.T, changes ...change) string {
	t.Helper()
	dir, replaced := t.TempDir(), make(map[string]string)
	for i, c := range changes {
		source, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), c.what); n != 1 {
			t.Fatalf("%s has %d times what is to be changed, want once: %s", c.file, n, c.what)
		}
		original, err := filepath.Abs(c.file)
		if err != nil {
			t.Fatal(err)
		}
		replaced[original] = filepath.Join(dir, fmt.Sprint("changed", i, ".go"))
		if err := os.WriteFile(replaced[original], []byte(strings.Replace(string(source), c.what, c.by, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	said, built := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	if err := os.WriteFile(said, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", said, "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return built
}
