package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/cli"
	"dibs/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	commandList = regexp.MustCompile(`(?ms)^  dibs.*? \[command\]\n(.*)^Flags:`)
	commandName = regexp.MustCompile(`(?m)^  (\S+) `)
	rareList    = regexp.MustCompile(`(?m)^Rarely needed, and not in the list: (.*)\.$`)
)

// TestHelp compares the help of every command with the recorded help.
func TestHelp(t *testing.T) {
	for _, name := range []string{"DIBS_AGENT", "DIBS_SOCKET", "DIBS_CONFIG"} {
		t.Setenv(name, "")
	}
	var all bytes.Buffer
	var show func(path []string)
	show = func(path []string) {
		var out, errs bytes.Buffer
		args := append(append([]string{}, path...), "--help")
		if code := cli.Main(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Fatalf("dibs %s: exit code %d, stderr %q", strings.Join(args, " "), code, &errs)
		}
		all.WriteString("=== dibs " + strings.Join(args, " ") + "\n" + out.String() + "\n")
		list := commandList.FindStringSubmatch(out.String())
		if list == nil {
			return
		}
		for _, name := range commandName.FindAllStringSubmatch(list[1], -1) {
			show(append(path[:len(path):len(path)], name[1]))
		}
		if rare := rareList.FindStringSubmatch(out.String()); rare != nil {
			for _, name := range strings.Split(rare[1], ", ") {
				show([]string{name})
			}
		}
	}
	show(nil)
	const golden = "testdata/help.golden"
	if *update {
		testkit.Must(t, os.WriteFile(golden, all.Bytes(), 0o644))
	}
	want := testkit.Got(os.ReadFile(golden))(t)
	testkit.Same(t, string(want), all.String(), "help")
}

// examples matches the README's shell blocks that are marked as examples.
var examples = regexp.MustCompile("(?s)<!-- example -->\n```sh\n(.*?)```")

// trying begins a page's examples with a trial.
const trying = "dibs try &\n" + ready

// TestReadmeExamples runs the README's examples unchanged, one after the other in one shell.
func TestReadmeExamples(t *testing.T) {
	testkit.Says(t, "what the examples print", runExamples(t, "", "../../README.md"),
		`"agent":"Sandman","state":"held"`, "Steps to reproduce", "completed  Sandman")
}

// TestExamplesOverHTTP runs that page's examples on a trial.
func TestExamplesOverHTTP(t *testing.T) {
	testkit.Says(t, "what the examples print", runExamples(t, trying, "../../docs/http.md"),
		`"agent":"Oracle","state":"held"`, `"outcome":"completed"`, `"summary":"Done."`, `"ready":true`,
		`"agent":"claude-chat-7K9X"`, `"claims_held":0`)
}

// TestExamplesOfAnAgentsDay runs the examples of its two pages, one after the other, on a trial.
func TestExamplesOfAnAgentsDay(t *testing.T) {
	out := runExamples(t, trying+"export DIBS_SOCKET=~/.local/state/dibs-try/dibs.sock\n", "../../docs/agents.md", "../../docs/agents-http.md")
	testkit.Says(t, "what the examples print", out,
		"tasks_available", "Steps to reproduce", `Sandman reserved ./src/login/`, `commented on TASK-2 "Fix login redirect loop on Safari"`,
		`completed TASK-2 "Fix login redirect loop on Safari"`, "which is blocked until a person opens it", `"Write the runbook for webhooks"`, "sent to Oracle",
		`"type":"message"`, `"agent":"Oracle","state":"held"`, `"written_by":"others"`, `{"paths":["a.go"]}`, `"summary":"Migrated, tried on a copy."`)
}

// runExamples runs the examples of pages as one script, after the shell lines in before.
func runExamples(t *testing.T, before string, pages ...string) string {
	t.Helper()
	takesSeconds(t)
	var all []byte
	for _, page := range pages {
		text := testkit.Got(os.ReadFile(page))(t)
		all = append(all, text...)
	}
	home := testkit.ShortDir(t)
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
	testkit.Require(t, err == nil, "the examples failed: %v", err)
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

// TestUsageLines runs the lines of docs/usage.md that take what clients used from their own output,
// on what these print.
func TestUsageLines(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("there is no jq")
	}
	page := testkit.Got(os.ReadFile("../../docs/usage.md"))(t)
	for program, said := range map[string]struct {
		file string
		want claim.Usage
	}{
		"claude": {"claude.json", claim.Usage{Tokens: 21 + 15202 + 88431 + 2346, Micros: 134282}},
		"codex":  {"codex.jsonl", claim.Usage{Tokens: 19508 + 705}},
	} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			output := testkit.Got(filepath.Abs(filepath.Join("testdata/usage", said.file)))(t)
			fake := "#!/bin/sh\ncat >/dev/null\ncat '" + output + "'\n"
			testkit.Must(t, os.WriteFile(filepath.Join(dir, program), []byte(fake), 0o755))
			tried := 0
			for block := range strings.SplitSeq(string(page), "```") {
				line, shell := strings.CutPrefix(block, "sh\n")
				if !shell || !strings.HasPrefix(line, program+" ") {
					continue
				}
				tried++
				used := filepath.Join(dir, "used")
				cmd := exec.Command("sh", "-ec", line)
				cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DIBS_TASK_FILE="+output, "DIBS_USAGE_FILE="+used)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s%v\n%s", line, err, out)
				}
				written := testkit.Got(os.ReadFile(used))(t)
				if got, err := api.ParseUsage(string(written)); err != nil || got.Report() != said.want {
					t.Errorf("%s: %+v, %v; want %+v", written, got, err, said.want)
				}
			}
			testkit.Check(t, tried == 1, "docs/usage.md has %d lines for %s", tried, program)
		})
	}
}

// printed matches the commands of the documentation, and their output.
var printed = regexp.MustCompile("(?s)```console\n\\$ dibs (simulate[^\n]*)\n(.*?)```")

// TestSimulateDocumentation runs the commands of the page and compares their output with what the
// page shows. The README has two numbers of that. With UPDATE_DOCS in the environment it updates the page.
func TestSimulateDocumentation(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the figures were made on amd64; another processor may round a latency differently")
	}
	testkit.Long(t)
	const file = "../../docs/simulate.md"
	doc := testkit.Got(os.ReadFile(file))(t)
	text := string(doc)
	byHand := testkit.Got(strconv.ParseFloat(regexp.MustCompile(`(?m)^write, read back at once +- +([\d.]+)%`).FindStringSubmatch(text)[1], 64))(t)
	byDibs := regexp.MustCompile(`(?m)^dibs +1\.6s +(\S+) `).FindStringSubmatch(text)[1]
	testkit.Says(t, "README.md", string(testkit.Got(os.ReadFile("../../README.md"))(t)), fmt.Sprintf("by hand %.0f, by dibs %s |", 10*byHand, byDibs))
	commands := 0
	want := printed.ReplaceAllStringFunc(string(doc), func(block string) string {
		commands++
		command := printed.FindStringSubmatch(block)[1]
		var stdout, stderr bytes.Buffer
		if code := cli.Main(t.Context(), strings.Fields(command), nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%s: exit code %d, stderr %q", command, code, &stderr)
		}
		return "```console\n$ dibs " + command + "\n" + stdout.String() + "```"
	})
	switch {
	case commands == 0:
		t.Fatal("docs/simulate.md shows no command")
	case want == string(doc):
	case os.Getenv("UPDATE_DOCS") != "":
		testkit.Must(t, os.WriteFile(file, []byte(want), 0o644))
	default:
		t.Error("docs/simulate.md does not show what its commands print; run this test with UPDATE_DOCS=1")
	}
}
