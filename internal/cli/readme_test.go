package cli_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// examples finds the shell blocks of the README that are marked as examples.
var examples = regexp.MustCompile("(?s)<!-- example -->\n```sh\n(.*?)```")

// TestReadmeExamples runs the README's examples as they are printed, one after
// the other in one shell; only the port is one that is free here.
func TestReadmeExamples(t *testing.T) {
	takesSeconds(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "dibs-readme-") // short: a socket's path may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	bin := filepath.Join(home, "bin")
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "dibs"), "dibs/cmd/dibs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	blocks := examples.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 4 {
		t.Fatalf("found %d examples in the README, want at least 4", len(blocks))
	}
	var script strings.Builder
	script.WriteString("set -eu\ntrap 'kill $(jobs -p)' EXIT\n")
	for _, b := range blocks {
		for line := range strings.Lines(b[1]) {
			script.WriteString(line)
			if strings.HasSuffix(line, "&\n") {
				// What was put into the background has to come up first.
				script.WriteString(ready)
			}
		}
	}
	printed := "127.0.0.1:8787"
	if !strings.Contains(script.String(), printed) {
		t.Fatalf("the examples do not use %s", printed)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(script.String(), printed, freeAddress(t)))
	cmd.WaitDelay = 5 * time.Second
	// The examples say nothing of timing.
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH")}, realTime...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the examples failed: %v", err)
	}
	for _, want := range []string{
		`"agent":"Sandman","state":"held"`, `"agent":"Oracle","state":"held"`, `"outcome":"completed"`,
		`"summary":"Done."`, `"ready":true`, `"former":"claude-chat-7K9X"`, `"claims_held":0`, "completed  Sandman",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the examples do not print %s", want)
		}
	}
	if strings.Contains(string(out), "urn:dibs:problem") {
		t.Error("an example was refused")
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ready waits, a bounded number of times, until the board and, once there is to
// be one, the daemon answer.
const ready = `for i in $(seq 100); do
  if curl -s -o /dev/null http://127.0.0.1:8787/v1/users/me && { [ -z "${DIBS_SOCKET-}" ] || dibs status >/dev/null 2>&1; }; then break; fi
  sleep 0.1
done
`
