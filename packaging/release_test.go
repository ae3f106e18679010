package packaging_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageVersions lists versions, each later than the one before.
func TestPackageVersions(t *testing.T) {
	dpkg, _ := exec.LookPath("dpkg")
	form := regexp.MustCompile(`^[0-9][0-9A-Za-z.+~]*$`) // of deb and rpm both
	before := ""
	for _, tt := range []struct{ described, want string }{
		{"b7947dd", "0+gb7947dd"},
		{"b7947dd-dirty", "0+gb7947dd.dirty"},
		{"v0.1", "0.1"},
		{"v1.2.3-rc.1", "1.2.3~rc.1"},
		{"v1.2.3-rc.1-4-g0ba5e1f", "1.2.3~rc.1+4.g0ba5e1f"},
		{"v1.2.3-rc-2", "1.2.3~rc.2"},
		{"v1.2.3", "1.2.3"},
		{"v1.2.3-4-g0ba5e1f", "1.2.3+4.g0ba5e1f"},
		{"v1.2.3-4-g0ba5e1f-dirty", "1.2.3+4.g0ba5e1f.dirty"},
		{"v1.2.3-12-gdeadbee", "1.2.3+12.gdeadbee"},
		{"v1.2.3-dirty", "1.2.3+dirty"},
		{"v1.2.3+meta-x-2-gdeadbee", "1.2.3+meta.x.2.gdeadbee"},
		{"1.10.0", "1.10.0"},
	} {
		out, err := exec.Command("./version.sh", tt.described).Output()
		got := strings.TrimSpace(string(out))
		if err != nil || got != tt.want || !form.MatchString(got) {
			t.Errorf("%s: %q, %v, want %q", tt.described, got, err, tt.want)
		}
		if dpkg == "" {
			continue
		}
		if out, err := exec.Command(dpkg, "--validate-version", got).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", got, err, out)
		}
		if before != "" && exec.Command(dpkg, "--compare-versions", before, "lt", got).Run() != nil {
			t.Errorf("to dpkg, %s is not later than %s", got, before)
		}
		before = got
	}
	for _, described := range []string{"", "dev", "v1.2 3", "../x"} {
		if out, err := exec.Command("./version.sh", described).Output(); err == nil {
			t.Errorf("%q became %q, want an error", described, out)
		}
	}
}

// TestRelease runs build.sh with a fake Go, whose programs do nothing, and a fake nfpm if there is
// none.
func TestRelease(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"packaging", "config.example.yaml", "LICENSE"} {
		if out, err := exec.Command("cp", "-R", filepath.Join("..", name), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	program := func(name, script string) error {
		return os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nset -e\n"+script), 0o755)
	}
	err := errors.Join(
		program("program", "[ \"$1\" != man ] || { mkdir \"$2\"; : >\"$2/dibs.1\"; }\n"),
		program("go", `
[ "$1" = build ] || { echo linux; exit; }
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
cp "`+bin+`/program" "$2"
`))
	nfpm, _ := exec.LookPath("nfpm")
	if nfpm == "" {
		err = errors.Join(err, program("nfpm", `: >"dist/dibs_${PACKAGE_VERSION}_$ARCH.$5"`+"\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command(filepath.Join(dir, "packaging", "build.sh"))
	build.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
		"VERSION=v1.2.3-4-g0ba5e1f", "COMMIT=0ba5e1f", "SOURCE_DATE_EPOCH=1700000000", "TARGETS=linux/amd64 darwin/arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "dist", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	made := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, "dist", pattern))
		if err != nil || len(found) != 1 || !bytes.Contains(sums, []byte("  "+filepath.Base(found[0])+"\n")) {
			t.Fatalf("%s: %v, %v, and in SHA256SUMS:\n%s", pattern, found, err, sums)
		}
		return found[0]
	}
	made("dibs_v1.2.3-4-g0ba5e1f_linux_amd64")
	made("dibs_v1.2.3-4-g0ba5e1f_darwin_arm64")
	made("dibs?1.2.3+4.g0ba5e1f*.rpm")
	deb := made("dibs_1.2.3+4.g0ba5e1f_amd64.deb")
	if reader, _ := exec.LookPath("dpkg-deb"); nfpm != "" && reader != "" {
		version, err := exec.Command(reader, "-f", deb, "Version").CombinedOutput()
		if got := strings.TrimSpace(string(version)); err != nil || got != "1.2.3+4.g0ba5e1f" {
			t.Errorf("%s: %v: %s", deb, err, got)
		}
	}
}
