package testkit

import (
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	place = "/dev/shm"
	// enough is the space that there has to be: containers often have very little.
	enough = 256 << 20
)

// RunInMemory runs the tests of a package, with the directories that [testing.T.TempDir]
// makes in memory if the machine has a file system there, and returns the exit
// code. A TMPDIR that is set is respected, and benchmarks stay on the disk, which
// is part of what they measure.
//
// The journal waits for the disk at each commit, and a test that works for hours of virtual time
// commits thousands of times: on a disk that others use, too, most of the time of such tests is
// that wait. What they check does not depend on it.
func RunInMemory(m *testing.M) int {
	flag.Parse()
	if os.Getenv("TMPDIR") == "" && flag.Lookup("test.bench").Value.String() == "" && usable() {
		if dir, err := os.MkdirTemp(place, "dibs"); err == nil {
			defer os.RemoveAll(dir)
			os.Chmod(dir, 0o711) // tests act as other users, too
			os.Setenv("TMPDIR", dir)
			defer os.Unsetenv("TMPDIR") // tests may be run again
		}
	}
	return m.Run()
}

func usable() bool {
	var fs unix.Statfs_t
	return unix.Statfs(place, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= enough
}
