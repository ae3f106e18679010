package notion_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// secretLike matches what could be a token of Notion's, or any other secret that
// goes with a request.
var secretLike = regexp.MustCompile(`(?i)\b(ntn|secret)_[a-z0-9]{8,}|authorization|bearer |cookie`)

// No cassette holds a token, or a header that could.
func TestNoTokenOnTape(t *testing.T) {
	tapes, err := filepath.Glob(filepath.Join(fixtures, "*"))
	if err != nil || len(tapes) < 10 {
		t.Fatalf("%d cassettes, %v", len(tapes), err)
	}
	for _, tape := range tapes {
		data, err := os.ReadFile(tape)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "ntn_redacted", "")
		if found := secretLike.FindString(text); found != "" {
			t.Errorf("%s holds %q", tape, found)
		}
	}
	for _, is := range []string{"ntn_0123456789abcdef", "Authorization: [x]", "Set-Cookie: y", "secret_0123456789"} {
		if !secretLike.MatchString(is) {
			t.Errorf("%q would not be found", is)
		}
	}
}
