package place

import (
	"bufio"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

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
