package chaos_test

import (
	"flag"
	"os"
	"testing"

	"dibs/internal/testkit"
)

var long = flag.Bool("long", false, "let chaos go on for a quarter of an hour")

// beside lets a test run beside the others: each bends the clocks of its own processes only. With
// -long each has the machine to itself.
func beside(t *testing.T) {
	if !*long {
		t.Parallel()
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(chaosDaemon) != "" {
		os.Exit(serveChaos())
	}
	os.Exit(testkit.RunInMemory(m))
}
