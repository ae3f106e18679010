package testkit

import (
	"flag"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SkipUnderRace skips a test in which the race detector could find nothing, if it is on.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("single-threaded: runs without the race detector")
	}
}

// Clock is a clock.Source with this machine's time, or that of a synctest bubble.
type Clock struct{}

func (Clock) Now() time.Time { return time.Now() }

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

// ShortDir is T.TempDir with a path that is short enough for a socket's.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir := Got(os.MkdirTemp("", "dibs"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Quick says that only what is quick is wanted: -short without the race detector. With it, -short
// leaves out cases of sweeps only, so that whatever goes on at the same time is watched. It is the
// least of four degrees: then comes go test, then [Long], then [InFull].
func Quick() bool { return testing.Short() && !Race }

// TakesSeconds leaves a test out where only what is quick is wanted: it runs in .ci/task test
// and with the race detector.
func TakesSeconds(t testing.TB) {
	t.Helper()
	if Quick() {
		t.Skip("takes seconds: left out with -short")
	}
}

// Long leaves a test out that takes long by nature, such as one of many processes in real time: it
// runs once in .ci/run, with TEST_LONG=once, and in .ci/task long.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("takes long: TEST_LONG=once runs it, TEST_LONG=all in full")
	}
}

// InFull says that all cases of the sweeps are wanted, and the longest runs: TEST_LONG=all.
func InFull() bool { return os.Getenv("TEST_LONG") == "all" }

// RacedElsewhere leaves a test out under the race detector with -short. Other tests run each of its
// statements, and take each of its locks while a second goroutine uses it.
func RacedElsewhere(t testing.TB) {
	t.Helper()
	if Race && testing.Short() {
		t.Skip("shows the race detector what others show: left out with -short")
	}
}
