package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker in releases, see packaging/build.sh.
var version, commit string

// build identifies the program.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified is set if the sources differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

func thisBuild() build {
	b := build{Version: version, Commit: commit}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	s := "dibs " + b.Version
	if b.Commit != "" {
		s += fmt.Sprintf(", commit %.12s", b.Commit)
	}
	if b.Modified {
		s += " with changes"
	}
	return s + ", " + b.Go
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
