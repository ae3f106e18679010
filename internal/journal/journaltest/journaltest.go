// Package journaltest makes new journals cheaply, for tests that need many.
package journaltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"dibs/internal/journal"
)

// Make puts a new journal at path, and makes its directory if need be. It is what
// [journal.Open] makes of no file; but the tables, which take longer than all else that Open
// does, are made once in a process. A file that is there is left alone.
func Make(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := template()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// template is the content of a new journal.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, journal.FileName)
	j, err := journal.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := j.Close(); err != nil { // which leaves all in the one file
		return nil, err
	}
	return os.ReadFile(path)
})
