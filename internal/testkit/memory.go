package testkit

import (
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	place = "/dev/shm"
	// enough is the space needed in bytes: containers often have very little.
	enough = 256 << 20
)

// RunInMemory runs the tests of a package and returns the exit code. If the machine has a file
// system in memory, [testing.T.TempDir] makes its directories there. A TMPDIR that is set is
// respected, and benchmarks stay on the disk, which is part of what they measure.
//
// The journal waits for the disk at each commit. A test of hours of virtual time commits thousands
// of times, and on a shared disk it would spend most of its time waiting. The result does not
// depend on it.
func RunInMemory(m *testing.M) int {
	if !flag.Parsed() { // else what was set since would be forgotten
		flag.Parse()
	}
	if place := Memory(); os.Getenv("TMPDIR") == "" && place != "" {
		if dir, err := os.MkdirTemp(place, "dibs"); err == nil {
			defer os.RemoveAll(dir)
			os.Chmod(dir, 0o711) // tests act as other users, too
			os.Setenv("TMPDIR", dir)
			defer os.Unsetenv("TMPDIR") // tests may be run again
		}
	}
	return m.Run()
}

// Memory returns the path of a file system in memory. It is empty if the machine has none with enough
// space, or while benchmarks run.
func Memory() string {
	var fs unix.Statfs_t
	if bench := flag.Lookup("test.bench"); bench != nil && bench.Value.String() != "" {
		return ""
	}
	if unix.Statfs(place, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < enough {
		return ""
	}
	return place
}
