package cli_test

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"dibs/internal/cli"

	"github.com/google/go-cmp/cmp"
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
		if err := os.WriteFile(golden, all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("help (-want +got):\n%s", diff)
	}
}
