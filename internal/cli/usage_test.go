package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// TestUsageLines runs the lines of docs/usage.md that take what clients used from their own output,
// on what these print.
func TestUsageLines(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("there is no jq")
	}
	page, err := os.ReadFile("../../docs/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	for program, said := range map[string]struct {
		file string
		want claim.Usage
	}{
		"claude": {"claude.json", claim.Usage{Tokens: 21 + 15202 + 88431 + 2346, Micros: 134282}},
		"codex":  {"codex.jsonl", claim.Usage{Tokens: 19508 + 705}},
	} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			output, err := filepath.Abs(filepath.Join("testdata/usage", said.file))
			if err != nil {
				t.Fatal(err)
			}
			fake := "#!/bin/sh\ncat >/dev/null\ncat '" + output + "'\n"
			if err := os.WriteFile(filepath.Join(dir, program), []byte(fake), 0o755); err != nil {
				t.Fatal(err)
			}
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
				written, err := os.ReadFile(used)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := api.ParseUsage(string(written)); err != nil || got.Report() != said.want {
					t.Errorf("%s: %+v, %v; want %+v", written, got, err, said.want)
				}
			}
			if tried != 1 {
				t.Errorf("docs/usage.md has %d lines for %s", tried, program)
			}
		})
	}
}
