package place_test

import (
	"path/filepath"
	"slices"
	"testing"

	"dibs/internal/reserve/place"
)

func TestOrigin(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/acme/api.git":                  "github.com/acme/api",
		"https://GitHub.com/acme/api/":                     "github.com/acme/api",
		"https://maria:secret@github.com:443/acme/api.git": "github.com/acme/api",
		"git@github.com:acme/api.git":                      "github.com/acme/api",
		"github.com:acme/api":                              "github.com/acme/api",
		"ssh://git@example.org:2222/~maria/api.git/":       "example.org/~maria/api",
		"git+ssh://git@example.org/acme/API":               "example.org/acme/API",
		"https://example.org/acme/api?token=secret":        "example.org/acme/api",
		"https://[2001:db8::1]:8443/api.git":               "2001:db8::1/api",
		"/srv/git/api.git":                                 "",
		"../api":                                           "",
		"file:///srv/git/api.git":                          "",
		`C:\git\api`:                                       "",
		"C:/git/api":                                       "",
		"https://example.org/":                             "",
		"https://%zz/":                                     "",
		"":                                                 "",
	} {
		if got := place.Origin(remote); got != want {
			t.Errorf("%s is %q, want %q", remote, got, want)
		}
	}
}

// A file is known by where its repository was cloned from, too: in each clone and worktree.
func TestPlacesByOrigin(t *testing.T) {
	tr := newTree(t)
	tr.git("repo", "remote", "add", "backup", "https://example.org/backup.git")
	tr.git("repo", "remote", "add", "origin", "https://maria:secret@example.org/acme/api.git")
	for _, folder := range []string{"repo", "second"} {
		got, err := place.Paths(filepath.Join(tr.top, folder), []string{"src/a.go", "a-link"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"files:/" + folder + "/src/a.go", "origin:example.org/acme/api:/src/a.go", "repo/.git:/src/a.go"}
		if at := tr.at(got[0]); !slices.Equal(at, want) {
			t.Errorf("in %s: %v, want %v", folder, at, want)
		}
	}
	got, err := place.Patterns(filepath.Join(tr.top, "repo"), []string{"link/*.go"})
	if err != nil || len(got[0].At) != 6 {
		t.Errorf("a pattern below a link: %v, %v", got, err)
	}
}
