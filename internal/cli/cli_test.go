package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"dibs/internal/cli"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// The tests and dibs have small heaps. To collect them as often as usual takes a fifth of the processor.
	debug.SetGCPercent(400)
	// Most scripts wait for a daemon that waits. So more run side by side than there are cores.
	flag.Lookup("test.parallel").Value.Set("4")
	testscript.Main(m, programs)
}

// programs are what the test binary can be run as.
var programs = map[string]func(){
	"dibs": func() {
		// Like cmd/dibs.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	},
	several: func() {
		if err := runSeveral(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	},
}

// takesSeconds skips a slow test with -short.
func takesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
}

// TestScripts runs the scripts in testdata. Besides the usual commands, they have
//
//	runs dibs COMMAND…   run a command of dibs that must succeed, in a process that runs others, see several
//	exits CODE COMMAND…  run a command that must end with this exit code; dibs as runs does, with exec before it in a process of its own
//	daemon FILE          answer on $DIBS_SOCKET as FILE says, see exchange
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("XDG_RUNTIME_DIR", "")
			env.Setenv("DIBS_SOCKET", env.WorkDir+"/d.sock")
			env.Setenv("DIBS_AGENT", "Sandman")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=10") // instead of a second at the end of each command
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"runs":  runs,
			"exits": exits,
			"daemon": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: daemon file")
				}
				startDaemon(t, ts, args[0])
			},
		},
	})
}

// TestMainInterrupted interrupts a command that waits.
func TestMainInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal"))
	var stdout, stderr bytes.Buffer
	code := cli.Main(ctx, []string{"status", "--socket", "/nowhere/dibs.sock"}, nil, &stdout, &stderr)
	if code != 1 || stdout.Len() > 0 || stderr.String() != "dibs: stopped: interrupt signal\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

// brokenPipe is a stdout that cannot be written.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestMainCannotPrint runs a command that cannot write its output.
func TestMainCannotPrint(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}} {
		var stderr bytes.Buffer
		if code := cli.Main(t.Context(), args, nil, brokenPipe{}, &stderr); code != 1 || !bytes.Contains(stderr.Bytes(), []byte("no space left on device")) {
			t.Errorf("%v: exit code %d, stderr %q", args, code, &stderr)
		}
	}
}
