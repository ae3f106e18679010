package packaging_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/testkit"
)

// TestReleaseRefuses runs release.sh where no release can be made. It has to say why in one line,
// and to leave nothing behind.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("release.sh")
	testkit.Must(t, err)
	// A build that is asked for would be one too many.
	build := "#!/bin/sh\necho 'the build was begun'\nexit 9\n"
	repository := t.TempDir()
	err = errors.Join(
		os.Mkdir(filepath.Join(repository, "packaging"), 0o755),
		os.WriteFile(filepath.Join(repository, "LICENSE"), []byte("free\n"), 0o644),
		os.WriteFile(filepath.Join(repository, ".gitignore"), []byte("/dist/\n"), 0o644),
		os.WriteFile(filepath.Join(repository, "packaging", "release.sh"), script, 0o755),
		os.WriteFile(filepath.Join(repository, "packaging", "build.sh"), []byte(build), 0o755))
	testkit.Must(t, err)
	bash := func(dir, script string, args ...string) *exec.Cmd {
		cmd := exec.Command("bash", append([]string{"-ec", script, "-"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x")
		return cmd
	}
	if out, err := bash(repository, "git init -q && git add . && git commit -qm first").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct {
		name    string
		version []string
		setup   string
		code    int
		want    string
	}{
		{"no version", nil, "", 2, "name the release to make, such as v1.2.3"},
		{"two", []string{"v1.2.3", "v1.2.4"}, "", 2, "name the release to make"},
		{"a commit", []string{"0ba5e1f"}, "", 2, `"0ba5e1f" is not the version of a release: name one like v1.2.3`},
		{"after a release", []string{"v1.2.3-4-g0ba5e1f"}, "", 2, "is not the version of a release"},
		{"not a number", []string{"v1.02.3"}, "", 2, "is not the version of a release"},
		{"changed", []string{"v1.2.3"}, "echo >>LICENSE", 1, "the tree is not clean (LICENSE): commit or stash what has changed"},
		{"new file", []string{"v1.2.3"}, "touch stray", 1, "the tree is not clean (stray)"},
		{"tag elsewhere", []string{"v1.2.3"}, "git tag v1.2.3 && git commit -q --allow-empty -m more", 1, "v1.2.3 is the tag of another commit"},
		{"dist", []string{"v1.2.3"}, "mkdir dist", 1, "dist is there already: move it away, or remove it with rm -r dist"},
		{"no repository", []string{"v1.2.3"}, "rm -rf .git", 1, "this is no git repository"},
		{"no URL", []string{"v1.2.3"}, "export DOWNLOADS=example.org", 1, `DOWNLOADS is "example.org", which is no URL`},
		{"good", []string{"v1.2.3"}, "git tag v1.2.3", 9, "the build was begun"},
		{"good, before a release", []string{"v1.2.3-rc.1"}, "", 9, "the build was begun"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.Must(t, os.CopyFS(dir, os.DirFS(repository)))
			cmd := bash(dir, tt.setup+"\nexec packaging/release.sh \"$@\"", tt.version...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("exit code %d, want %d with %q in one line:\n%s", code, tt.code, tt.want, out)
			}
			if made, _ := filepath.Glob(filepath.Join(dir, "dist", "*")); len(made) > 0 {
				t.Errorf("it left %v", made)
			}
		})
	}
}
