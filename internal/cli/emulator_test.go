package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"

	"dibs/internal/cli"
	"dibs/internal/emulator"
)

// TestEmulatorTasks fills a new state, and only a new one.
func TestEmulatorTasks(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	for _, tasks := range []string{"45", "7"} {
		ctx, stop := context.WithCancel(t.Context())
		out, in := io.Pipe()
		var stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Main(ctx, []string{"emulator", "--json", "--seed", "empty", "--state", state, "--tasks", tasks}, nil, in, &stderr)
			in.Close()
		}()
		var where struct{ Databases emulator.Databases }
		if err := json.NewDecoder(out).Decode(&where); err != nil {
			t.Fatal(err)
		}
		stop()
		io.Copy(io.Discard, out)
		if code := <-ended; code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		e, err := emulator.New(emulator.Options{StateFile: state})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Pages(where.Databases.Tasks)); n != 45 {
			t.Errorf("--tasks %s: %d tasks, want 45", tasks, n)
		}
	}
}
