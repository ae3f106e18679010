package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk is a file system in memory that a test can fill up.
type SmallDisk struct {
	t    testing.TB
	Path string
}

// NewSmallDisk mounts a file system of that many bytes at a directory of the test's own. It
// goes with the test. Where this user may not mount anything, the test is skipped.
func NewSmallDisk(t testing.TB, bytes int) *SmallDisk {
	t.Helper()
	s := &SmallDisk{t, t.TempDir()}
	if err := unix.Mount("dibs-test", s.Path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(s.Path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *SmallDisk) ballast() string { return filepath.Join(s.Path, "ballast") }

// Fill takes all the room that is left.
func (s *SmallDisk) Fill() {
	s.t.Helper()
	f, err := os.OpenFile(s.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for page := bytes.Repeat([]byte{1}, 1<<16); len(page) > 0; {
		if _, err := f.Write(page); err != nil {
			page = page[:len(page)/2]
		}
	}
}

// Free gives back what Fill took.
func (s *SmallDisk) Free() {
	s.t.Helper()
	if err := os.Remove(s.ballast()); err != nil {
		s.t.Fatal(err)
	}
}
