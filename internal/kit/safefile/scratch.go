package safefile

import (
	"os"
	"path/filepath"
	"strings"
)

// Scratch creates a file for this user alone in the directory for temporary files. Its name begins
// with prefix and ends with suffix. RemoveAbandoned leaves it while it is open. The caller removes
// it.
func Scratch(prefix, suffix string) (*os.File, error) {
	for {
		f, err := os.CreateTemp("", prefix+"*"+suffix)
		if err != nil {
			return nil, err
		}
		// Without locks RemoveAbandoned removes nothing.
		_ = lock(f, false)
		if isAt(f.Name(), f) {
			return f, nil
		}
		f.Close() // it was removed before it was locked
	}
}

// RemoveAbandoned removes the files of Scratch with that prefix and suffix whose process died
// before it removed them. It leaves files of other users, and links.
func RemoveAbandoned(prefix, suffix string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			removeAbandoned(filepath.Join(os.TempDir(), e.Name()))
		}
	}
}

func removeAbandoned(path string) {
	f, err := Open(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && Owner(info) == os.Geteuid() && lock(f, true) == nil && isAt(path, f) {
		os.Remove(path)
	}
}

// isAt reports whether f is the file at path.
func isAt(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(there, info)
}
