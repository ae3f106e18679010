package cli_test

import (
	"fmt"
	"os"

	"dibs/internal/testkit"
)

// A script's "sandboxed COMMAND…" runs a command without unix sockets.
func init() {
	programs["sandboxed"] = func() {
		fmt.Fprintln(os.Stderr, testkit.Sandboxed(os.Args[1:]...))
		os.Exit(1)
	}
}
