// Package internal_test checks which package may import which.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists what the packages of this module may import of each other,
// outside their tests. Arrows point one way: from the commands to the daemon, from the
// daemon to the adapters, and from everything to the protocol and its nouns.
var allowed = map[string][]string{
	"cmd/dibs": {"internal/cli"},
	"config":   {"internal/ownfile", "internal/task"},

	"internal/task":            {},
	"internal/ownfile":         {},
	"internal/usertest":        {},
	"internal/member":          {"internal/clock", "internal/journal", "internal/ownfile"},
	"internal/pgtest":          {"internal/postgres"},
	"internal/postgres":        {},
	"internal/ramdisk":         {},
	"internal/detector":        {},
	"internal/agenda":          {},
	"internal/allowance":       {},
	"internal/clock":           {},
	"internal/keylock":         {},
	"internal/claim":           {"internal/agenda", "internal/clock", "internal/keylock", "internal/task"},
	"internal/claim/claimsim":  {"internal/claim", "internal/clock", "internal/task"},
	"internal/claim/claimtest": {"internal/claim", "internal/claim/claimsim", "internal/task"},

	"internal/feed":            {"internal/claim", "internal/task"},
	"internal/inbox":           {"internal/claim", "internal/feed", "internal/task", "internal/worklog"},
	"internal/inbox/inboxtest": {"internal/inbox"},
	"internal/mirror":          {"internal/claim", "internal/task"},
	"internal/creation":        {"internal/claim", "internal/keylock", "internal/task"},
	"internal/worklog":         {"internal/claim", "internal/task"},
	"internal/others":          {"internal/claim", "internal/clock", "internal/task", "internal/worklog"},
	"internal/metrics":         {"internal/api", "internal/claim"},
	"internal/ready":           {"internal/agenda", "internal/task"},
	"internal/names":           {},
	"internal/history":         {"internal/claim"},
	"internal/session":         {"internal/alive"},
	"internal/service":         {},
	"internal/alive":           {"internal/claim"},
	"internal/reserve":         {"internal/alive", "internal/allowance", "internal/claim"},
	// It looks at the file system as the caller sees it; the daemon never does.
	"internal/reserve/place": {"internal/reserve"},
	"internal/broker":        {"internal/alive", "internal/api", "internal/claim", "internal/creation", "internal/feed", "internal/history", "internal/inbox", "internal/mirror", "internal/names", "internal/ready", "internal/reserve", "internal/task"},

	// The transport is known to nobody but the adapter that it carries.
	"internal/notion/transport":               {"internal/claim", "internal/clock", "internal/task"},
	"internal/notion/transport/transporttest": {},

	// Adapters never import each other.
	"internal/notion":            {"internal/claim", "internal/notion/transport", "internal/task", "internal/worklog"},
	"internal/journal":           {"internal/alive", "internal/claim", "internal/creation", "internal/feed", "internal/history", "internal/inbox", "internal/names", "internal/ownfile", "internal/reserve", "internal/task", "internal/worklog"},
	"internal/emulator":          {},
	"internal/api":               {"internal/claim", "internal/feed", "internal/inbox", "internal/reserve", "internal/task"},
	"internal/api/peer":          {},
	"internal/server":            {"internal/alive", "internal/allowance", "internal/api", "internal/api/peer", "internal/broker", "internal/claim", "internal/creation", "internal/feed", "internal/history", "internal/inbox", "internal/keylock", "internal/ownfile", "internal/reserve", "internal/task"},
	"internal/api/client":        {"internal/api", "internal/api/peer", "internal/ownfile", "internal/reserve", "internal/reserve/place", "internal/task"},
	"internal/server/servertest": {"internal/alive", "internal/api", "internal/server", "internal/broker", "internal/claim", "internal/feed", "internal/inbox", "internal/reserve", "internal/task"},

	"internal/journal/journaltest": {"internal/journal", "internal/pgtest"},

	"internal/daemon": {
		"config", "internal/alive", "internal/api", "internal/server", "internal/broker", "internal/claim", "internal/creation", "internal/feed", "internal/history", "internal/inbox", "internal/journal",
		"internal/member", "internal/metrics", "internal/mirror", "internal/names", "internal/notion", "internal/others", "internal/ownfile", "internal/reserve", "internal/task", "internal/worklog", "internal/workspace",
	},
	"internal/workspace": {"config", "internal/notion", "internal/task"},
	"internal/setup": {
		"config", "internal/claim", "internal/notion", "internal/task", "internal/worklog", "internal/workspace",
	},
	"internal/doctor": {
		"config", "internal/api", "internal/api/client", "internal/claim", "internal/daemon", "internal/journal", "internal/member",
		"internal/notion", "internal/task", "internal/worklog", "internal/workspace",
	},
	"internal/trial": {"config", "internal/daemon", "internal/emulator", "internal/ownfile"},
	"internal/demo": {
		"config", "internal/api", "internal/api/client", "internal/board", "internal/claim", "internal/clock", "internal/emulator", "internal/postgres", "internal/task", "internal/trial",
	},

	"internal/board":       {"internal/api", "internal/api/client", "internal/board/chart", "internal/claim", "internal/feed", "internal/task"},
	"internal/board/chart": {},

	"internal/runner":   {"internal/api", "internal/api/client", "internal/claim", "internal/clock", "internal/ownfile", "internal/task"},
	"internal/hook":     {"internal/task"},
	"internal/connect":  {"internal/ownfile"},
	"packaging":         {},
	"internal/mcp":      {"internal/api", "internal/api/client", "internal/claim", "internal/clock", "internal/inbox", "internal/task"},
	"internal/simulate": {"internal/claim", "internal/claim/claimsim", "internal/task"},
	"internal/cli": {
		"config", "internal/api", "internal/api/client", "internal/board", "internal/claim", "internal/connect", "internal/daemon", "internal/demo",
		"internal/doctor", "internal/emulator", "internal/feed", "internal/hook", "internal/mcp", "internal/ownfile", "internal/reserve", "internal/runner", "internal/service", "internal/session", "internal/setup", "internal/simulate", "internal/task", "internal/trial", "internal/workspace",
		"packaging",
	},
}

func TestImportsPointOneWay(t *testing.T) {
	root := ".."
	seen := make(map[string]bool)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		may, known := allowed[pkg]
		if !known {
			if !seen[pkg] {
				t.Errorf("package %s is not in the list; say what it may import", pkg)
			}
			seen[pkg] = true
			return nil
		}
		seen[pkg] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, ok := strings.CutPrefix(imported, "dibs/"); ok && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s, which %s must not", rel, ours, pkg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("package %s is in the list and does not exist", pkg)
		}
	}
}
