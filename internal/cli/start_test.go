package cli_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// initialized matches a package of dibs in a trace of a program's start, with the bytes it allocates.
var initialized = regexp.MustCompile(`(?m)^init (dibs/\S+) .* (\d+) bytes`)

// TestStartsLight starts dibs and looks at what its packages make before main. Every command pays
// for that, so templates and costly patterns are made at first use.
func TestStartsLight(t *testing.T) {
	cmd := exec.Command("dibs", "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	packages := initialized.FindAllStringSubmatch(trace.String(), -1)
	if len(packages) == 0 {
		t.Fatalf("no package of dibs is in the trace %q", &trace)
	}
	for _, p := range packages {
		if bytes, err := strconv.Atoi(p[2]); err != nil || bytes > 80<<10 {
			t.Errorf("%s allocates %s bytes at the start of each command; make what is large at first use, with sync.OnceValue", p[1], p[2])
		}
	}
}
