package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress returns a bar that shows on stderr how many of so many things are
// done, and goes away in the end. It shows nothing unless a person looks on.
func (a *app) progress(of int, what string) *progressbar.ProgressBar {
	file, ok := a.stderr.(*os.File)
	if ok {
		info, err := file.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return progressbar.NewOptions(of,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSetVisibility(ok),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}
