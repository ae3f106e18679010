package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"dibs/internal/journal"

	"github.com/spf13/cobra"
)

// The linker sets these in releases, see packaging/build.sh. date is the commit's, and tree is
// "clean" or "changed".
var version, commit, date, tree string

// build identifies the program, and the sources that it was built from as far as they are known.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Schema is the number of the journal's schema: older journals are carried over to it.
	Schema int `json:"schema"`
	// Date is when the commit was made, in the form of RFC 3339.
	Date string `json:"date,omitempty"`
	// Tree says whether the sources were those of the commit: "clean", or "changed".
	Tree string `json:"tree,omitempty"`
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	recorded := make(map[string]string)
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	return build{
		Version: cmp.Or(version, info.Main.Version), Schema: journal.Schema,
		Commit: cmp.Or(commit, recorded["vcs.revision"]),
		Date:   cmp.Or(date, recorded["vcs.time"]),
		Tree:   cmp.Or(tree, map[string]string{"false": "clean", "true": "changed"}[recorded["vcs.modified"]]),
		Go:     runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
}

func (b build) String() string {
	parts := []string{"dibs " + b.Version}
	if b.Commit == "" {
		parts = append(parts, "of an unknown commit")
	} else {
		commit := fmt.Sprintf("commit %.12s", b.Commit)
		if day, _, ok := strings.Cut(b.Date, "T"); ok {
			commit += " of " + day
		}
		parts = append(parts, commit)
	}
	switch b.Tree {
	case "clean":
		parts = append(parts, "from a clean tree")
	case "changed":
		parts = append(parts, "with changes")
	}
	return strings.Join(append(parts, b.Go, b.OS+"/"+b.Arch), ", ")
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show which dibs this is",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.print(b, func(w io.Writer) { row(w, b.String()) })
		},
	}
}
