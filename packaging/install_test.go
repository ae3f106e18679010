package packaging_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dibs/internal/testkit"
)

// release makes a folder as release.sh does, with a program that only knows its version and, where
// more is named, further man pages.
func release(t *testing.T, version string, pages ...string) string {
	t.Helper()
	name := fmt.Sprintf("dibs_%s_%s_%s", version, runtime.GOOS, runtime.GOARCH)
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	files := []string{
		"dibs", "LICENSE", "config.example.yaml", "man/dibs.1.gz", "completions/dibs.bash", "completions/dibs.zsh", "completions/dibs.fish",
	}
	for _, file := range append(files, pages...) {
		content := "#!/bin/sh\necho dibs " + version + "\n"
		err := w.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o755, Size: int64(len(content))})
		if _, failed := w.Write([]byte(content)); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	dir := t.TempDir()
	testkit.Must(t, errors.Join(w.Close(), z.Close(), os.WriteFile(filepath.Join(dir, name+".tar.gz"), archive.Bytes(), 0o644)))
	sums := fmt.Sprintf("%x  %s.tar.gz\n%x  dibs_%s_plan9_mips.tar.gz\n", sha256.Sum256(archive.Bytes()), name, sha256.Sum256(nil), version)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o644))
	return dir
}

// machine is somebody's home, where install.sh is run.
type machine struct {
	t         *testing.T
	home, bin string // bin has programs that stand in for the system's
}

func newMachine(t *testing.T) machine { return machine{t, t.TempDir(), t.TempDir()} }

// fake puts a program before the system's.
func (m machine) fake(name, script string) {
	m.t.Helper()
	testkit.Must(m.t, os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// sh runs a script in which $1 is the path of install.sh.
func (m machine) sh(script string, env ...string) (string, error) {
	m.t.Helper()
	path, err := filepath.Abs("install.sh")
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script, "-", path)
	cmd.Dir = m.home
	cmd.Env = append([]string{"HOME=" + m.home, "PATH=" + m.bin + ":" + os.Getenv("PATH")}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m machine) files() []string {
	m.t.Helper()
	var found []string
	err := filepath.WalkDir(m.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, strings.TrimPrefix(path, m.home+"/"))
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

func mustSay(t *testing.T, out string, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		testkit.Check(t, err == nil && strings.Contains(out, w), "%v, want %q:\n%s", err, w, out)
	}
}

// TestInstall installs, again, another version, and uninstalls.
func TestInstall(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	one := release(t, "v1.2.3", "man/dibs-old.1.gz")
	two := httptest.NewServer(http.FileServer(http.Dir(release(t, "v1.3.0-rc.1", "man/dibs-new.1.gz"))))
	defer two.Close()
	mine := filepath.Join(m.home, ".local", "bin", "mine")
	testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(mine), 0o755), os.WriteFile(mine, nil, 0o755)))

	out, err := m.sh(`sh "$1"`, "DIBS_DOWNLOADS=file://"+one)
	mustSay(t, out, err, "Installed dibs v1.2.3\n", "as "+m.home+"/.local/bin/dibs\n", "export PATH=", "Next: dibs try")
	for _, file := range []string{
		"bin/dibs", "share/man/man1/dibs.1.gz", "share/man/man1/dibs-old.1.gz", "share/zsh/site-functions/_dibs",
		"share/bash-completion/completions/dibs", "share/fish/vendor_completions.d/dibs.fish", "share/dibs/config.example.yaml", "share/dibs/LICENSE",
	} {
		testkit.Check(t, slices.Contains(m.files(), ".local/"+file), "there is no %s in %v", file, m.files())
	}
	before := m.files()
	out, err = m.sh(`sh "$1"`, "DIBS_DOWNLOADS=file://"+one+"/")
	mustSay(t, out, err, "Installed again dibs v1.2.3\n", "restart it")
	testkit.Check(t, slices.Equal(m.files(), before), "a second time left %v, not %v", m.files(), before)

	out, err = m.sh(`cat "$1" | sh`, "DIBS_DOWNLOADS="+two.URL)
	mustSay(t, out, err, "Replaced dibs v1.2.3\nwith     dibs v1.3.0-rc.1\n")
	if found := m.files(); slices.Contains(found, ".local/share/man/man1/dibs-old.1.gz") || !slices.Contains(found, ".local/share/man/man1/dibs-new.1.gz") {
		t.Errorf("the upgrade left %v", found)
	}

	out, err = m.sh(`sh "$1" --uninstall`)
	mustSay(t, out, err, "Removed dibs from "+m.home+"/.local", "What stays:")
	if found := m.files(); !slices.Equal(found, []string{".local/bin/mine"}) {
		t.Errorf("removing it left %v", found)
	}
	out, err = m.sh(`sh "$1" --uninstall`)
	if err == nil || !strings.Contains(out, "there is nothing to remove in "+m.home+"/.local") {
		t.Errorf("a second time: %v\n%s", err, out)
	}
}

// TestInstallBesideTheFiles runs the script from the folder of a release, and with PREFIX.
func TestInstallBesideTheFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := release(t, "v1.2.3")
	prefix := filepath.Join(m.home, "a place")
	out, err := m.sh(`cp "$1" "`+dir+`" && cd / && sh "`+dir+`/install.sh"`, "PREFIX="+prefix)
	mustSay(t, out, err, "as "+prefix+"/bin/dibs\n")
	if found := m.files(); !slices.Contains(found, "a place/bin/dibs") {
		t.Errorf("it installed %v", found)
	}
}

// TestInstallWithWget runs the script where there is no curl, and little else.
func TestInstallWithWget(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, name := range []string{
		"sh", "cp", "dirname", "grep", "gzip", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tail", "tar", "uname", "wget", "xargs",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s here", name)
		}
		testkit.Must(t, os.Symlink(path, filepath.Join(m.bin, name)))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(release(t, "v1.2.3"))))
	defer server.Close()
	out, err := m.sh(`sh "$1"`, "PATH="+m.bin, "DIBS_DOWNLOADS="+server.URL)
	mustSay(t, out, err, "Installed dibs v1.2.3\n")
	server.Close()
	out, err = m.sh(`sh "$1"`, "PATH="+m.bin, "DIBS_DOWNLOADS="+server.URL)
	if err == nil || !strings.Contains(out, "check the network") || strings.Count(out, "\n") != 1 {
		t.Errorf("without a network: %v\n%s", err, out)
	}
	testkit.Must(t, os.Remove(filepath.Join(m.bin, "wget")))
	out, err = m.sh(`sh "$1"`, "PATH="+m.bin, "DIBS_DOWNLOADS="+server.URL)
	if err == nil || !strings.Contains(out, "neither curl nor wget is installed") || strings.Count(out, "\n") != 1 {
		t.Errorf("without either: %v\n%s", err, out)
	}
}

// TestInstallRefuses has the script fail: it says why in one line, and what was installed stays.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	good := release(t, "v1.2.3")
	broken := release(t, "v1.3.0")
	archive, err := filepath.Glob(filepath.Join(broken, "*.tar.gz"))
	if err != nil || len(archive) != 1 {
		t.Fatal(archive, err)
	}
	testkit.Must(t, os.WriteFile(archive[0], []byte("another"), 0o644))
	other := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(other, "SHA256SUMS"), []byte("0  dibs_v1.2.3_plan9_mips.tar.gz\n"), 0o644))
	server := httptest.NewServer(http.NotFoundHandler())
	missing := server.URL
	gone := httptest.NewServer(nil)
	gone.Close()
	defer server.Close()

	for _, tt := range []struct {
		name, script string
		env          []string
		fakes        map[string]string
		want         string
	}{
		{name: "nowhere", want: "set DIBS_DOWNLOADS to the URL of the folder"},
		{name: "no network", env: []string{"DIBS_DOWNLOADS=" + gone.URL}, want: "check the network and DIBS_DOWNLOADS, then try again"},
		{name: "not found", env: []string{"DIBS_DOWNLOADS=" + missing}, want: "cannot download " + missing + "/SHA256SUMS"},
		{name: "no folder", env: []string{"DIBS_DOWNLOADS=file:///nowhere"}, want: "there is no SHA256SUMS in /nowhere"},
		{name: "no URL", env: []string{"DIBS_DOWNLOADS=example.org"}, want: `DIBS_DOWNLOADS is "example.org"`},
		{name: "wrong sum", env: []string{"DIBS_DOWNLOADS=file://" + broken}, want: "is not the file that SHA256SUMS names"},
		{name: "other systems only", env: []string{"DIBS_DOWNLOADS=file://" + other}, want: "names no archive for"},
		{name: "Windows", env: []string{"DIBS_DOWNLOADS=file://" + good}, fakes: map[string]string{"uname": `[ "$1" = -m ] && echo x86_64 || echo MINGW64_NT-10.0`}, want: "only for Linux and macOS; on Windows, try it inside WSL"},
		{name: "32 bit", env: []string{"DIBS_DOWNLOADS=file://" + good}, fakes: map[string]string{"uname": `[ "$1" = -m ] && echo i686 || echo Linux`}, want: "no dibs for i686 processors"},
		{name: "relative", env: []string{"PREFIX=here"}, want: `PREFIX is "here": write the whole path`},
		{name: "not mine", env: []string{"PREFIX=/dev/null/x", "DIBS_DOWNLOADS=file://" + good}, want: "you may not write to /dev/null/x/bin: set PREFIX"},
		{name: "no home", env: []string{"HOME="}, want: "neither PREFIX nor HOME is set"},
		{name: "unknown", script: `sh "$1" --root`, want: `"--root" is not known here`},
		{name: "cut off", script: `head -n -1 "$1" | sh; echo done; exit 1`, env: []string{"DIBS_DOWNLOADS=file://" + broken}, want: "done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			installed := filepath.Join(m.home, ".local", "bin", "dibs")
			testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(installed), 0o755), os.WriteFile(installed, []byte("#!/bin/sh\necho dibs v1.2.3\n"), 0o755)))
			before := m.files()
			for name, script := range tt.fakes {
				m.fake(name, script)
			}
			if tt.script == "" {
				tt.script = `sh "$1"`
			}
			out, err := m.sh(tt.script, tt.env...)
			if err == nil || !strings.Contains(out, tt.want) || strings.Count(out, "\n") != 1 {
				t.Errorf("%v, want %q in one line:\n%s", err, tt.want, out)
			}
			testkit.Check(t, slices.Equal(m.files(), before), "it left %v, not %v", m.files(), before)
			if out, err := exec.Command(installed).Output(); err != nil || string(out) != "dibs v1.2.3\n" {
				t.Errorf("what was installed says %s, %v", out, err)
			}
		})
	}
}
