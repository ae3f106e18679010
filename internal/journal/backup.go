package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrExists says that a backup would overwrite a file.
var ErrExists = errors.New("it exists already: name another file")

// Backup writes a copy of the journal in the file at path to a new file, for this user alone, whether
// or not a daemon has the journal open: the copy is the journal as of one moment. The new file is there
// whole, and on the disk, or not at all. The error is ErrExists if there is a file already, and that of
// Inspect if the journal cannot be read.
func Backup(ctx context.Context, path, to string) error {
	j, err := openToRead(path)
	if err != nil {
		return err
	}
	defer j.readers.Close()
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, ErrExists)
	}
	err = j.engine.check(ctx, j.readers)
	number := 0
	if err == nil {
		number, err = schemaOf(ctx, j.engine, j.readers)
	}
	if err != nil {
		return j.failed(err, "reading the journal")
	}
	if number == 0 {
		return fmt.Errorf("%s is empty: start the daemon first", path)
	}
	if err := j.copyTo(ctx, to); err != nil {
		return fmt.Errorf("writing the copy %s: %w", to, err)
	}
	return nil
}

// copyTo writes a copy of the journal to a new file.
func (j *Journal) copyTo(ctx context.Context, to string) error {
	copied, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(copied.Name())
	if err := snapshot(ctx, j.readers.DB, copied); err != nil {
		return err
	}
	if err := os.Link(copied.Name(), to); errors.Is(err, fs.ErrExist) {
		return ErrExists
	} else if err != nil { // a file system without links
		if err := os.Rename(copied.Name(), to); err != nil {
			return err
		}
	}
	return syncDirectory(filepath.Dir(to))
}
