package place

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// repository is the git repository of a folder.
type repository struct {
	// top is the top folder of its worktree.
	top string
	// common is the common git directory, which all worktrees of the repository share, and which
	// identifies it; empty if there is no repository.
	common string
	// origin is where it was cloned from, the same for all of its clones; empty if that is not
	// known.
	origin string
}

// repository returns the repository of a resolved path.
func (f *Folder) repository(path string) repository {
	if r, known := f.repositories[path]; known {
		return r
	}
	r := repository{top: path, common: commonOf(path)}
	if up := filepath.Dir(path); r.common == "" && up != path {
		r = f.repository(up)
	} else if r.common == "" {
		r.top = ""
	} else {
		r.origin = originOf(r.common)
	}
	f.repositories[path] = r
	return r
}

// commonOf returns the common git directory of the worktree with that top folder; empty if there is
// none. It reads git's files itself, because running git would take too long for an editor that
// waits.
func commonOf(folder string) string {
	git := filepath.Join(folder, ".git")
	info, err := os.Stat(git)
	if err != nil {
		return ""
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return ""
	}
	if !info.IsDir() { // a worktree, or a submodule
		said, ok := firstLine(git)
		path, is := strings.CutPrefix(said, "gitdir: ")
		if !ok || !is {
			return ""
		}
		git = from(folder, path)
	}
	if _, err := os.Lstat(filepath.Join(git, "HEAD")); err != nil {
		return ""
	}
	if path, ok := firstLine(filepath.Join(git, "commondir")); ok {
		git = from(git, path)
	}
	real, err := filepath.EvalSymlinks(git)
	if err != nil {
		return ""
	}
	return real
}

// from returns an absolute path for a path relative to a folder; an absolute one stays as it is.
func from(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// maxLine is how much of one of git's files is read, in bytes.
const maxLine = 8192

func firstLine(file string) (line string, ok bool) {
	opened, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer opened.Close()
	data := make([]byte, maxLine)
	n, err := opened.Read(data)
	if err != nil {
		return "", false
	}
	line, _, _ = strings.Cut(string(data[:n]), "\n")
	return strings.TrimRight(line, "\r"), line != ""
}

// isNoFolder reports whether an error says that a path goes on below a file.
func isNoFolder(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// maxConfig is how much of a git configuration is read, in bytes.
const maxConfig = 1 << 20

// originOf returns the origin of the repository with that common git directory, see Origin; empty if
// it was not cloned, or cloned from a folder. Protocol, user, password and port do not matter, and are
// left out.
func originOf(common string) string {
	opened, err := os.Open(filepath.Join(common, "config"))
	if err != nil {
		return ""
	}
	defer opened.Close()
	origin, within := "", false
	lines := bufio.NewScanner(io.LimitReader(opened, maxConfig))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			within = strings.EqualFold(strings.TrimSpace(line), `[remote "origin"]`)
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		if within && origin == "" && strings.EqualFold(strings.TrimSpace(name), "url") {
			origin = Origin(strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return origin
}

// Origin returns the host and path of a repository's URL, such as github.com/acme/api. It takes all
// forms of URLs that git takes. It is empty for a folder.
func Origin(remote string) string {
	host, path := "", ""
	if scheme, _, is := strings.Cut(remote, "://"); is {
		u, err := url.Parse(remote)
		if err != nil || strings.EqualFold(scheme, "file") {
			return ""
		}
		host, path = u.Hostname(), u.Path
	} else {
		before, after, is := strings.Cut(remote, ":")
		if !is || strings.ContainsAny(before, `/\`) || len(before) < 2 { // C:\api is a folder
			return ""
		}
		_, host, is = strings.Cut(before, "@")
		if !is {
			host = before
		}
		path = after
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if path = strings.Trim(path, "/"); host == "" || path == "" {
		return ""
	}
	return strings.ToLower(host) + "/" + path
}
