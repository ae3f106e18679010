package chaos_test

import (
	"flag"
	"os"
	"testing"

	"dibs/internal/testkit"
)

var long = flag.Bool("long", false, "let chaos go on for a quarter of an hour")

func TestMain(m *testing.M) {
	if os.Getenv(chaosDaemon) != "" {
		os.Exit(serveChaos())
	}
	os.Exit(testkit.RunInMemory(m))
}
