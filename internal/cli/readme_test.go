package cli_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// examples matches the README's shell blocks that are marked as examples.
var examples = regexp.MustCompile("(?s)<!-- example -->\n```sh\n(.*?)```")

// TestReadmeExamples runs the README's examples unchanged, one after the other in one shell.
func TestReadmeExamples(t *testing.T) {
	out := runExamples(t, "", "../../README.md")
	for _, want := range []string{`"agent":"Sandman","state":"held"`, "Steps to reproduce", "completed  Sandman"} {
		if !strings.Contains(out, want) {
			t.Errorf("the examples do not print %s", want)
		}
	}
}

// trying begins a page's examples with a trial.
const trying = "dibs try &\n" + ready

// TestExamplesOverHTTP runs that page's examples on a trial.
func TestExamplesOverHTTP(t *testing.T) {
	out := runExamples(t, trying, "../../docs/http.md")
	for _, want := range []string{
		`"agent":"Oracle","state":"held"`, `"outcome":"completed"`, `"summary":"Done."`, `"ready":true`,
		`"agent":"claude-chat-7K9X"`, `"claims_held":0`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the examples do not print %s", want)
		}
	}
}

// TestExamplesOfAnAgentsDay runs the examples of its two pages, one after the other, on a trial.
func TestExamplesOfAnAgentsDay(t *testing.T) {
	out := runExamples(t, trying+"export DIBS_SOCKET=~/.local/state/dibs-try/dibs.sock\n", "../../docs/agents.md", "../../docs/agents-http.md")
	for _, want := range []string{
		"tasks_available", "Steps to reproduce", `Sandman reserved ./src/login/`, `commented on TASK-2 "Fix login redirect loop on Safari"`,
		`completed TASK-2 "Fix login redirect loop on Safari"`, "which is blocked until a person opens it", `"Write the runbook for webhooks"`, "sent to Oracle",
		`"type":"message"`, `"agent":"Oracle","state":"held"`, `"written_by":"others"`, `{"paths":["a.go"]}`, `"summary":"Migrated, tried on a copy."`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the examples do not print %s", want)
		}
	}
}

// runExamples runs the examples of pages as one script, after the shell lines in before.
func runExamples(t *testing.T, before string, pages ...string) string {
	t.Helper()
	takesSeconds(t)
	var all []byte
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	home, err := os.MkdirTemp("", "dibs-readme-") // short: a socket's path may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	blocks := examples.FindAllStringSubmatch(string(all), -1)
	if len(blocks) == 0 {
		t.Fatal("found no examples on the page")
	}
	var script strings.Builder
	script.WriteString("set -eu\ntrap 'kill $(jobs -p)' EXIT\n" + before)
	for _, b := range blocks {
		for line := range strings.Lines(b[1]) {
			script.WriteString(line)
			if strings.HasSuffix(line, "&\n") {
				// Background commands must be up first.
				script.WriteString(ready)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.WaitDelay = 5 * time.Second
	// TestMain put dibs on the PATH. A trial ignores these settings of a real daemon.
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NOTION_TOKEN=ntn_real", "DIBS_SOCKET=/nowhere/dibs.sock"}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the examples failed: %v", err)
	}
	if strings.Contains(string(out), "urn:dibs:problem") {
		t.Error("an example was refused")
	}
	return string(out)
}

// ready waits, a bounded number of times, until the daemon answers.
const ready = `for i in $(seq 100); do
  if dibs try status >/dev/null 2>&1; then break; fi
  sleep 0.1
done
`
