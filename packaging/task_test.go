package packaging_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// TestTasksAreListed compares the tasks of .ci/task with its help, and with the tasks that .ci/run
// calls.
func TestTasksAreListed(t *testing.T) {
	out := testkit.Got(exec.Command("../.ci/task", "help").Output())(t)
	var listed, known []string
	for _, line := range regexp.MustCompile(`(?m)^  (\w+) `).FindAllStringSubmatch(string(out), -1) {
		listed = append(listed, line[1])
	}
	script := testkit.Got(os.ReadFile("../.ci/task"))(t)
	_, choice, _ := strings.Cut(string(script), "\ncase $task in\n")
	for _, label := range regexp.MustCompile(`(?m)^  (\w+(?: \| [\w-]+)*)\)`).FindAllStringSubmatch(choice, -1) {
		for name := range strings.SplitSeq(label[1], " | ") {
			if !strings.HasPrefix(name, "-") {
				known = append(known, name)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(known)
	if diff := cmp.Diff(known, listed); diff != "" || len(known) < 7 {
		t.Errorf("tasks (-known +listed):\n%s", diff)
	}
	run := testkit.Got(os.ReadFile("../.ci/run"))(t)
	for _, call := range regexp.MustCompile(`(?m)^\.ci/task (\w+)`).FindAllStringSubmatch(string(run), -1) {
		testkit.Check(t, slices.Contains(known, call[1]), ".ci/run asks for the task %s, which there is not", call[1])
	}

	unknown := exec.Command("../.ci/task", "nonsense")
	if out, err := unknown.CombinedOutput(); unknown.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), `no task "nonsense"`) {
		t.Errorf("an unknown task: %v\n%s", err, out)
	}
}
