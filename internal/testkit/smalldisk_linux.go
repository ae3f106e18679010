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

// NewSmallDisk mounts a file system of so many bytes in a temporary directory until the test ends.
// The test is skipped if this user may not mount.
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

// Fill uses up the free space.
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

// Free removes what Fill wrote.
func (s *SmallDisk) Free() {
	s.t.Helper()
	if err := os.Remove(s.ballast()); err != nil {
		s.t.Fatal(err)
	}
}
