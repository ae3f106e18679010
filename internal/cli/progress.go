package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress returns a progress bar on stderr that disappears at the end. It is shown only on a
// terminal.
func (a *app) progress(of int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(of,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSetVisibility(a.watched()),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// watched reports whether stderr is a terminal.
func (a *app) watched() bool { return isTerminal(a.stderr) }

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
