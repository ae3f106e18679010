package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// TestPausesAreTold lets Notion ask for a pause that is too long to wait for.
func TestPausesAreTold(t *testing.T) {
	notion := testkit.Got(emulator.New(emulator.Options{}))(t)
	defer notion.Close()
	testkit.Got(notion.Seed("empty"))(t)
	notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 14 * time.Minute})
	server := httptest.NewServer(notion)
	defer server.Close()
	dibs := testkit.Got(exec.LookPath("dibs"))(t)
	for command, want := range map[string]string{
		"doctor": `(?m)^error    connection .*: Notion asked for a pause, which ends in 1\dm\d+s\n +→ try again then, `,
		"init":   `^dibs: databases\.tasks: .*: Notion asked for a pause, which ends in 1\dm\d+s \(try again in \d{3}s\)\n$`,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, dibs, command)
		cmd.Env = append(workspaceOf(server.URL, notion), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=10")
		out, err := cmd.CombinedOutput()
		testkit.Check(t, cmd.ProcessState.ExitCode() == 6 && regexp.MustCompile(want).Match(out), "%s: %v:\n%s", command, err, out)
	}
}

// TestDoctorTellsAsItGoes reads the doctor's findings while it waits for Notion, and then stops it.
func TestDoctorTellsAsItGoes(t *testing.T) {
	notion := testkit.Got(emulator.New(emulator.Options{}))(t)
	defer notion.Close()
	testkit.Got(notion.Seed("empty"))(t)
	var stopped sync.WaitGroup
	stopped.Add(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/users/me") {
			stopped.Wait()
		}
		notion.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer stopped.Done()
	dibs := testkit.Got(exec.LookPath("dibs"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // no test waits for ever
	defer cancel()
	doctor := exec.CommandContext(ctx, dibs, "doctor")
	doctor.Env = append(workspaceOf(server.URL, notion), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=10")
	var errs strings.Builder
	doctor.Stderr = &errs
	out, err := doctor.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, doctor.Start())
	lines := bufio.NewReader(out)
	for said := ""; !strings.HasPrefix(said, "ok       clock "); {
		if said, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v after %q", err, said)
		}
	}
	testkit.Must(t, doctor.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	testkit.Check(t, err == nil && len(rest) <= 0, "once stopped it said: %s, %v", rest, err)
	if doctor.Wait(); doctor.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "dibs: stopped: ") {
		t.Errorf("it ended with %v and said: %s", doctor.ProcessState, errs.String())
	}
}
