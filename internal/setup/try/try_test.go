package try_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/try"
	"dibs/internal/testkit"
)

// TestStart starts trials in folders with long paths, and with boards that cannot be read.
func TestStart(t *testing.T) {
	for name, tt := range map[string]struct{ below, board, want string }{
		"a path too long for a socket": {below: strings.Repeat("d", 100)},
		"an empty board":               {board: "", want: "board.json"},
		"half a board":                 {board: `{"databases":`, want: "move the file away to start anew"},
		"no board at all":              {board: `[]`, want: "move the file away to start anew"},
		"a board of nothing":           {board: `null`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), tt.below)
			board := filepath.Join(dir, "board.json")
			testkit.Must(t, os.MkdirAll(dir, 0o700))
			if tt.below == "" {
				testkit.Must(t, os.WriteFile(board, []byte(tt.board), 0o600))
			}
			running, err := try.Start(t.Context(), try.Options{Dir: dir, Limit: 180, StateFile: board})
			if tt.want != "" {
				testkit.Check(t, err != nil && strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), "\n"),
					"got %v, want one line with %q", err, tt.want)
				return
			}
			testkit.Must(t, err)
			if conn, err := net.Dial("unix", running.Config.Socket); err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			if own := filepath.Dir(running.Config.Socket); own != dir {
				t.Cleanup(func() { os.RemoveAll(own) })
			}
			ended, end := context.WithCancel(t.Context())
			end()
			testkit.OK(t, running.Run(ended))
		})
	}
}
