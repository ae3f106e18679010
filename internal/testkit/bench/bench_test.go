// Package bench_test measures dibs from outside: the daemon and a Notion-compatible server as
// separate processes, agents that use the daemon's socket, and commands from a cold start.
//
//	go test -run=NONE -bench=. -benchtime=1x ./internal/testkit/bench [-args FLAGS]
//
// Every benchmark runs for the same time (-for), each with its own board, server and daemon, so
// that none depends on earlier ones. Before a daemon's work is counted, its outbox is delivered.
// The server has no rate limit, and without -latency no network: the figures then show the cost of
// dibs itself, not how long a claim takes with Notion.
package bench_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	dibsFlag = flag.String("dibs", "", "measure this `binary`, an absolute path, instead of one made from this source")
	length   = flag.Duration("for", 3*time.Second, "how long each benchmark measures")
	tasks    = flag.Int("tasks", 10_000, "how many tasks the board has")
	latency  = flag.Duration("latency", 0, "how long a request is on its way to Notion while claims are measured")
	settle   = flag.Duration("settle", 0, "claim.settle of the daemon, which is the only claimer")
)

// built is the program of this source, measured the one that is measured.
var built, measured string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// prepare builds the program if there is something to measure, and runs m.
func prepare(m *testing.M) (int, error) {
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	built = filepath.Join(dir, "dibs")
	if out, err := exec.Command("go", "build", "-o", built, "dibs/cmd/dibs").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	measured = built
	if *dibsFlag != "" {
		measured = *dibsFlag
		if !filepath.IsAbs(measured) {
			return 0, fmt.Errorf("-dibs %s: want an absolute path: tests run in the folder of their package", measured)
		}
	}
	code := m.Run()
	return code, figures.print(os.Stdout)
}
